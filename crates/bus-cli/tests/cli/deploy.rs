//! What a deployment's file becomes, and what is never overwritten.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use crate::{
    deploy_support::{ports, servers},
    support::{Outcome, Place},
};

const EXAMPLE: &str = include_str!("../../../../examples/deploy/fleet.toml");

/// A place with a workspace `fleet` and a deployment's file.
fn place(file: &str) -> Place {
    let place = Place::new();
    assert_eq!(place.run(&["workspace", "new", "fleet"]).code, Some(0));
    place.write("fleet.toml", file);
    place
}

fn render(place: &Place) -> Outcome {
    place.run(&["deploy", "render", "fleet.toml", "--out", "fleet"])
}

fn rendered(file: &str) -> Place {
    let place = place(file);
    let outcome = render(&place);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    place
}

/// All files below a directory, by their paths from there.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            let below = files(&path).into_iter();
            let name = PathBuf::from(path.file_name().unwrap());
            found.extend(below.map(|(file, bytes)| (name.join(file), bytes)));
        } else {
            found.insert(PathBuf::from(path.file_name().unwrap()), fs::read(&path).unwrap());
        }
    }
    found
}

fn names(place: &Place, machine: &str) -> Vec<String> {
    let files = files(&place.path("fleet").join(machine));
    files.into_keys().map(|file| file.display().to_string()).collect()
}

#[test]
fn the_example_becomes_a_folder_for_each_machine() {
    let place = rendered(EXAMPLE);
    let server = ["MANIFEST", "server.conf", "vakbus-nats.service"];
    assert_eq!(names(&place, "n2"), server);
    assert_eq!(names(&place, "n3"), server);
    assert_eq!(
        names(&place, "n1"),
        [
            "MANIFEST",
            "backup.sh",
            "server.conf",
            "vakbus-backup.service",
            "vakbus-backup.timer",
            "vakbus-callout@.service",
            "vakbus-keeper.service",
            "vakbus-nats.service",
            "vakbus.toml",
        ]
    );
    for machine in ["build-1", "build-2"] {
        assert_eq!(
            names(&place, machine),
            [
                "MANIFEST",
                "courier-fleet.creds",
                "keeper-fleet.creds",
                "link-fleet.creds",
                "server.conf",
                "system.creds",
                "vakbus-courier@.service",
                "vakbus-nats.service",
                "vakbus.toml",
            ]
        );
    }
}

#[test]
fn folders_and_files_are_for_their_owner_alone() {
    let place = rendered(EXAMPLE);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let out = place.path("fleet");
    for machine in ["n1", "build-1"] {
        assert_eq!(mode(&out.join(machine)), 0o700);
        for file in names(&place, machine) {
            assert_eq!(mode(&out.join(machine).join(&file)), 0o600, "{file}");
        }
    }
}

#[test]
fn the_manifest_has_the_hash_of_each_file() {
    let place = rendered(EXAMPLE);
    for machine in ["n1", "build-1"] {
        let mut command = std::process::Command::new("sha256sum");
        command.args(["--check", "--strict", "--status", "MANIFEST"]);
        let checked = command.current_dir(place.path("fleet").join(machine)).status().unwrap();
        assert!(checked.success());
        let manifest = place.read(&format!("fleet/{machine}/MANIFEST"));
        assert_eq!(manifest.lines().count() + 1, names(&place, machine).len());
    }
}

#[test]
fn rendering_twice_changes_nothing() {
    let place = rendered(EXAMPLE);
    let before = files(&place.path("fleet"));
    let again = render(&place);
    assert_eq!(again.code, Some(0), "{again:?}");
    assert!(again.stdout.lines().all(|line| line.ends_with("nothing changed")), "{again:?}");
    assert_eq!(files(&place.path("fleet")), before);
}

#[test]
fn a_fleet_of_many_workspaces_is_rendered_again() {
    let names: Vec<String> = (1..=8).map(|number| format!("w{number}")).collect();
    let place = place(&EXAMPLE.replace("[\"fleet\"]", &format!("{names:?}")));
    for name in &names {
        assert_eq!(place.run(&["workspace", "new", name]).code, Some(0));
    }
    let (first, again) = (render(&place), render(&place));
    assert_eq!((first.code, again.code), (Some(0), Some(0)), "{first:?} {again:?}");
    assert!(place.read("fleet/n1/server.conf").len() > 64 * 1024);
    assert!(again.stdout.lines().all(|line| line.ends_with("nothing changed")), "{again:?}");
}

