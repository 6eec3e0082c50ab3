//! `vakbus approvals ls`: which approvals there are.

use super::{book, print, reader};
use crate::{
    args::{ApprovalsLsArgs, Global},
    engine::Session,
    error::{CliError, Exit},
    print as out,
};

pub(super) async fn run(
    args: &ApprovalsLsArgs,
    session: &Session,
    global: &Global,
) -> Result<Exit, CliError> {
    let reader = reader(session).await?;
    let book = book(&reader, args.session.as_ref()).await?;
    let now = session.clock.now();
    for approval in book.list() {
        let state = approval.state_at(now).as_str();
        if args.state.iter().any(|wanted| wanted.fits(state)) {
            print::line(approval, now, global)?;
        }
    }
    if book.passed_over() > 0 {
        let records = out::counted(book.passed_over(), "record", "records");
        out::remark(&format!("warning: {records} cannot be opened here; -v says why"));
    }
    Ok(Exit::Done)
}
