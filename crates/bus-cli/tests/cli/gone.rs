//! What was signed is shown, proved and exported when the agent that signed it is gone.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

use bus_core::{Certificate, Revocation};
use bus_crypto::SigningKey;
use bus_envelope::Timestamp;

use crate::{
    receipts::{done, listed},
    support::{Outcome, Place},
};

fn account(place: &Place) -> String {
    let shown = place.run(&["workspace", "show", "--json"]).json();
    shown["account"].as_str().unwrap().to_owned()
}

fn export(place: &Place, dir: &str) -> Outcome {
    let session = listed(place, &[])[0]["session"].as_str().unwrap().to_owned();
    place.run(&["receipts", "export", dir, "--session", &session])
}

/// Everything that receipts are good for goes well, in files whose names begin with `name`.
#[track_caller]
fn is_all_shown(place: &Place, name: &str) {
    assert!(listed(place, &[]).iter().all(|line| line["verified"] == true), "{name}");
    let (proof, bundle) = (format!("{name}.proof"), format!("{name}.bundle"));
    let proved = place.run(&["receipts", "prove", "t-1", "-o", &proof]);
    assert_eq!(proved.code, Some(0), "{proved:?}");
    let exported = export(place, &bundle);
    assert_eq!(exported.code, Some(0), "{exported:?}");
    for file in [&proof, &bundle] {
        let checked = place.run(&["verify", file, "--trust", &account(place)]);
        assert!(checked.stdout.starts_with("verified"), "{checked:?}");
    }
}

/// The certificate of the worker that did the tasks, which is kept for ever.
fn certificate(place: &Place) -> Certificate {
    let kept = fs::read_dir(place.workspace().join("certificates")).unwrap();
    let texts = kept.map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap());
    let mut all = texts.map(|text| Certificate::parse(text.trim_end()).unwrap());
    all.find(|certificate| certificate.agent.as_str() == "cli-worker").unwrap()
}

fn credentials(place: &Place) -> PathBuf {
    place.workspace().join("agents/cli-worker.creds")
}

#[test]
fn receipts_of_an_agent_that_was_revoked_later_are_shown_and_verified() {
    let place = done(&["t-1", "t-2"]);
    let revoked = place.run(&["agent", "revoke", "cli-worker", "--yes"]);
    assert_eq!(revoked.code, Some(0), "{revoked:?}");
    assert!(!credentials(&place).exists());
    is_all_shown(&place, "later");
    place.write("revoked", &place.run(&["agent", "ls", "--revocations"]).stdout);
    for file in ["later.proof", "later.bundle"] {
        let args = ["verify", file, "--trust", &account(&place), "--revoked", "revoked"];
        let refused = place.run(&args);
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert!(refused.stdout.contains("revoked"), "{refused:?}");
        let checked = place.run(&[&args[..], &["--trust-recorder"]].concat());
        assert_eq!(checked.code, Some(0), "{checked:?}");
        if file == "later.bundle" {
            assert!(checked.stdout.contains("envelopes, revoked since "), "{checked:?}");
        }
    }
}

#[test]
fn receipts_of_an_agent_whose_files_were_removed_are_shown() {
    let place = done(&["t-1", "t-2"]);
    fs::remove_file(credentials(&place)).unwrap();
    is_all_shown(&place, "removed");
}

#[test]
fn an_agent_of_before_certificates_were_kept_is_kept_when_it_is_revoked() {
    let place = done(&["t-1", "t-2"]);
    fs::remove_dir_all(place.workspace().join("certificates")).unwrap();
    assert_eq!(place.run(&["agent", "revoke", "cli-worker", "--yes"]).code, Some(0));
    is_all_shown(&place, "before");
}

#[test]
fn what_was_stored_after_its_key_was_revoked_is_not_vouched_for() {
    let place = done(&["t-1", "t-2"]);
    // The account took the key back before the work was done.
    let seed = fs::read_to_string(place.workspace().join("account.nk")).unwrap();
    let account = SigningKey::from_seed_text(seed.trim_end()).unwrap();
    let certificate = certificate(&place);
    let line = Revocation::of(&certificate, Timestamp::from_unix_ns(0)).sign(&account).unwrap();
    let dir = place.workspace().join("revoked");
    fs::create_dir(&dir).unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
    let file = dir.join(certificate.nkey.text());
    fs::write(&file, format!("{line}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    fs::remove_file(credentials(&place)).unwrap();
    let found = listed(&place, &[]);
    assert!(found.iter().all(|line| line["verified"] == false), "{found:?}");
    let proved = place.run(&["receipts", "prove", found[0]["position"].to_string().as_str()]);
    for refused in [proved, export(&place, "out")] {
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(4), ""), "{refused:?}");
        assert!(refused.stderr.contains("its key is revoked since 1970-01-01T00"), "{refused:?}");
    }
}
