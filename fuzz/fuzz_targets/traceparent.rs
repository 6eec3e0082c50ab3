//! Gives what libFuzzer makes up to the body `traceparent`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    bus_fuzz::bodies::traceparent::body(data);
});
