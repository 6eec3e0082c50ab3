//! The audit log: its files as they are, and whether they end where the bus goes on.

use std::{path::Path, time::Duration};

use bus_core::{Clock as _, Engine, Seq, SystemClock};
use bus_envelope::Timestamp;
use bus_evidence::{AuditError, AuditLog, AuditLook, AuditMark, AuditRecord, AuditStream};
use bus_subjects::WorkspaceId;
use rustix::fs::{Access, access};

use super::finding::Finding;
use crate::{audit, home::Home, print as out};

/// Its files, as far as they are on this machine.
pub(super) fn files(home: &Home, workspace: &WorkspaceId) -> Vec<Finding> {
    let dir = home.below("audit").below(workspace.as_str());
    if !dir.exists() {
        return vec![Finding::skipped(CHECK, "nothing was written to the audit log yet")];
    }
    let mut findings = unwritable_ones(dir.path(), |path| {
        access(path, Access::WRITE_OK | Access::EXEC_OK).is_ok()
    });
    let mut records = 0_u64;
    for stream in audit::STREAMS {
        match AuditLog::examine(dir.path(), stream) {
            Ok(look) => {
                records = records.saturating_add(look.records);
                findings.extend(look.is_torn.then(|| torn(&look)));
                if stream == AuditStream::Receipts {
                    let now = SystemClock::new().now();
                    findings.extend(unsigned(&look, audit::unsigned_from(&dir), now));
                }
            }
            Err(error) => findings.push(damaged(&error)),
        }
    }
    if findings.is_empty() {
        let records = out::counted(records, "record", "records");
        findings.push(Finding::ok(CHECK, format!("its newest files hold {records}, all whole")));
    }
    findings
}

/// Its end, held against what `engine` has there.
pub(super) async fn against(
    engine: &dyn Engine,
    home: &Home,
    workspace: &WorkspaceId,
) -> Vec<Finding> {
    let dir = home.below("audit").below(workspace.as_str());
    let mut findings = Vec::new();
    for stream in audit::STREAMS {
        // What cannot be read of it was told before.
        let Ok(look) = AuditLog::examine(dir.path(), stream) else { continue };
        let checked = follows(engine, (stream, workspace), &look).await;
        findings.extend(checked.unwrap_or_else(|error| {
            Some(Finding::skipped(CHECK, format!("the {} cannot be read: {error}", stream.name())))
        }));
    }
    findings
}

/// What is wrong between the files and the stream.
async fn follows(
    engine: &dyn Engine,
    of: (AuditStream, &WorkspaceId),
    look: &AuditLook,
) -> bus_core::Result<Option<Finding>> {
    let name = of.0.name();
    // Older ones may be of a bus that was replaced, or be gone by now.
    if let Some(mark) = look.last {
        let found = found_at(engine, of, mark).await?;
        if found != Found::Same {
            return Ok(Some(parted(found, mark, name)));
        }
    }
    let next = look.last.map_or(1, |mark| mark.seq.saturating_add(1));
    let mut records = audit::records(engine, of, Seq(next)).await?;
    let Some(first) = records.next().await.transpose()? else { return Ok(None) };
    let waits = SystemClock::new().now().since(first.time);
    Ok((waits > LATE).then(|| {
        let since = first.time;
        Finding::warn(CHECK, format!("it lacks {name} that are stored since {since}"))
            .expected("a log that follows within seconds")
            .mend("run vakbus up; where it runs, it says why its log is behind")
    }))
}

/// What the stream has where the log has a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Same,
    Another,
    Nothing,
}

fn parted(found: Found, mark: AuditMark, name: &str) -> Finding {
    let replaced = "if the bus was replaced or restored, nothing: the log goes on with the new one";
    if found == Found::Nothing {
        let what = format!("the bus has none of the {name} at position {}", mark.seq);
        return Finding::warn(CHECK, what).expected("the last one of the audit log").mend(replaced);
    }
    let what = format!("the bus has another record of the {name} at position {}", mark.seq);
    Finding::bad(CHECK, what).expected("the last one of the audit log").mend(format!(
        "{replaced}. Else somebody changed one of them: hold both against checkpoints and backups"
    ))
}

