//! `vakbus config`: shows settings with their origins, changes files, trusts projects.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::{
    args::{ConfigCommand, Global},
    config::{
        self, Changed, Config, FILE_NAME, Key, Origin, Settings, SettingsFile, Standing, Value,
    },
    engine::Paths,
    error::{CliError, Exit},
    home::Home,
    print,
    secrets::Secrets,
};

/// Runs the command.
pub(crate) fn run(command: &ConfigCommand, global: &Global) -> Result<Exit, CliError> {
    let settings = Settings::find(global.settings_file.as_deref(), global.flags.clone())?;
    match command {
        ConfigCommand::Show { origin } => {
            let loaded = settings.load()?;
            if !global.quiet {
                loaded.warnings.iter().for_each(|warning| print::talk(&warning.as_warning()));
            }
            show(&loaded.config, *origin, global)?;
        }
        ConfigCommand::Set { key, value, project } => {
            set(&settings, key, value, *project, global)?;
        }
        ConfigCommand::Unset { key, project } => unset(&settings, key, *project, global)?,
        ConfigCommand::Trust { path, revoke: true } => {
            revoke(&settings, path.as_deref(), global)?;
        }
        ConfigCommand::Trust { path, revoke: false } => {
            trust(&settings, path.as_deref(), global)?;
        }
        ConfigCommand::Path => paths(&settings, global)?,
    }
    Ok(Exit::Done)
}

fn show(config: &Config, with_origin: bool, global: &Global) -> Result<(), CliError> {
    for key in Key::ALL {
        let held = config.get(*key);
        let from = held.map(|held| print::harmless(&held.origin.to_string()));
        if global.json {
            print::json(&json!({
                "setting": key.name(),
                "value": held.map(|held| held.value.to_json()),
                "layer": held.map(|held| held.origin.layer()),
                "origin": from,
            }))?;
            continue;
        }
        let value = held.map_or("(not set)".to_owned(), |held| held.value.to_string());
        let origin = from.filter(|_| with_origin).map(|from| format!("  # {from}"));
        let value = print::harmless(&value);
        print::line(&format!("{:<34} {value}{}", key.name(), origin.unwrap_or_default()))?;
    }
    let home = Home::locate(config.data_dir())?;
    let secrets = Secrets::new(config, &home);
    for name in secrets.names() {
        let source = secrets.bus_secret(name)?.map(|found| found.source.word());
        match global.json {
            true => print::json(&json!({ "secret": name, "source": source }))?,
            false => {
                let there = source.map_or("(a secret, not set)".to_owned(), |source| {
                    format!("(a secret, from the {source})")
                });
                print::line(&format!("{name:<34} {there}"))?;
            }
        }
    }
    engine(config, &home, global)
}

/// Says which engine these settings lead to.
fn engine(config: &Config, home: &Home, global: &Global) -> Result<(), CliError> {
    let of_home = Paths::new(global, home).nats()?.map(|running| running.url);
    let servers = config.nats_url().map(|(url, _)| url.to_owned()).or(of_home);
    if global.json {
        let name = if servers.is_some() { "nats" } else { "own" };
        return print::json(&json!({ "engine": name, "servers": servers }));
    }
    let told = match servers {
        Some(servers) => format!("nats at {servers}; what it promises: vakbus status"),
        None => "this machine's own".to_owned(),
    };
    print::line(&print::harmless(&format!("{:<34} {told}", "engine")))
}

fn set(
    settings: &Settings,
    name: &str,
    text: &str,
    in_project: bool,
    global: &Global,
) -> Result<(), CliError> {
    let shown = config::shortened(name);
    let Some(key) = Key::named(name) else {
        if config::is_secret_name(name) || config::is_secret_text(text) {
            let what = format!("{shown} would be a secret, and no settings file holds one");
            let next = "put it into the environment or the secrets file (vakbus config path)";
            return Err(CliError::usage(what).next(next));
        }
        let what = format!("unknown setting {shown}");
        return Err(CliError::usage(what).next(config::after_unknown(name)));
    };
    let base = match in_project {
        // A path stays relative to the project's file.
        true => PathBuf::new(),
        false => std::env::current_dir().unwrap_or_default(),
    };
    let refused = |expected: String| CliError::usage(format!("{name}: {expected}"));
    let value = key.kind().read(text, &base).map_err(refused)?;
    if config::is_secret_text(text) {
        return Err(refused(
            "the value looks like a secret, and no settings file holds one".into(),
        ));
    }
    if matches!(&value, Value::Path(path) if path.to_str().is_none()) {
        return Err(refused("the current directory is not UTF-8, so give the whole path".into()));
    }
    let path = file(settings, in_project)?;
    check_record(settings, &path, in_project)?;
    let changed = config::set(&path, key, &value)?;
    // What counts is what was changed, and not what was there a moment before.
    let trusted = was_trusted(settings, changed.before.as_ref(), in_project)?;
    changed_to(settings, key.name(), Some(&value), (changed, trusted), global)?;
    if in_project && key.is_privileged() && !trusted && !global.quiet {
        print::talk(&format!(
            "{name} of a project counts only when you trust its file\n  next: vakbus config trust"
        ));
    }
    Ok(())
}

