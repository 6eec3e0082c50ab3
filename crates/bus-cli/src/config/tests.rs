//! The laws of merging, the nearest name, and every refusal of a settings file.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use proptest::{prelude::*, sample::select};

use super::{
    file::{is_secret_name, is_secret_text},
    key::nearest,
    place::project_file,
    *,
};
use crate::error::Exit;

fn layer(values: &BTreeMap<Key, u8>, at: usize) -> Layer {
    let mut layer = Layer::default();
    for (key, number) in values {
        let origin = Origin::User(PathBuf::from("file"), at);
        layer.insert(*key, Value::Count(u64::from(*number)), origin);
    }
    layer
}

fn layers() -> impl Strategy<Value = Vec<BTreeMap<Key, u8>>> {
    let values = proptest::collection::btree_map(select(Key::ALL.to_vec()), any::<u8>(), 0..8);
    proptest::collection::vec(values, 0..6)
}

proptest! {
    #[test]
    fn of_each_setting_the_last_layer_that_has_it_counts(layers in layers()) {
        let numbered = layers.iter().enumerate().map(|(at, values)| layer(values, at));
        let merged = Config::merge(numbered);
        for key in Key::ALL {
            let last = layers.iter().enumerate().rev().find(|(_, values)| values.contains_key(key));
            match (last, merged.get(*key)) {
                (Some((at, values)), Some(held)) => {
                    prop_assert_eq!(&held.value, &Value::Count(values[key].into()));
                    prop_assert_eq!(&held.origin, &Origin::User(PathBuf::from("file"), at));
                }
                (None, held) => {
                    let default = Config::default();
                    prop_assert_eq!(held, default.get(*key));
                }
                (Some(_), None) => prop_assert!(false, "{} is lost", key.name()),
            }
        }
    }

    #[test]
    fn an_empty_layer_changes_nothing(layers in layers(), place in 0_usize..6) {
        let all: Vec<Layer> =
            layers.iter().enumerate().map(|(at, values)| layer(values, at)).collect();
        let mut with = all.clone();
        with.insert(place.min(all.len()), Layer::default());
        prop_assert_eq!(Config::merge(with), Config::merge(all));
    }

    #[test]
    fn one_wrong_letter_still_finds_the_name(
        key in select(Key::ALL.to_vec()),
        place in any::<prop::sample::Index>(),
    ) {
        let name = key.name();
        let begin = name.rfind('.').map_or(0, |dot| dot + 1);
        let mut wrong = name.as_bytes().to_vec();
        wrong[begin + place.index(name.len() - begin)] = b'q';
        let wrong = String::from_utf8(wrong).unwrap();
        prop_assert_eq!(nearest(&wrong), Some(name));
    }

    #[test]
    fn what_a_value_shows_is_read_as_the_same_value(number in any::<u32>(), ms in 1_u64..1 << 40) {
        let kind = Key::MaxRetries.kind();
        let count = Value::Count(number.into());
        prop_assert_eq!(kind.read(&count.to_string(), Path::new("")), Ok(count));
        let time = Value::Duration(Duration::from_millis(ms));
        prop_assert_eq!(Key::Backoff.kind().read(&time.to_string(), Path::new("")), Ok(time));
    }

    #[test]
    fn no_text_makes_a_settings_file_panic(text in "\\PC{0,200}") {
        let _read = file(&text).layer(Origin::User);
    }

    #[test]
    fn what_is_read_from_bits_of_a_file_is_known_and_what_is_refused_has_its_line(
        bits in proptest::collection::vec(select(BITS.to_vec()), 0..24),
    ) {
        let text = bits.concat();
        match file(&text).layer(Origin::User) {
            Ok(layer) => {
                let lines = text.lines().count();
                for held in layer.0.values() {
                    let Origin::User(_, line) = &held.origin else { panic!("{held:?}") };
                    prop_assert!((1..=lines).contains(line), "{:?} of {}", held, text);
                }
            }
            Err(error) => prop_assert!(error.to_string().contains("/p/vakbus.toml:"), "{error}"),
        }
    }
}

