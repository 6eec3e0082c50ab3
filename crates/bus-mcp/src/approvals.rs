//! The tools about approvals: asked here, answered by people elsewhere, used once.

use std::time::Duration;

use bus_authority::{ApprovalName, Approvals, NotUsed, Refusal};
use bus_core::{ApprovalRequest, Endpoint};
use serde_json::{Value, json};

use crate::{
    answer::{Answer, Refused},
    data::clean,
    tools::Args,
};

/// Asks, and takes the use of the answer when it comes in time.
pub(crate) async fn request(endpoint: &Endpoint, desk: &Approvals, args: &Args) -> Answer {
    let choices = args.texts("choices").unwrap_or_else(|| vec!["yes", "no"]);
    let approve_with = args.text("approve_with").unwrap_or("yes");
    if !choices.contains(&approve_with) {
        let reason = format!("{approve_with:?} is none of the choices, so no answer allows it");
        return Err(Refused::argument("approve_with", reason));
    }
    let (action, target) = (args.needed("action")?, args.needed("target")?);
    let mut request =
        ApprovalRequest::new(action, target, &choices)?.approval_choice(approve_with)?;
    if let Some(valid) = args.seconds("valid_seconds") {
        request = request.valid_for(valid)?;
    }
    if let Some(question) = args.text("question") {
        request = request.question(question)?;
    }
    if let Some(run) = args.text("run") {
        request = request.run(run)?;
    }
    let asked = desk.request(args.text("id"), &request).await?;
    let name = ApprovalName::from(asked.approval);
    let wait = args.seconds("wait_seconds").unwrap_or_default();
    let state = match wait.is_zero() {
        true => json!({ "state": "open", "allowed": false }),
        false => take(endpoint, desk, &name, args, wait).await?,
    };
    let mut answer = json!({ "approval": asked.approval.to_string(), "id": asked.id });
    if let (Some(answer), Value::Object(state)) = (answer.as_object_mut(), state) {
        answer.extend(state);
    }
    Ok(answer)
}

/// Waits for the answer to what was asked before.
pub(crate) async fn wait(endpoint: &Endpoint, desk: &Approvals, args: &Args) -> Answer {
    let name = ApprovalName::new(args.needed("approval")?);
    let wait = args.seconds("wait_seconds").unwrap_or_default();
    let mut answer = take(endpoint, desk, &name, args, wait).await?;
    if let Some(answer) = answer.as_object_mut() {
        answer.insert("approval".to_owned(), json!(name.to_string()));
    }
    Ok(answer)
}

async fn take(
    endpoint: &Endpoint,
    desk: &Approvals,
    name: &ApprovalName,
    args: &Args,
    wait: Duration,
) -> Answer {
    let (action, target) = (args.needed("action")?, args.needed("target")?);
    let ask = desk.ask(action, target, args.text("run"))?;
    let until = (!wait.is_zero()).then(|| endpoint.clock().now().plus(wait));
    match desk.take(name, &ask, until).await {
        Ok(used) => Ok(json!({
            "state": "consumed",
            "allowed": true,
            "choice": used.verdict.choice,
            "by": used.verdict.by.as_str(),
            "note": used.verdict.note.as_deref().map(|note| clean(note.as_bytes())),
            "record": used.record.0,
        })),
        Err(NotUsed::Declined(verdict)) => Ok(json!({
            "state": "declined",
            "allowed": false,
            "choice": verdict.choice,
            "by": verdict.by.as_str(),
            "note": verdict.note.as_deref().map(|note| clean(note.as_bytes())),
        })),
        Err(NotUsed::Refused(Refusal::Open)) => Ok(json!({ "state": "open", "allowed": false })),
        Err(other) => Err(other.into()),
    }
}