/// What the stream has where the log says.
async fn found_at(
    engine: &dyn Engine,
    of: (AuditStream, &WorkspaceId),
    mark: AuditMark,
) -> bus_core::Result<Found> {
    let mut records = audit::records(engine, of, Seq(mark.seq)).await?;
    let there = records.next().await.transpose()?;
    Ok(match there {
        Some(there) if there.seq != Seq(mark.seq) => Found::Nothing,
        Some(there) if AuditRecord::new(of.0, &there).hash() == mark.hash => Found::Same,
        Some(_) => Found::Another,
        None => Found::Nothing,
    })
}

/// The folders of a log in `dir` that are there and that nobody can write to, as `may_write` says.
fn unwritable_ones(dir: &Path, may_write: impl Fn(&Path) -> bool) -> Vec<Finding> {
    let folders = ["", "receipts", "approvals", "checkpoints"].map(|folder| dir.join(folder));
    let of_those = folders.iter().filter(|path| path.exists() && !may_write(path));
    of_those.map(|path| unwritable(path)).collect()
}

fn unwritable(path: &Path) -> Finding {
    Finding::bad(CHECK, format!("{} cannot be written", path.display()))
        .expected("a directory of this user with mode 0700")
        .mend(format!("chmod 0700 {}, or chown it to who runs the daemon", path.display()))
}

fn damaged(error: &AuditError) -> Finding {
    let reason = std::error::Error::source(error).map(|reason| format!(": {reason}"));
    let finding = Finding::bad(CHECK, format!("{error}{}", reason.unwrap_or_default()));
    match error {
        AuditError::Log { path, .. } => finding.mend(format!(
            "move {} away: what the bus holds of it is written again",
            path.display()
        )),
        _ => finding.mend("see that its folder can be read by who runs the daemon"),
    }
}

fn torn(look: &AuditLook) -> Finding {
    let file = look.file.as_deref().unwrap_or(Path::new("a file"));
    Finding::warn(CHECK, format!("{} ends in the middle of a line", file.display()))
        .expected("whole lines")
        .mend("run vakbus up: it closes the line off, and writes its record again")
}

/// What the signed heads lack.
fn unsigned(look: &AuditLook, from: Seq, now: Timestamp) -> Option<Finding> {
    let (last, stored) = (look.last?, look.stored?);
    (Seq(last.seq) >= from && now.since(stored) > LATE).then(|| {
        Finding::warn(CHECK, format!("receipts from position {} on are not signed for", from.0))
            .expected("a signed head within a minute")
            .mend("run vakbus up: it signs what an earlier process left")
    })
}

const CHECK: &str = "audit";

/// After how long the log should have what is stored, and heads be signed.
const LATE: Duration = Duration::from_secs(5 * 60);

#[cfg(test)]
mod tests {
    use bus_envelope::EventHash;

    use super::{super::finding::Level, *};

    #[test]
    fn a_last_record_that_is_gone_is_a_warning_and_another_in_its_place_is_bad() {
        let mark = AuditMark { seq: 7, hash: EventHash::of(b"x") };
        let gone = parted(Found::Nothing, mark, "receipts");
        assert_eq!(gone.found, "the bus has none of the receipts at position 7");
        let other = parted(Found::Another, mark, "receipts");
        assert_eq!(other.found, "the bus has another record of the receipts at position 7");
        assert_ne!(gone.level, other.level);
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_bad_and_one_that_is_not_there_is_nothing() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("receipts")).unwrap();
        assert_eq!(unwritable_ones(dir.path(), |_| true), []);
        let told = unwritable_ones(dir.path(), |path| path == dir.path());
        assert_eq!(told.len(), 1, "{told:?}");
        let receipts = dir.path().join("receipts").display().to_string();
        let [_, told] = &unwritable_ones(dir.path(), |_| false)[..] else {
            panic!("two are there")
        };
        assert_eq!(
            (told.level, &told.found),
            (Level::Bad, &format!("{receipts} cannot be written"))
        );
        assert!(told.mend.as_ref().unwrap().starts_with(&format!("chmod 0700 {receipts}")));
    }

    #[test]
    fn a_head_is_late_after_some_minutes_and_not_before() {
        let stored = Timestamp::from_unix_ns(1_767_225_600_000_000_000);
        let last = AuditMark { seq: 7, hash: EventHash::of(b"x") };
        let look = AuditLook { last: Some(last), stored: Some(stored), ..AuditLook::default() };
        let late = stored.plus(LATE + Duration::from_secs(1));
        assert!(unsigned(&look, Seq(7), late).unwrap().found.contains("position 7"));
        assert_eq!(unsigned(&look, Seq(8), late), None);
        assert_eq!(unsigned(&look, Seq(7), stored.plus(LATE)), None);
    }
}