/// What settings files are made of, right and wrong.
const BITS: [&str; 22] = [
    "[server.bus]\n",
    "[server]\n",
    "[worker]\n",
    "[[worker]]\n",
    "workspace",
    "nats_url",
    "bus",
    "max_retries",
    "worker.backoff",
    "server",
    " = ",
    "\"w\"\n",
    "\"nats://h\"\n",
    "3\n",
    "\"1s\"\n",
    "{ ",
    " }\n",
    "'''",
    "\n",
    "# é\n",
    "[limits]\nwatches_max = 1\n",
    ".",
];

fn file(text: &str) -> SettingsFile {
    SettingsFile { path: "/p/vakbus.toml".into(), text: text.to_owned(), is_foreign: false }
}

fn read(text: &str) -> Config {
    Config::merge([file(text).layer(Origin::User).unwrap()])
}

/// Asserts that `text` is refused with `what`, and that its words `canary` are not told.
fn refuses(text: &str, what: &str) {
    let error = file(text).layer(Origin::User).unwrap_err();
    let told = error.to_string();
    assert!(told.contains(what), "{told}");
    assert!(!told.contains("canary"), "{told}");
    assert_eq!(error.code(), Exit::Usage);
}

#[test]
fn the_built_in_settings_are_those_of_the_library() {
    let config = Config::default();
    assert_eq!(config.retry(None, None), RetryPolicy::default());
    assert_eq!(config.limits(), Limits::default());
    assert_eq!(config.workspace().map(WorkspaceId::as_str), Some("default"));
    let missing = Key::ALL.iter().filter(|key| key.default_text().is_some());
    assert!(missing.copied().all(|key| config.get(key).is_some()));
}

#[test]
fn every_setting_of_a_file_is_read_with_its_line() {
    let config = read("workspace = \"w\"\n\n[server.bus]\nnats_url = \"nats://h:4222\"\n");
    assert_eq!(config.workspace().map(WorkspaceId::as_str), Some("w"));
    let held = config.get(Key::NatsUrl).unwrap();
    assert_eq!(held.value, Value::Url("nats://h:4222".to_owned()));
    assert_eq!(held.origin, Origin::User("/p/vakbus.toml".into(), 4));
}

#[test]
fn dotted_keys_and_inline_tables_mean_the_same() {
    let table = read("[worker]\nmax_retries = 9\n");
    for text in ["\nworker.max_retries = 9\n", "\nworker = { max_retries = 9 }\n"] {
        assert_eq!(read(text), table, "{text}");
    }
}

#[test]
fn every_limit_reaches_the_engine() {
    let names = Key::ALL.iter().filter_map(|key| key.name().strip_prefix("limits."));
    let lines: Vec<String> = names.map(|name| format!("{name} = 7")).collect();
    assert_eq!(lines.len(), 9);
    let limits = read(&format!("[limits]\n{}", lines.join("\n"))).limits();
    let told = format!("{limits:?}");
    assert_eq!(told.matches(": 7").count(), 9, "{told}");
}

#[test]
fn a_relative_path_is_taken_from_its_file() {
    assert_eq!(read("data_dir = \"d\"").data_dir(), Some(Path::new("/p/d")));
    assert_eq!(read("data_dir = \"/d\"").data_dir(), Some(Path::new("/d")));
}

#[test]
fn an_unknown_setting_is_refused_with_the_nearest() {
    refuses("[worker]\nmax_retrys = 3", "/p/vakbus.toml:2: unknown setting worker.max_retrys");
    refuses("[worker]\nmax_retrys = 3", "did you mean worker.max_retries?");
}

#[test]
fn a_setting_in_the_wrong_table_is_told_where_it_belongs() {
    refuses("nats_url = \"nats://h\"", "did you mean server.bus.nats_url?");
    refuses("[server]\nnats_url = \"nats://h\"", "did you mean server.bus.nats_url?");
}

#[test]
fn a_name_like_no_other_is_refused_without_a_guess() {
    refuses("frobnicate = 1", "unknown setting frobnicate\n  next: vakbus config --help");
}

#[test]
fn an_unknown_table_is_refused() {
    refuses("[sever.bus]\nx = 1", "/p/vakbus.toml:1: unknown setting sever");
    refuses("[[workers]]\nx = 1", "unknown setting workers");
}

