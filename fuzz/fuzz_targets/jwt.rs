//! Gives what libFuzzer makes up to the body `jwt`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    bus_fuzz::bodies::jwt::body(data);
});
