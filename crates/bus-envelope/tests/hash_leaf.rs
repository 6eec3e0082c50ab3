//! The SHA-256 in use, on the vectors of NIST.

use bus_envelope::EventHash;

#[test]
fn sha_256_gives_the_answers_of_nist() {
    let Some(document) = bus_testdata::json("nist-cavp/sha256_short.json") else { return };
    let cases = document["cases"].as_array().unwrap();
    let wrong: Vec<_> = cases
        .iter()
        .filter(|case| {
            let data = bus_testdata::hex(case["msg"].as_str().unwrap());
            EventHash::of(&data).to_string() != case["sha256"]
        })
        .map(|case| &case["id"])
        .collect();
    assert_eq!(cases.len(), 65, "number of cases");
    assert!(wrong.is_empty(), "{wrong:?}");
}
