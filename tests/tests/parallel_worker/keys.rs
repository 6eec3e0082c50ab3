//! Order per key over parallel workers, retries and a death.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bus_core::{Failure, Handled, Handler, OrderKey, Outgoing, Stop, TaskEvent, Worker};
use bus_stories::{Doing, Ran, Stage, Told, task};
use bus_subjects::Role;

use super::{nothing_is_left, quick, rest, worker_with};

/// Watches that tasks of one key run one after the other and in the order they were sent.
#[derive(Default)]
struct Keys {
    running: HashMap<String, usize>,
    done: HashMap<String, Vec<usize>>,
}

/// A run of one key that is over, however it ends.
struct Running {
    keys: Arc<Mutex<Keys>>,
    key: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        *self.keys.lock().unwrap().running.get_mut(&self.key).unwrap() -= 1;
    }
}

const KEYS: usize = 6;

const TASKS_OF_A_KEY: usize = 20;

/// A handler of the tasks `<key>/<n>`: every third fails its first attempt.
fn in_order(keys: &Arc<Mutex<Keys>>) -> impl Handler + use<> {
    let keys = Arc::clone(keys);
    Doing(move |told: Told| -> Ran {
        let (key, n) = told.text.split_once('/').unwrap();
        let (key, n) = (key.to_owned(), n.parse::<usize>().unwrap());
        let keys = Arc::clone(&keys);
        Box::pin(async move {
            let running = begin(&keys, &key);
            rest(Duration::from_millis(10 + n as u64 % 7)).await;
            if n % 3 == 0 && told.attempt == 1 {
                return Err(Failure::Failed { reason: "not yet".to_owned() });
            }
            keys.lock().unwrap().done.entry(key).or_default().push(n);
            drop(running);
            Ok(Handled)
        })
    })
}

fn begin(keys: &Arc<Mutex<Keys>>, key: &str) -> Running {
    let mut state = keys.lock().unwrap();
    let running = state.running.entry(key.to_owned()).or_default();
    *running += 1;
    assert_eq!(*running, 1, "two tasks of the key {key} run at once");
    Running { keys: Arc::clone(keys), key: key.to_owned() }
}

async fn fill_keys(stage: &Stage) {
    let boss = stage.agent("boss", Role::Orchestrator).unwrap();
    for n in 0..TASKS_OF_A_KEY {
        for key in 0..KEYS {
            let key = OrderKey::parse(&format!("k{key}")).unwrap();
            let draft = task(stage, &format!("{key}/{n}"));
            boss.send(Outgoing::from(draft).key(key)).await.unwrap();
        }
    }
}

fn all_in_order(keys: &Mutex<Keys>) {
    let done = &keys.lock().unwrap().done;
    assert_eq!(done.len(), KEYS);
    for (key, done) in done {
        assert_eq!(*done, (0..TASKS_OF_A_KEY).collect::<Vec<_>>(), "key {key}");
    }
}

#[tokio::test(start_paused = true)]
async fn tasks_of_a_key_keep_their_order_over_parallel_workers_retries_and_a_death() {
    let stage = Stage::new().await.unwrap();
    fill_keys(&stage).await;
    let keys = Arc::new(Mutex::new(Keys::default()));
    let (stop, ended) = (Stop::default(), AtomicUsize::new(0));
    let report = |event: TaskEvent| match event {
        TaskEvent::Completed { .. } => {
            if ended.fetch_add(1, Ordering::Relaxed) + 1 == KEYS * TASKS_OF_A_KEY {
                stop.drain.cancel();
            }
        }
        // What the dead one ran comes back to run alone, and sends its neighbours away for that.
        TaskEvent::Retried { .. } | TaskEvent::Released { .. } => {}
        other => panic!("unexpected: {other:?}"),
    };
    let workers: Vec<Worker> =
        (0..4).map(|n| worker_with(&stage, &format!("coder-{n}"), quick(&stage, 8))).collect();
    let handlers: Vec<_> = (0..4).map(|_| in_order(&keys)).collect();
    let survivors = workers[1..].iter().zip(&handlers[1..]);
    let survivors = futures_util::future::join_all(survivors.map(|(w, h)| w.run(h, &stop, report)));
    // The first worker dies in the middle of what it runs, the lease of which runs out then.
    let mortal = async {
        let death = rest(Duration::from_millis(55));
        tokio::select! {
            ran = workers[0].run(&handlers[0], &stop, report) => ran.unwrap(),
            () = death => {}
        }
    };
    let (ran, ()) = tokio::join!(survivors, mortal);
    ran.into_iter().collect::<bus_core::Result<Vec<()>>>().unwrap();
    all_in_order(&keys);
    nothing_is_left(&stage).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tasks_of_a_key_keep_their_order_on_four_threads_too() {
    let stage = Arc::new(Stage::new().await.unwrap());
    fill_keys(&stage).await;
    let keys = Arc::new(Mutex::new(Keys::default()));
    let (stop, ended) = (Stop::default(), Arc::new(AtomicUsize::new(0)));
    let mut workers = tokio::task::JoinSet::new();
    for n in 0..4 {
        let worker = worker_with(&stage, &format!("coder-{n}"), quick(&stage, 8));
        let (handler, stop, ended) = (in_order(&keys), stop.clone(), Arc::clone(&ended));
        workers.spawn(async move {
            let report = |event: TaskEvent| {
                let is_done = matches!(event, TaskEvent::Completed { .. });
                if is_done && ended.fetch_add(1, Ordering::Relaxed) + 1 == KEYS * TASKS_OF_A_KEY {
                    stop.drain.cancel();
                }
            };
            worker.run(&handler, &stop, report).await
        });
    }
    while let Some(ran) = workers.join_next().await {
        ran.unwrap().unwrap();
    }
    all_in_order(&keys);
}
