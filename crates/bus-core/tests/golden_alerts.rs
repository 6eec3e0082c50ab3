//! Alerts against the golden vectors of the specification.

use bus_core::Alert;
use serde_json::{Value, json};

#[path = "../../../docs/spec/vectors/golden.rs"]
mod golden;

#[test]
fn alerts_are_as_the_specification_says() {
    golden::check("alerts.json", 26, |case| {
        let text = |name: &str| case.get(name).and_then(Value::as_str).unwrap();
        match Alert::from_json(text("type"), text("json").as_bytes()) {
            Ok(Some(alert)) => {
                assert_eq!(alert.event_type(), text("type"));
                String::from_utf8(alert.to_json().unwrap()).unwrap().into()
            }
            Ok(None) => json!({ "refused": "alert-type" }),
            Err(_) => json!({ "refused": "alert" }),
        }
    });
}
