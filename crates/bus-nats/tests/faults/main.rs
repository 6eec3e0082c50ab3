//! What the engine does when its server is killed, frozen, full or away, or its neighbours
//! misbehave: each fault once in every test run, many times with `cargo xtask faults --long`.
#![cfg(test)]

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    process::ExitCode,
    sync::{Arc, Mutex},
    time::Duration,
};

use libtest_mimic::{Arguments, Trial};

mod away;
mod clock;
mod cluster;
mod deleted;
mod election;
mod fewer;
mod freeze;
mod full;
mod heard;
mod kill;
mod queue;
mod reader;
mod scale;
mod shared;
mod stage;

use scale::Scale;

/// Lists the faults by the file they stand in.
macro_rules! faults {
    ($($file:ident: $($name:ident),+ $(,)?;)+) => {
        const FAULTS: &[Fault] = &[
            $($(Fault {
                name: stringify!($name),
                run: |scale| Box::pin($file::$name(scale)),
            },)+)+
        ];
    };
}

faults![
    kill: a_killed_server_loses_no_acknowledged_append_and_stores_none_twice,
        a_killed_server_loses_no_acknowledged_value;
    freeze: a_frozen_server_ends_every_call_in_time_and_the_same_ids_are_safe;
    away: a_server_that_is_away_refuses_at_once_and_is_found_again,
        clients_of_a_lost_server_do_not_come_back_all_at_once,
        a_watch_goes_on_after_every_restart,
        a_subscription_hears_again_after_every_restart;
    deleted: a_deleted_stream_is_told_and_can_be_declared_again,
        a_deleted_bucket_is_told_to_its_watch,
        a_watch_whose_consumer_is_deleted_goes_on;
    full: a_full_stream_takes_no_more_than_fits_and_nothing_is_dropped,
        a_full_disk_loses_nothing_that_was_acknowledged;
    reader: a_watch_that_is_never_read_slows_nobody,
        a_subscriber_that_never_reads_slows_nobody,
        a_connection_that_never_reads_is_cut_off_alone;
    shared: two_engines_that_append_to_one_head_never_both_win,
        two_engines_that_declare_one_name_agree_or_are_told;
    queue: every_task_is_done_through_every_kill,
        a_frozen_server_ends_verdicts_in_time_and_no_task_is_lost,
        a_deleted_consumer_is_told_to_its_members_and_its_tasks_stay,
        two_engines_on_one_durable_name_share_its_tasks,
        a_member_that_never_reads_keeps_no_task_from_others;
    clock: a_client_whose_clock_is_an_hour_off_keeps_every_time;
    cluster: a_killed_leader_loses_nothing_acknowledged,
        a_frozen_follower_holds_up_nobody,
        two_lost_servers_refuse_and_store_nothing_alone,
        a_repeat_that_is_refused_ends_no_stream;
    heard: a_subscription_is_in_force_at_every_server_also_while_one_is_frozen;
    election: acknowledgements_return_half_a_second_after_the_election,
        a_frozen_leader_is_replaced_for_clients_of_others_and_its_own;
    fewer: two_of_three_go_on_after_a_cold_start,
        one_of_three_alone_takes_nothing,
        a_stream_is_never_made_in_fewer_copies;
];

fn main() -> ExitCode {
    if clock::run_as_child() {
        return ExitCode::SUCCESS;
    }
    let mut arguments = Arguments::from_args();
    // Each has servers of its own; too many at once would measure the machine.
    arguments.test_threads.get_or_insert(THREADS);
    let (scale, rows) = (Scale::of_environment(), Arc::<Mutex<Vec<String>>>::default());
    let trials = FAULTS.iter().map(|fault| {
        let rows = Arc::clone(&rows);
        Trial::test(fault.name, move || {
            let told = fault.try_once(scale);
            rows.lock().unwrap().push(fault.row(&told));
            told.map(drop).map_err(Into::into)
        })
    });
    let ended = libtest_mimic::run(&arguments, trials.collect()).exit_code();
    if std::env::var("VAKBUS_FAULTS_JSON").is_ok_and(|value| value == "1") {
        let rows = rows.lock().unwrap();
        let in_order = FAULTS.iter().filter_map(|fault| {
            let begin = format!("{{\"fault\":\"{}\"", fault.name);
            rows.iter().find(|row| row.starts_with(&begin))
        });
        in_order.for_each(|row| print_line(row));
    }
    ended
}

/// A fault and what must hold under it.
struct Fault {
    name: &'static str,
    /// Panics when it does not hold; else says what was done and counted.
    run: fn(Scale) -> Run,
}

type Run = Pin<Box<dyn Future<Output = String>>>;

impl Fault {
    fn try_once(&self, scale: Scale) -> Result<String, String> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(4).enable_all().build().unwrap();
        let limit = scale.pick(Duration::from_secs(90), Duration::from_secs(1200));
        let run =
            || runtime.block_on(async { tokio::time::timeout(limit, (self.run)(scale)).await });
        let told = match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(facts)) => Ok(facts),
            Ok(Err(_)) => Err(format!("has not ended within {limit:?}")),
            Err(panic) => Err(words(panic.as_ref()).to_owned()),
        };
        runtime.shutdown_background();
        told
    }

    fn row(&self, told: &Result<String, String>) -> String {
        // In this order: the name is what a row is found by.
        let (outcome, field, text) = match told {
            Ok(facts) => ("held", "facts", facts),
            Err(reason) => ("failed", "reason", reason),
        };
        let text = serde_json::to_string(text).unwrap();
        format!("{{\"fault\":\"{}\",\"outcome\":\"{outcome}\",\"{field}\":{text}}}", self.name)
    }
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without words")
}

#[expect(clippy::print_stdout, reason = "the lines on stdout are what the variable asks for")]
fn print_line(row: &str) {
    println!("{row}");
}

const THREADS: usize = 3;