#[test]
fn no_private_key_stands_in_a_configuration() {
    let place = rendered(EXAMPLE);
    let keys: Vec<String> = files(&place.path("data"))
        .into_iter()
        .filter(|(file, _)| file.extension().is_some_and(|ending| ending == "nk"))
        .map(|(_, seed)| String::from_utf8(seed).unwrap().trim_end().to_owned())
        .collect();
    assert!(keys.len() >= 6, "{}", keys.len());
    for (file, bytes) in files(&place.path("fleet")) {
        let text = String::from_utf8(bytes).unwrap();
        assert!(keys.iter().all(|key| !text.contains(key)), "{}", file.display());
        let is_credentials = file.extension().is_some_and(|ending| ending == "creds");
        assert_eq!(text.contains("SEED"), is_credentials, "{}", file.display());
    }
}

#[test]
fn addresses_beyond_this_machine_need_tls() {
    let (start, rest) = EXAMPLE.split_once("# Files of each machine").unwrap();
    let (_, servers) = rest.split_once("[[server]]").unwrap();
    let place = place(&format!("{start}[[server]]{servers}"));
    let refused = render(&place);
    refused.is_wrong_call("10.0.0.1 is reached by other machines: [tls] is needed");
    assert!(!place.path("fleet").exists());
}

#[test]
fn what_the_file_does_not_know_is_refused_with_its_line() {
    for (text, told) in [
        ("wokspaces = [\"fleet\"]\n", "fleet.toml:1: workspaces: is missing"),
        ("workspaces = [\"fleet\"]\nnats-server = \"/x\"\n", "fleet.toml:1: server: expected"),
        (
            "workspaces = [\"fleet\"]\n[tls]\nca = \"/c\"\ncert = \"/c\"\nkey = \"/k\"\nsign = 1\n",
            "fleet.toml:6: tls.sign: is not known",
        ),
        (
            "workspaces = [\"fleet\"]\n[[server]]\nname = \"n1\"\nhost = \"::1\"\nstroe = \"/s\"\n",
            "fleet.toml:3: server.store: is missing",
        ),
    ] {
        render(&place(text)).is_wrong_call(told);
    }
    let one = servers(1, &ports(1));
    let more = format!("{one}\n[keper]\non = \"n1\"\n");
    render(&place(&more)).is_wrong_call("keper: is not known; meant keeper?");
}

#[test]
fn there_are_one_server_or_three() {
    for count in [0, 2, 4] {
        let file = servers(count, &ports(count));
        render(&place(&file)).is_wrong_call("server: expected 1 or 3");
    }
}

#[test]
fn a_name_or_an_address_is_taken_once() {
    let ports = ports(3);
    let same = servers(3, &ports).replace("\"n3\"", "\"n2\"");
    render(&place(&same)).is_wrong_call("n2 is the name of two");
    let same = servers(3, &[ports[0], ports[0], ports[2]]);
    render(&place(&same)).is_wrong_call("is taken twice");
}

#[test]
fn a_file_that_was_not_written_there_is_never_touched() {
    let place = place(EXAMPLE);
    fs::create_dir_all(place.path("fleet/build-2")).unwrap();
    let mine = place.path("fleet/build-2/server.conf");
    fs::write(&mine, "mine").unwrap();
    fs::set_permissions(&mine, fs::Permissions::from_mode(0o600)).unwrap();
    render(&place).failed_with("build-2/server.conf is not what", "--out");
    assert_eq!(files(&place.path("fleet")).len(), 1);
    assert_eq!(fs::read_to_string(mine).unwrap(), "mine");
}

#[test]
fn a_file_that_was_changed_since_is_never_touched() {
    let place = rendered(EXAMPLE);
    let before = files(&place.path("fleet"));
    fs::write(place.path("fleet/n2/server.conf"), "changed").unwrap();
    place.write("fleet.toml", &EXAMPLE.replace("10.0.0.3", "10.0.0.4"));
    render(&place).failed_with("n2/server.conf is not what", "--out");
    let mut after = files(&place.path("fleet"));
    after.insert("n2/server.conf".into(), before[Path::new("n2/server.conf")].clone());
    assert_eq!(after, before);
}

