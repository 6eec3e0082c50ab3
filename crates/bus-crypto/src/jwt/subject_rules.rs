//! What the subjects of exports and imports must be, as a server reads them.

use crate::error::CryptoError;

/// Checks that `subject` is one, with or without wildcards.
pub(super) fn check_subject(subject: &str) -> Result<(), CryptoError> {
    let mut levels = subject.split('.').peekable();
    while let Some(level) = levels.next() {
        if level.is_empty() || level.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(CryptoError::BadJwt("a subject has an empty level or white space"));
        }
        if level == ">" && levels.peek().is_some() {
            return Err(CryptoError::BadJwt("a subject goes on behind >"));
        }
    }
    Ok(())
}

/// Checks that level `level`, counted from one, is a `*`.
pub(super) fn check_account_level(subject: &str, level: u32) -> Result<(), CryptoError> {
    let at = usize::try_from(level).ok().and_then(|level| level.checked_sub(1));
    match at.and_then(|at| subject.split('.').nth(at)) {
        Some("*") => Ok(()),
        _ => Err(CryptoError::BadJwt("the account's level is no * of the subject")),
    }
}

/// Checks that none of the subjects is inside another.
pub(super) fn check_apart<'a>(subjects: impl Iterator<Item = &'a str>) -> Result<(), CryptoError> {
    let subjects: Vec<_> = subjects.collect();
    for (at, outer) in subjects.iter().enumerate() {
        let is_inside = |(other, inner): (usize, &&str)| other != at && covers(outer, inner);
        if subjects.iter().enumerate().any(is_inside) {
            return Err(CryptoError::BadJwt("of two subjects one is a part of the other"));
        }
    }
    Ok(())
}

/// Checks that `local` names every wildcard of `subject` once: each `*` as `$1`, `$2` … or, all of
/// them in their order, as `*`; and that both end in `>` or neither.
pub(super) fn check_renaming(subject: &str, local: &str) -> Result<(), CryptoError> {
    check_subject(local)?;
    let wrong = CryptoError::BadJwt("an import's name does not use each wildcard once");
    let ends_open = |text: &str| text.rsplit('.').next() == Some(">");
    if ends_open(subject) != ends_open(local) {
        return Err(wrong);
    }
    let stars = subject.split('.').filter(|level| *level == "*").count();
    let kept = local.split('.').filter(|level| *level == "*").count();
    let mut named = local.split('.').filter_map(number).collect::<Vec<_>>();
    named.sort_unstable();
    let all_kept = kept == stars && named.is_empty();
    let all_named = kept == 0 && named.into_iter().eq(1..=stars);
    if all_kept || all_named { Ok(()) } else { Err(wrong) }
}

/// The number of a level like `$3`. Only such levels are references: `$JS` is a word.
fn number(level: &str) -> Option<usize> {
    let digits = level.strip_prefix('$')?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

fn covers(outer: &str, inner: &str) -> bool {
    // A level like `$1` stands for what a wildcard of another name matched.
    let levels =
        |text| str::split(text, '.').map(|level| if number(level).is_some() { "*" } else { level });
    let (mut outer, mut inner) = (levels(outer), levels(inner));
    loop {
        match (outer.next(), inner.next()) {
            (None, None) => return true,
            (Some(">"), Some(_)) => return true,
            (Some("*"), Some(level)) if level != ">" => {}
            (Some(a), Some(b)) if a == b => {}
            _ => return false,
        }
    }
}
