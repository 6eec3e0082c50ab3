//! Gives what libFuzzer makes up to the body `terminal`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    bus_fuzz::bodies::terminal::body(data);
});
