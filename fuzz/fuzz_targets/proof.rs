//! Gives what libFuzzer makes up to the body `proof`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    bus_fuzz::bodies::proof::body(data);
});