#[test]
fn a_setting_of_another_kind_is_refused() {
    for (text, what) in [
        ("workspace = 3", "workspace: expected a name"),
        ("workspace = \"a/canary\"", "workspace: expected a name"),
        ("color = \"canary\"", "color: expected \"auto\""),
        ("worker.max_retries = \"3\"", "worker.max_retries: expected a whole number"),
        ("worker.max_retries = -1", "expected a whole number up to 4294967295"),
        ("worker.max_retries = 4294967296", "expected a whole number up to 4294967295"),
        ("worker.max_retries = 1.5", "expected a whole number"),
        ("worker.backoff = 5", "worker.backoff: expected a span of time"),
        ("daemon.sync = \"0s\"", "daemon.sync: expected \"always\" or a span of time"),
        ("data_dir = \"~/d\"", "~ is not replaced here"),
        ("data_dir = \"\"", "data_dir: expected a path"),
        ("[workspace]\nx = 1", "workspace: expected a name of 1 to 64"),
        ("server = 1", "server: expected a table"),
        ("server.bus.nats_url = \"http://canary\"", "expected a URL such as"),
        ("server.bus.nats_url = \"nats://\"", "expected a URL such as"),
        ("server.bus.workspace_secret_env = \"A-canary\"", "expected the name of a variable"),
        (
            "server.bus.workspace_secret_env = \"canary00112233445566778899aabbccddee\"",
            "expected the name of a variable",
        ),
        ("server.bus.workspace_secret_env = \"PATH\"", "a variable that holds nothing else"),
        ("server.bus.workspace_secret_env = \"VAKBUS_DATA_DIR\"", "that holds nothing else"),
        ("server.bus.workspace_secret_env = \"VAKBUS_LOG\"", "that holds nothing else"),
        ("server.bus.workspace_secret_env = \"VAK_BUS_NATS_NKEY_SEED\"", "nothing else"),
    ] {
        refuses(text, what);
    }
}

#[test]
fn text_that_is_no_toml_is_refused_with_its_line_and_without_its_words() {
    refuses("workspace = \"a\"\ncolor = canary\n", "/p/vakbus.toml:2: ");
    refuses("[worker\n", "/p/vakbus.toml:1: ");
    refuses("workspace = \"a\"\nworkspace = \"canary\"", "/p/vakbus.toml:2: ");
}

#[test]
fn a_secret_in_a_file_is_refused_by_its_name_alone() {
    for (name, line) in [
        ("VAK_BUS_NATS_NKEY_SEED", 1),
        ("VAK_BUS_NATS_CREDENTIALS_JWT", 1),
        ("workspace_secret", 1),
        ("password", 1),
    ] {
        refuses(&format!("{name} = \"canary\""), &format!(":{line}: {name} holds a secret"));
    }
    refuses("[server.bus]\nnkey_seed = \"canary\"", ":2: server.bus.nkey_seed holds a secret");
    refuses("[other.deep]\napi-token = \"canary\"", ":2: other.deep.api-token holds a secret");
    refuses("[secrets]\na = \"canary\"", ":1: secrets holds a secret");
}

#[test]
fn a_secret_under_a_harmless_name_is_refused() {
    let seed = format!("SU{}", "A".repeat(56));
    for value in [seed.as_str(), "eyJ0eXAi.x.y", "-----BEGIN USER NKEY SEED-----"] {
        refuses(&format!("workspace = \"{value}\""), "workspace holds a secret");
    }
    let error = file("server.bus.nats_url = \"nats://u:canary@h\"").layer(Origin::User);
    assert!(error.unwrap_err().to_string().contains("without user and password"));
}

#[test]
fn no_known_setting_is_taken_for_a_secret() {
    let tables = ["server", "bus", "daemon", "worker", "limits"];
    assert!(!tables.iter().any(|table| is_secret_name(table)));
    assert!(Key::ALL.iter().all(|key| !is_secret_text(key.default_text().unwrap_or_default())));
    let config = read("server.bus.workspace_secret_env = \"SHOP_SECRET\"\nsecrets_file = \"s\"");
    assert_eq!(config.workspace_secret_env(), Some("SHOP_SECRET"));
}

