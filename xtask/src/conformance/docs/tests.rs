//! What the page says, and when it is stale.

use super::*;

fn row(engine: &str, area: &str, case: &str, outcome: Outcome) -> Row {
    let reason = (outcome == Outcome::NotApplicable).then(|| "it forgets".to_owned());
    Row { engine: engine.into(), area: area.into(), case: case.into(), outcome, reason }
}

fn rows() -> Vec<Row> {
    vec![
        row("mem", "Leases", "a_late_settle_is_refused", Outcome::Passed),
        row("mem", "Restarts", "a_restart_keeps_all", Outcome::NotApplicable),
        row("disk", "Leases", "a_late_settle_is_refused", Outcome::Failed),
        row("disk", "Restarts", "a_restart_keeps_all", Outcome::Passed),
    ]
}

#[test]
fn every_case_has_a_line_with_a_cell_for_each_engine() {
    let page = render(&rows(), &["mem", "disk"]);
    let leases = "## Leases\n\n| promise | mem | disk |\n|---|---|---|\n\
                  | A late settle is refused | kept | **broken** |\n";
    assert!(page.contains(leases), "{page}");
    let restarts = "| A restart keeps all | not applicable: it forgets | kept |\n";
    assert!(page.contains(restarts), "{page}");
    assert!(page.contains("\n- **mem**: 1 kept, 1 not applicable.\n"), "{page}");
}

#[test]
fn the_promises_on_the_page_are_read_back() {
    let page = render(&rows(), &["mem", "disk"]);
    let promises: Vec<_> = promises_of(&page).collect();
    assert_eq!(promises, ["A late settle is refused", "A restart keeps all"]);
}

#[test]
fn the_lists_of_a_source_are_found_wherever_they_stand() {
    let source = "const A: &[Case] = cases![Nothing:\n    one,\n    two,\n];\nfn one() {}\n\
                  const B: &[Case] = cases![Restart: three];\n";
    assert_eq!(cases_of(source).collect::<Vec<_>>(), ["one", "two", "three"]);
}

#[test]
fn every_case_of_the_source_is_on_the_page() {
    assert!(lists_every_case(&Repo::find().unwrap()).unwrap());
}

#[test]
fn a_page_that_says_something_else_is_stale() {
    assert!(!settle(&Repo::find().unwrap(), "# Another page\n", false).unwrap());
}

#[test]
fn the_part_of_the_cluster_names_what_is_not_kept_there() {
    let part = render_cluster(&rows());
    assert!(part.contains(": 2 kept, 1 not applicable."), "{part}");
    let left = "|---|---|\n| A restart keeps all | not applicable: it forgets |\n\
                | A late settle is refused | **broken** |\n";
    assert!(part.ends_with(left), "{part}");
}
