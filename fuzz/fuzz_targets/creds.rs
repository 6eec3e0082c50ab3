//! Gives what libFuzzer makes up to the body `creds`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    bus_fuzz::bodies::creds::body(data);
});
