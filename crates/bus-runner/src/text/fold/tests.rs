//! Bounds of memory, and what a row keeps when it is written in.

use super::*;

/// The most that a fold of 64 rows holds: rows of cells, each with marks.
const HELD_MAX: usize = 64 * 16 * 1024 * (24 + 24 + 32);

fn held_after(mut next: impl FnMut(usize) -> String, bytes: usize) -> usize {
    let mut fold = Fold::new(FoldLimits::text());
    let mut pushed = 0;
    for round in 0.. {
        let piece = next(round);
        pushed += piece.len();
        fold.push(piece.as_bytes(), &mut |_| {});
        if pushed >= bytes {
            break;
        }
    }
    fold.screen.rows.iter().map(row::Row::held).sum()
}

#[test]
fn memory_has_a_bound_whatever_comes() {
    let floods: [(&str, &str, usize); 6] = [
        ("\u{1b}]", "0;title that never ends ", 4 << 20),
        ("\u{1b}P", "device control ", 4 << 20),
        ("\u{1b}[", "1111111111111111;", 4 << 20),
        ("a", "\u{301}\u{301}\u{301}\u{301}", 4 << 20),
        // These cost a walk along the row with each few bytes.
        ("", "a\u{301}\u{301}\u{302}\u{1b}[31mb\u{1b}[32m\r\u{1b}[9999C", 64 << 10),
        ("", "\u{1b}[1;1H\u{1b}[65535@x\u{1b}[65535b\u{1b}[65535;9999Hy", 64 << 10),
    ];
    for (first, next, bytes) in floods {
        let piece = |round| if round == 0 { first.to_owned() } else { next.repeat(50) };
        let held = held_after(piece, bytes);
        assert!(held <= HELD_MAX, "{first:?} {next:?}: {held} bytes");
    }
}

#[test]
fn a_string_that_never_ends_holds_nothing() {
    let held =
        held_after(|round| if round == 0 { "\u{1b}]".into() } else { "x".repeat(9_999) }, 1 << 20);
    assert_eq!(held, 0);
}

#[test]
fn a_mark_too_many_is_dropped() {
    let marks = "\u{301}".repeat(20);
    for output in [format!("a{marks}"), format!("ab\ra\rb{marks}")] {
        let mut fold = Fold::new(FoldLimits::one_row());
        fold.push(output.as_bytes(), &mut |_| {});
        let text: Vec<_> = fold.lines().map(|line| line.text.into_owned()).collect();
        assert_eq!(text.concat().matches('\u{301}').count(), flat::MARKS_MAX, "{output:?}");
    }
}

#[test]
fn a_few_bytes_make_no_long_line() {
    let mut fold = Fold::new(FoldLimits::one_row());
    fold.push(b"\x1b[65535Cx\x1b[65535b", &mut |line| panic!("{line:?}"));
    assert!(fold.lines().all(|line| line.text.len() <= 1025));
}

#[test]
fn a_row_that_is_full_goes_on_in_the_next_line() {
    let columns_max = NonZeroUsize::new(4).unwrap();
    let mut fold = Fold::new(FoldLimits { columns_max, ..FoldLimits::one_row() });
    let mut lines = Vec::new();
    fold.push("ab  日本c\nd".as_bytes(), &mut |line| {
        lines.push((line.text.into_owned(), line.is_cut));
    });
    let cut = |text: &str| (text.to_owned(), true);
    assert_eq!(lines, [cut("ab  "), cut("日本"), ("c".to_owned(), false)]);
}

#[test]
fn a_fold_in_which_nothing_is_open_is_as_new() {
    let mut fold = Fold::new(FoldLimits::one_row());
    let mut push = |bytes: &[u8]| {
        fold.push(bytes, &mut |_| {});
        fold.is_idle()
    };
    assert!(push(b"a line\n"));
    assert!(!push(b"a"));
    assert!(push(b"\n"));
    assert!(!push(b"\x1b[31m"));
    assert!(push(b"\x1b[m\r"));
    assert!(!push(b"\xe2\x82"));
    assert!(!push(b"\xac\x1b["));
    assert!(push(b"K\n"));
}