#[test]
fn a_run_that_was_cut_off_is_done_again() {
    let place = rendered(EXAMPLE);
    let (text, manifest) = (place.read("fleet/n1/server.conf"), place.read("fleet/n1/MANIFEST"));
    place.write("fleet.toml", &EXAMPLE.replace("10.0.0.3", "10.0.0.4"));
    assert_eq!(render(&place).code, Some(0));
    let whole = files(&place.path("fleet"));
    // As it stands in the middle: both are known, and this one is not written yet.
    place.write("fleet/n1/MANIFEST", &(manifest + &place.read("fleet/n1/MANIFEST")));
    place.write("fleet/n1/server.conf", &text);
    let again = render(&place);
    assert_eq!(again.code, Some(0), "{again:?}");
    assert_eq!(files(&place.path("fleet")), whole);
}

#[test]
fn what_is_not_wanted_any_more_is_removed_and_the_rest_brought_up_to_date() {
    let place = rendered(EXAMPLE);
    let credentials = place.read("fleet/build-1/link-fleet.creds");
    let (without, _) = EXAMPLE.split_once("[backup]").unwrap();
    place.write("fleet.toml", &without.replace("10.0.0.3", "10.0.0.4"));
    let outcome = render(&place);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(!names(&place, "n1").iter().any(|file| file.contains("backup")));
    assert!(place.read("fleet/n1/server.conf").contains("10.0.0.4:6222"));
    assert_eq!(place.read("fleet/build-1/link-fleet.creds"), credentials);
}

#[test]
fn a_server_reads_each_configuration_first_when_that_is_asked_for() {
    let place = place(EXAMPLE);
    let check = |place: &Place| {
        let mut command = place.command();
        command.args(["deploy", "render", "fleet.toml", "--out", "fleet", "--check"]);
        command.env("NATS_SERVER", crate::nats_support::program());
        crate::support::run(command, "")
    };
    // The certificates are none of this machine's.
    check(&place).failed_with("does not take the configuration of n1", "certificates");
    assert!(!place.path("fleet").exists());
    let machine = "[[machine]]\nname = \"m1\"\nstore = \"/var/lib/m1\"\n[callout]\n";
    for count in [3, 1] {
        place.write("fleet.toml", &format!("{}{machine}", servers(count, &ports(count))));
        let taken = check(&place);
        assert_eq!((taken.code, taken.stdout.lines().count()), (Some(0), count + 1), "{taken:?}");
    }
}

/// A rendered fleet of one server that does not run, and a machine.
fn one_server() -> Place {
    let file =
        format!("{}[[machine]]\nname = \"m1\"\nstore = \"/var/lib/m1\"\n", servers(1, &ports(1)));
    rendered(&file)
}

fn revoke_machine(place: &Place, machine: &str) -> Outcome {
    let args = ["deploy", "revoke", "fleet.toml", "--out", "fleet", "--machine", machine, "-y"];
    place.run(&args)
}

#[test]
fn what_is_taken_back_while_no_server_is_there_is_written_down_and_told_as_unreachable() {
    let place = one_server();
    let before = place.read("fleet/m1/link-fleet.creds");
    let revoked = revoke_machine(&place, "m1");
    assert_eq!(revoked.code, Some(5), "{revoked:?}");
    assert!(revoked.stdout.starts_with("m1  4 credentials taken back\n"), "{revoked:?}");
    assert!(!place.path("fleet/m1/link-fleet.creds").exists());
    // The same again: those that were taken back, and no others.
    let again = revoke_machine(&place, "m1");
    assert!(again.stdout.starts_with("m1  4 credentials taken back\n"), "{again:?}");
    // The file is put back, and does not count.
    place.write("fleet/m1/link-fleet.creds", &before);
    let path = place.path("fleet/m1/link-fleet.creds");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(render(&place).code, Some(1), "somebody else's file is in the way");
    fs::remove_file(&path).unwrap();
    assert_eq!(render(&place).code, Some(0));
    assert_ne!(place.read("fleet/m1/link-fleet.creds"), before);
}

#[test]
fn a_machine_that_was_given_nothing_is_a_wrong_call() {
    let place = one_server();
    revoke_machine(&place, "m2").is_wrong_call("no machine m2 of vakbus was given credentials");
}

#[test]
fn an_agent_of_a_workspace_that_is_not_of_the_fleet_is_a_wrong_call() {
    let place = one_server();
    let args = ["deploy", "revoke", "fleet.toml", "--out", "fleet", "--agent", "bob", "-y"];
    place.run(&args).is_wrong_call("default is none of the workspaces of fleet.toml");
}
