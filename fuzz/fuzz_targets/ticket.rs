//! Gives what libFuzzer makes up to the body `ticket`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    bus_fuzz::bodies::ticket::body(data);
});