fn environment(name: &'static str, value: &'static str) -> Result<Layer, CliError> {
    Layer::of_environment(|asked| (asked == name).then(|| OsString::from(value)))
}

#[test]
fn every_variable_sets_its_setting() {
    for key in Key::ALL {
        for variable in key.variables() {
            let text = key.default_text().unwrap_or(match key {
                Key::NatsUrl => "nats://h",
                Key::OtelEndpoint => "http://h",
                _ => "V",
            });
            let read = |asked: &str| (asked == *variable).then(|| OsString::from(text));
            let config = Config::merge([Layer::of_environment(read).unwrap()]);
            let held = config.get(*key).unwrap();
            assert_eq!(held.origin, Origin::Variable(variable));
        }
    }
}

#[test]
fn no_two_settings_share_a_variable() {
    let mut all: Vec<&str> = Key::ALL.iter().flat_map(|key| key.variables()).copied().collect();
    all.sort_unstable();
    let count = all.len();
    all.dedup();
    assert_eq!(all.len(), count);
    assert!(!all.contains(&"VAKBUS_WORKSPACE_SECRET"));
}

#[test]
fn an_empty_variable_sets_nothing() {
    assert_eq!(environment("VAKBUS_COLOR", "").unwrap(), Layer::default());
}

#[test]
fn a_wrong_variable_is_refused_by_its_name_without_its_value() {
    let error = environment("VAKBUS_COLOR", "canary").unwrap_err().to_string();
    assert!(error.contains("VAKBUS_COLOR: expected \"auto\"") && !error.contains("canary"));
}

#[test]
fn a_path_in_a_variable_need_not_be_text() {
    use std::os::unix::ffi::OsStringExt;
    let path = OsString::from_vec(vec![b'd', 0xff]);
    let read = |name: &str| Layer::of_environment(|asked| (asked == name).then(|| path.clone()));
    let config = Config::merge([read("VAKBUS_DATA_DIR").unwrap()]);
    assert_eq!(config.data_dir(), Some(Path::new(&path)));
    assert!(read("VAKBUS_COLOR").unwrap_err().to_string().contains("expected UTF-8"));
}

#[test]
fn what_needs_trust_can_be_taken_out_of_a_layer() {
    let mut layer = file("workspace = \"w\"\ndaemon.sync = \"1s\"\n").layer(Origin::User).unwrap();
    assert_eq!(layer.drop_privileged(), [Key::Sync]);
    assert_eq!(layer.privileged().count(), 0);
    assert_eq!(Config::merge([layer]).workspace().map(WorkspaceId::as_str), Some("w"));
}

#[test]
fn where_messages_keys_and_room_go_needs_trust() {
    let open: Vec<&str> =
        Key::ALL.iter().filter(|key| !key.is_privileged()).map(|key| key.name()).collect();
    assert_eq!(open, ["workspace", "color", "worker.max_retries", "worker.backoff"]);
}

#[test]
fn the_nearest_file_upwards_is_the_projects() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    fs::create_dir_all(root.join("home/a/b")).unwrap();
    let here = root.join("home/a/b");
    let home = root.join("home");
    assert_eq!(project_file(&here, Some(&home)), None);
    fs::write(root.join("vakbus.toml"), "").unwrap();
    fs::write(root.join("home/vakbus.toml"), "").unwrap();
    assert_eq!(project_file(&here, Some(&home)), None);
    assert_eq!(project_file(&here, None), Some(home.join("vakbus.toml")));
    fs::write(root.join("home/a/vakbus.toml"), "").unwrap();
    assert_eq!(project_file(&here, Some(&home)), Some(home.join("a/vakbus.toml")));
}

#[test]
fn a_change_tells_which_content_it_changed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("vakbus.toml");
    let value = Value::Count(4);
    let made = set(&path, Key::MaxRetries, &value).unwrap();
    assert!(made.before.is_none());
    // Somebody else writes it a moment before the change: that is what was changed.
    fs::write(&path, "daemon.sync = \"1h\"\n").unwrap();
    let changed = set(&path, Key::MaxRetries, &value).unwrap();
    assert_eq!(changed.before.unwrap().text, "daemon.sync = \"1h\"\n");
}
