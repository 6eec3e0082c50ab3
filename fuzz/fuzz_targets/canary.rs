//! Gives what libFuzzer makes up to the canary, which it must catch.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    bus_fuzz::canary::body(data);
});
