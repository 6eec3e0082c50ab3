//! The services of a machine, for systemd.

use super::plan::{Backup, Callout, Plan};

/// A service of it, without what all of them have.
struct Unit<'a> {
    about: &'a str,
    after: &'a str,
    /// The lines of `[Service]` that say what runs.
    service: String,
    /// Where it may write, beside its data home.
    writes: &'a str,
    /// What starts it; nothing for one that a timer starts.
    wanted_by: &'a str,
}

/// The server of NATS.
pub(super) fn nats(plan: &Plan, folder: &str, store: &str) -> String {
    let server = plan.nats_server.display();
    // A lame duck sends its clients away before it goes.
    let service = format!(
        "Type=simple\n\
         ExecStart={server} -c {folder}/server.conf\n\
         ExecReload=/bin/kill -HUP $MAINPID\n\
         KillSignal=SIGUSR2\n\
         TimeoutStopSec=150s\n\
         Restart=always\n\
         RestartSec=1s\n\
         LimitNOFILE=800000\n"
    );
    let unit = Unit {
        about: "nats-server of vakbus",
        after: "network-online.target",
        service,
        writes: store,
        wanted_by: "multi-user.target",
    };
    unit.text()
}

/// Who declares the streams of the cluster and sweeps them.
pub(super) fn keeper(plan: &Plan, folder: &str) -> String {
    // The one that it opens first; it looks after all of them.
    let first = plan.workspaces.first().map_or("default", |workspace| workspace.as_str());
    let service = daemon(&format!("{} --workspace {first} up", command(plan, folder)));
    let unit = Unit { about: "keeper of the vakbus cluster", service, ..DAEMON };
    unit.text()
}

/// Who decides about agents without a token; its instance names are numbers.
pub(super) fn callout(plan: &Plan, folder: &str, callout: &Callout) -> String {
    let service = daemon(&format!("{} auth serve", command(plan, folder)));
    let about = format!("login service of the vakbus cluster, %i of {}", callout.instances);
    Unit { about: &about, service, ..DAEMON }.text()
}

/// The daemon of a workspace on a machine, with its courier; its instance is the workspace.
pub(super) fn courier(plan: &Plan, folder: &str) -> String {
    let service = daemon(&format!(
        "{} --workspace %i --creds {folder}/keeper-%i.creds up \
         --hub-url {} --hub-creds {folder}/courier-%i.creds",
        command(plan, folder),
        plan.client_urls(),
    ));
    let about = "vakbus daemon and courier of the workspace %i";
    Unit { about, service, ..DAEMON }.text()
}

/// Who makes copies, and when.
pub(super) fn backup(folder: &str, backup: &Backup) -> [(&'static str, String); 2] {
    let service = format!(
        "Type=oneshot\n\
         ExecStart=/bin/sh {folder}/backup.sh\n\
         Environment=VAKBUS_DATA_DIR=%S/vakbus\n"
    );
    let writes = backup.dir.display().to_string();
    let unit = Unit {
        about: "backup of the vakbus cluster",
        service,
        writes: &writes,
        wanted_by: "",
        ..DAEMON
    };
    let timer = format!(
        "[Unit]\nDescription=backup of the vakbus cluster\n\n\
         [Timer]\nOnCalendar={}\nPersistent=true\n\n\
         [Install]\nWantedBy=timers.target\n",
        backup.at
    );
    [("vakbus-backup.service", unit.text()), ("vakbus-backup.timer", timer)]
}

/// What makes the copies: each workspace has an account of its own, and so a copy of its own.
pub(super) fn backup_script(plan: &Plan, folder: &str, backup: &Backup) -> String {
    let names: Vec<&str> = plan.workspaces.iter().map(|name| name.as_str()).collect();
    let (names, dir) = (names.join(" "), backup.dir.display());
    let (command, vakbus) = (command(plan, folder), plan.vakbus.display());
    let first_old = backup.keep.saturating_add(1);
    format!(
        r#"#!/bin/sh
# Copies what the cluster keeps, reads the copies back, and removes the oldest.
set -eu
umask 077
now=$(date -u +%Y-%m-%dT%H%M%SZ)
for workspace in {names}; do
  dir="{dir}/$workspace"
  mkdir -p "$dir"
  {command} --workspace "$workspace" backup "$dir/$now"
  {vakbus} backup verify "$dir/$now"
  ls -1d "$dir"/????-??-??T??????Z | sort -r | tail -n +{first_old} | while read -r old; do
    rm -r -- "$old"
  done
done
"#
    )
}

/// The settings of `vakbus` on a machine, which reaches these servers.
pub(super) fn settings(urls: &str, profile: &str, ca: Option<&str>) -> String {
    let mut text =
        format!("server.bus.nats_url = \"{urls}\"\nserver.bus.profile = \"{profile}\"\n");
    if let Some(ca) = ca {
        text.push_str(&format!("server.bus.tls_ca = \"{ca}\"\n"));
    }
    text
}

fn command(plan: &Plan, folder: &str) -> String {
    format!("{} --config {folder}/vakbus.toml", plan.vakbus.display())
}

fn daemon(command: &str) -> String {
    format!(
        "Type=notify\n\
         ExecStart={command}\n\
         ExecReload=/bin/kill -HUP $MAINPID\n\
         Environment=VAKBUS_DATA_DIR=%S/vakbus\n\
         Restart=on-failure\n\
         RestartSec=2s\n\
         # A wrong call stays wrong.\n\
         RestartPreventExitStatus=2\n\
         TimeoutStopSec=30s\n\
         LimitNOFILE=65536\n"
    )
}

impl Unit<'_> {
    fn text(&self) -> String {
        let Self { about, after, service, writes, wanted_by } = self;
        let mut text = format!(
            "[Unit]\nDescription={about}\nAfter={after}\nWants=network-online.target\n\n\
             [Service]\n{service}{OWNER}"
        );
        if !writes.is_empty() {
            text.push_str(&format!("ReadWritePaths={writes}\n"));
        }
        text.push_str(CONFINED);
        if !wanted_by.is_empty() {
            text.push_str(&format!("\n[Install]\nWantedBy={wanted_by}\n"));
        }
        text
    }
}

/// What the services of vakbus have in common; the server of this machine may not be here.
const DAEMON: Unit<'static> = Unit {
    about: "",
    after: "network-online.target vakbus-nats.service",
    service: String::new(),
    writes: "",
    wanted_by: "multi-user.target",
};

const OWNER: &str = "User=vakbus\nGroup=vakbus\nStateDirectory=vakbus\nStateDirectoryMode=0700\n\
                     UMask=0077\n";

/// No privilege, and nothing to write but what is named.
const CONFINED: &str = "\
NoNewPrivileges=yes
CapabilityBoundingSet=
ProtectSystem=strict
ProtectHome=yes
ProtectProc=invisible
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
PrivateDevices=yes
PrivateTmp=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
";
