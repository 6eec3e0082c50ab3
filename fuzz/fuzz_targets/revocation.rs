//! Gives what libFuzzer makes up to the body `revocation`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    bus_fuzz::bodies::revocation::body(data);
});
