//! Approvals' requests, verdicts and ends against the golden vectors of the specification.
#![expect(clippy::unwrap_used, reason = "a damaged vector file must fail the test")]

use bus_core::{
    ApprovalEnd, ApprovalRequest, ApprovalVerdict, EndKind, OpenApproval, ResolvedApproval, Result,
};
use serde_json::{Value, json};

#[path = "../../../docs/spec/vectors/golden.rs"]
mod golden;

#[test]
fn approvals_are_as_the_specification_says() {
    golden::check("approvals.json", 46, |case| {
        let text = |name: &str| case.get(name).and_then(Value::as_str).unwrap();
        let written = match text("do") {
            "ids" => {
                let [request, verdict] = ["request", "verdict"].map(|name| text(name).parse());
                return json!({
                    "verdict": OpenApproval::verdict_id(request.as_ref().unwrap()),
                    "withdrawal": OpenApproval::withdrawal_id(request.as_ref().unwrap()),
                    "notice": ResolvedApproval::notice_id(verdict.as_ref().unwrap()),
                });
            }
            "request" => rewritten(
                ApprovalRequest::from_json(text("json").as_bytes()),
                ApprovalRequest::to_json,
            ),
            "verdict" => rewritten(
                ApprovalVerdict::from_json(text("json").as_bytes()),
                ApprovalVerdict::to_json,
            ),
            kind => {
                let kind = EndKind::of(&format!("vak.approval.{kind}")).unwrap();
                rewritten(
                    ApprovalEnd::from_json(kind, text("json").as_bytes()),
                    ApprovalEnd::to_json,
                )
            }
        };
        written.map_or_else(|| json!({ "refused": "approval" }), Value::from)
    });
}

fn rewritten<T>(read: Result<T>, write: impl Fn(&T) -> Result<Vec<u8>>) -> Option<String> {
    Some(String::from_utf8(write(&read.ok()?).unwrap()).unwrap())
}
