//! Many commands at once.

use serde_json::Value;

use crate::support::{Gate, Lines, Place, Running, adds_up};

#[test]
fn a_thousand_short_commands_run_at_once() {
    let place = Place::new();
    let arrived = Lines::through(&place.pipe("arrived"));
    let mut gate = Gate::at(&place.pipe("gate"));
    place.write("tasks", &"x\n".repeat(THOUSAND));
    let mut command = place.command();
    command.args(["swarm", "--json", "--workers", "1000", "--tasks", "tasks", "--"]);
    command.args(["sh", "-c", "echo here >arrived; read x <gate; echo done"]);
    let swarm = Running::start(command);
    // None of them goes on before all are there.
    for _ in 0..THOUSAND {
        assert_eq!(arrived.next().as_deref(), Some("here"));
    }
    gate.open_for(THOUSAND);
    let peak = swarm.peak_mib();
    let ended = swarm.ended();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let summary: Value = ended.json();
    adds_up(&summary);
    assert_eq!(summary["completed"], THOUSAND, "{summary}");
    assert!(peak < PEAK_MIB, "{peak} MiB");
}

const THOUSAND: usize = 1000;

/// Much more than it needs, and much less than if each command held what it may.
const PEAK_MIB: u64 = 512;
