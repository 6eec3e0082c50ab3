//! Whatever single bit of a bundle is flipped, the verifier finds something wrong.

use std::thread;

use super::support::{Files, World, judge};

#[test]
fn every_single_flipped_bit_is_found() {
    let world = World::new();
    // The smallest bundle with an entry in every log: every byte of it is walked.
    let mut story = world.story(1);
    story.certificates.truncate(2);
    story.add_receipt(&world.ann, 0);
    let whole = story.files(&world.boss);
    assert!(judge(&world, &whole).is_ok());
    let flips: Vec<(&str, usize)> = whole
        .iter()
        .flat_map(|(file, bytes)| (0..bytes.len() * 8).map(|bit| (file.as_str(), bit)))
        .collect();
    let workers = thread::available_parallelism().map_or(1, usize::from).min(flips.len());
    let missed: Vec<String> = thread::scope(|scope| {
        let share = |worker| flips.iter().skip(worker).step_by(workers);
        let (world, whole) = (&world, &whole);
        let threads: Vec<_> = (0..workers)
            .map(|worker| scope.spawn(move || missed(world, whole, share(worker))))
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(missed.is_empty(), "not noticed: {missed:?}");
}

fn missed<'a>(
    world: &World,
    whole: &Files,
    flips: impl Iterator<Item = &'a (&'a str, usize)>,
) -> Vec<String> {
    let mut files = whole.clone();
    let mut missed = Vec::new();
    for (file, bit) in flips {
        flip(&mut files, file, *bit);
        if judge(world, &files).is_ok() {
            missed.push(format!("{file} bit {bit}"));
        }
        flip(&mut files, file, *bit);
    }
    missed
}

fn flip(files: &mut Files, file: &str, bit: usize) {
    files.get_mut(file).unwrap()[bit / 8] ^= 1 << (bit % 8);
}
