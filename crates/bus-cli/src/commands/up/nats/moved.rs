//! The store of a server from before, which knew one user and no accounts: it becomes that of the
//! one workspace that is there.

use std::path::Path;

use crate::{
    error::{CliError, Exit},
    home::Home,
    operator::all_workspaces,
    print as out,
};

/// Puts the streams of a server without accounts, in `nats`, into the account of the workspace
/// that they are of. Does nothing where there are none.
///
/// # Errors
/// When there are several workspaces: nobody can tell then which stream is whose.
pub(super) fn into_account(home: &Home, nats: &Path) -> Result<(), CliError> {
    let all = nats.join("jetstream");
    let from = all.join(NO_ACCOUNT);
    if from.symlink_metadata().is_err() {
        return Ok(());
    }
    let workspaces = all_workspaces(home)?;
    let [workspace] = workspaces.as_slice() else {
        let count = workspaces.len();
        let what = format!(
            "the store in {} is from before, when all workspaces shared it, and there are {count}",
            nats.display()
        );
        return Err(CliError::new(Exit::Failed, what).next(
            "take a backup of each with the version that made it, or move that directory away \
             and begin anew",
        ));
    };
    let to = all.join(workspace.store()?.public().text());
    if to.symlink_metadata().is_ok() {
        let what = format!("{} and {} are both there", from.display(), to.display());
        return Err(CliError::new(Exit::Failed, what).next("move one of them away"));
    }
    std::fs::rename(&from, &to).map_err(|error| {
        let what = format!("cannot move {} to {}: {error}", from.display(), to.display());
        CliError::new(Exit::Failed, what)
    })?;
    // What logged in there before is of no use any more.
    home.remove(OLD_LOGIN)?;
    out::remark(&format!("the store of before is that of workspace {} now", workspace.name()));
    Ok(())
}

/// Where a server keeps the streams of users without an account.
const NO_ACCOUNT: &str = "$G";
/// The key that such a server knew.
const OLD_LOGIN: &str = "nats.nk";
