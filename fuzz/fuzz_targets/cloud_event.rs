//! Gives what libFuzzer makes up to the body `cloud_event`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    bus_fuzz::bodies::cloud_event::body(data);
});
