//! `vakbus receipts ls`.

use std::collections::VecDeque;

use super::{
    print,
    record::{self, Record, Said},
};
use crate::{
    args::{Global, ReceiptsLsArgs},
    engine::Agent,
    error::{CliError, Exit},
    print as out,
};

/// Lists the newest that fit, in the order of their storing.
pub(super) async fn run(
    args: &ReceiptsLsArgs,
    agent: &Agent,
    global: &Global,
) -> Result<Exit, CliError> {
    let now = agent.endpoint.clock().now();
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let mut shown: VecDeque<Record> = VecDeque::new();
    let mut earlier = 0_u64;
    record::walk(&agent.endpoint, args.session.as_ref(), |record| {
        let is_new = args.newer.is_none_or(|newer| now.since(record.stored) <= newer);
        if !is_new || !fits(args, &record) {
            return;
        }
        shown.push_back(record);
        if shown.len() > limit {
            shown.pop_front();
            earlier += 1;
        }
    })
    .await?;
    for record in &shown {
        print::line(record, global)?;
    }
    if earlier > 0 {
        let earlier = out::counted(earlier, "earlier one is", "earlier ones are");
        out::remark(&format!("{earlier} not listed; --limit N lists more"));
    }
    Ok(Exit::Done)
}

/// Whether a record is asked for. Of what cannot be opened nobody knows the task.
fn fits(args: &ReceiptsLsArgs, record: &Record) -> bool {
    let agent = record.envelope.as_ref().map(|(envelope, _)| &envelope.lineage.agent);
    let is_by = match (&args.worker, agent) {
        (Some(worker), Some(agent)) => worker == agent,
        _ => true,
    };
    let is_of = match (&args.task, &record.said) {
        (Some(task), Said::Receipt(receipt)) => receipt.task_id == *task,
        (Some(_), Said::Other(_)) => false,
        _ => true,
    };
    is_by && is_of
}
