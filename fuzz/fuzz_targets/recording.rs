//! Gives what libFuzzer makes up to the body `recording`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    bus_fuzz::bodies::recording::body(data);
});