fn unset(
    settings: &Settings,
    name: &str,
    in_project: bool,
    global: &Global,
) -> Result<(), CliError> {
    let path = file(settings, in_project)?;
    check_record(settings, &path, in_project)?;
    let changed = config::unset(&path, name)?;
    let trusted = was_trusted(settings, changed.before.as_ref(), in_project)?;
    if changed.after.is_none() {
        let what = format!("{} does not set {}", path.display(), config::shortened(name));
        if Key::named(name).is_none() {
            return Err(CliError::usage(what).next(config::after_unknown(name)));
        }
        if !global.quiet {
            print::talk(&what);
        }
        return Ok(());
    }
    changed_to(settings, name, None, (changed, trusted), global)
}

/// The file to change.
fn file(settings: &Settings, in_project: bool) -> Result<PathBuf, CliError> {
    match in_project {
        true => settings.places.project_or_new(),
        false => settings.places.user().map(Path::to_owned),
    }
}

/// Has a damaged record of trust be told before anything is changed.
fn check_record(settings: &Settings, path: &Path, in_project: bool) -> Result<(), CliError> {
    if in_project {
        was_trusted(settings, SettingsFile::read(path)?.as_ref(), in_project)?;
    }
    Ok(())
}

/// Whether the project's file is trusted as it is in `file`.
fn was_trusted(
    settings: &Settings,
    file: Option<&SettingsFile>,
    in_project: bool,
) -> Result<bool, CliError> {
    match file.filter(|_| in_project) {
        Some(file) => Ok(settings.trust_store()?.standing(file)? == Standing::Trusted),
        None => Ok(false),
    }
}

/// Says what was changed. A trusted file stays trusted: its owner changed it just now.
fn changed_to(
    settings: &Settings,
    name: &str,
    value: Option<&Value>,
    (changed, was_trusted): (Changed, bool),
    global: &Global,
) -> Result<(), CliError> {
    let Some(file) = changed.after else { return Ok(()) };
    if was_trusted {
        settings.trust_store()?.trust(&file)?;
    }
    let path = file.path.display().to_string();
    if global.json {
        return print::json(&json!({
            "setting": name,
            "value": value.map(Value::to_json),
            "file": path,
        }));
    }
    let value = value.map_or("(not set)".to_owned(), ToString::to_string);
    print::line(&print::harmless(&format!("{name} = {value}  # {path}")))
}

fn trust(settings: &Settings, path: Option<&Path>, global: &Global) -> Result<(), CliError> {
    let path = project(settings, path)?;
    let Some(file) = SettingsFile::read(&path)? else {
        let what = format!("there is no {}", path.display());
        return Err(CliError::usage(what).next("name the project's vakbus.toml"));
    };
    let layer = file.layer(Origin::Project)?;
    settings.trust_store()?.trust(&file)?;
    let sets: Vec<String> = layer
        .privileged()
        .map(|(key, held)| print::harmless(&format!("{} = {}", key.name(), held.value)))
        .collect();
    let path = path.display().to_string();
    if global.json {
        return print::json(&json!({ "file": path, "trusted": true, "sets": sets }));
    }
    print::line(&format!("trusted as it is now: {path}"))?;
    sets.iter().try_for_each(|line| print::line(&format!("  {line}")))
}

fn revoke(settings: &Settings, path: Option<&Path>, global: &Global) -> Result<(), CliError> {
    let path = project(settings, path)?;
    let was = settings.trust_store()?.revoke(&path)?;
    let path = path.display().to_string();
    match (global.json, was) {
        (true, _) => print::json(&json!({ "file": path, "trusted": false, "was": was })),
        (false, true) => print::line(&format!("no longer trusted: {path}")),
        (false, false) => print::line(&format!("was not trusted: {path}")),
    }
}

/// The project's file that `path` means.
fn project(settings: &Settings, path: Option<&Path>) -> Result<PathBuf, CliError> {
    match path {
        Some(path) if path.is_dir() => Ok(path.join(FILE_NAME)),
        Some(path) => Ok(path.to_owned()),
        None => settings.places.project.clone().ok_or_else(|| {
            CliError::usage("there is no vakbus.toml here or above")
                .next("vakbus config trust PATH names one elsewhere")
        }),
    }
}

fn paths(settings: &Settings, global: &Global) -> Result<(), CliError> {
    let config = settings.load().map_or_else(|_| settings.without_files(), |l| l.config);
    let home = Home::locate(config.data_dir())?;
    let secrets = Secrets::new(&config, &home);
    let user = settings.places.user().ok();
    let rows = [
        ("user", user),
        ("project", settings.places.project.as_deref()),
        ("secrets", Some(secrets.file())),
        ("data", Some(home.path())),
    ];
    for (what, path) in rows {
        let Some(path) = path else { continue };
        let state = match what {
            "project" => standing(settings, path),
            _ if path.symlink_metadata().is_ok() => "there",
            _ => "not there",
        };
        let path = path.display().to_string();
        match global.json {
            true => print::json(&json!({ "what": what, "path": path, "state": state }))?,
            false => print::line(&print::harmless(&format!("{what:<8} {path}  ({state})")))?,
        }
    }
    Ok(())
}

fn standing(settings: &Settings, path: &Path) -> &'static str {
    let read = SettingsFile::read(path).ok().flatten();
    let standing = read.and_then(|file| settings.trust_store().ok()?.standing(&file).ok());
    match standing {
        Some(Standing::Trusted) => "trusted",
        Some(Standing::Untrusted) => "not trusted",
        Some(Standing::Changed) => "changed since it was trusted",
        None => "cannot be read",
    }
}
