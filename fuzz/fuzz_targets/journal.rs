//! Gives what libFuzzer makes up to the body `journal`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    bus_fuzz::bodies::journal::body(data);
});
