//! Which program is taken, and what is said when none can be.

use tempfile::TempDir;

use super::*;

#[test]
fn the_setting_goes_before_the_variable_and_the_variable_before_the_path() {
    let home = tempfile::tempdir().unwrap();
    let [given, named, in_path] = ["2.15.1", "2.15.2", "2.15.3"]
        .map(|version| server(&home, version, &format!("nats-server: v{version}")));
    let search = in_path.parent().unwrap().as_os_str().to_owned();
    let found = |explicit, named: Option<&PathBuf>| {
        let named = named.map(|path| path.as_os_str().to_owned());
        let places = Places { explicit, named, search: Some(search.clone()) };
        let binary = places.find().unwrap();
        (binary.path().to_owned(), binary.source(), binary.version().patch)
    };
    assert_eq!(found(Some(&given), Some(&named)), (given.clone(), Source::Given, 1));
    assert_eq!(found(None, Some(&named)), (named.clone(), Source::Environment, 2));
    assert_eq!(found(None, None), (in_path.clone(), Source::SearchPath, 3));
}

#[test]
fn an_empty_variable_names_nothing() {
    let home = tempfile::tempdir().unwrap();
    let path = server(&home, "a", "nats-server: v2.12.0");
    let search = Some(path.parent().unwrap().as_os_str().to_owned());
    let places = Places { explicit: None, named: Some(OsString::new()), search };
    assert_eq!(places.find().unwrap().path(), path);
}

#[test]
fn a_variable_that_names_nothing_is_not_passed_over() {
    let home = tempfile::tempdir().unwrap();
    let path = server(&home, "a", "nats-server: v2.15.1");
    let search = Some(path.parent().unwrap().as_os_str().to_owned());
    let places = Places { explicit: None, named: Some("/nowhere/nats-server".into()), search };
    let error = places.find().unwrap_err();
    let ServerError::NotFound { looked } = &error else { panic!("{error}") };
    assert_eq!(looked, "/nowhere/nats-server (from NATS_SERVER), which is no program");
}

#[test]
fn without_any_the_sentence_says_what_to_do() {
    let places = Places { explicit: None, named: None, search: Some("/nowhere".into()) };
    assert_eq!(
        places.find().unwrap_err().to_string(),
        "no nats-server: looked at NATS_SERVER (not set) and PATH; install nats-server 2.15.1, \
         set NATS_SERVER or run `cargo xtask nats`"
    );
}

#[test]
fn a_server_that_is_too_old_is_refused_with_its_version() {
    let home = tempfile::tempdir().unwrap();
    let path = server(&home, "old", "nats-server: v2.11.9");
    let error = find_server(Some(&path)).unwrap_err();
    let ServerError::TooOld { version, .. } = &error else { panic!("{error}") };
    assert_eq!(version.to_string(), "2.11.9");
    assert!(error.to_string().contains("expected at least 2.12.0; install nats-server 2.15.1"));
}

#[test]
fn a_program_that_is_no_server_is_told_what_it_answered() {
    let home = tempfile::tempdir().unwrap();
    let path = server(&home, "other", "something 1.0");
    let error = find_server(Some(&path)).unwrap_err();
    let ServerError::NotAServer { said, .. } = &error else { panic!("{error}") };
    assert_eq!(said, "`--version` answered `something 1.0`");
}

#[test]
fn a_file_that_may_not_be_run_is_no_program() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("nats-server");
    fs::write(&path, "#!/bin/sh\n").unwrap();
    assert!(matches!(find_server(Some(&path)), Err(ServerError::NotFound { .. })));
}

#[test]
fn a_version_has_three_numbers() {
    let read = |text| Version::parse(text).map(|version| version.to_string());
    assert_eq!(read("2.15.1").as_deref(), Some("2.15.1"));
    assert_eq!(read("2.15.0-RC.1").as_deref(), Some("2.15.0"));
    for bad in ["", "2", "2.15", "2.15.x", "2.15.1.4", "-1.2.3", "2.15.99999999999"] {
        assert_eq!(read(bad), None, "{bad}");
    }
}

/// A program in a folder of its own that answers `says`.
///
/// Another process writes it: a file that is open for writing anywhere cannot be run, and whatever
/// this process has open, a child that another test just starts has open as well.
fn server(home: &TempDir, folder: &str, says: &str) -> PathBuf {
    let folder = home.path().join(folder);
    fs::create_dir(&folder).unwrap();
    let path = folder.join("nats-server");
    let script = format!("#!/bin/sh\necho '{says}'\n");
    let write = r#"printf '%s' "$1" > "$2" && chmod 755 "$2""#;
    let mut shell = Command::new("/bin/sh");
    let written = shell.args(["-c", write, "write", &script]).arg(&path).status().unwrap();
    assert!(written.success());
    path
}
