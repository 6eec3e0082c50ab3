//! How attribute values travel in headers: the percent encoding of the `CloudEvents` NATS binding.

use std::borrow::Cow;

use data_encoding::HEXUPPER;

/// Encodes blanks, `"`, `%` and everything outside of U+0021 to U+007E as `%` and upper-case hex.
#[must_use]
pub fn encode_value(value: &str) -> Cow<'_, str> {
    if is_all_plain(value) {
        return Cow::Borrowed(value);
    }
    let mut text = String::with_capacity(value.len() * 2);
    for byte in value.bytes() {
        if is_plain(byte) {
            text.push(char::from(byte));
        } else {
            text.push('%');
            HEXUPPER.encode_append(&[byte], &mut text);
        }
    }
    Cow::Owned(text)
}

/// Undoes double quotes and one round of percent encoding. `None` when the text has a `%` without
/// two hex digits behind it, an unclosed or stray quote, or does not decode to UTF-8.
#[must_use]
pub fn decode_value(text: &str) -> Option<Cow<'_, str>> {
    if is_all_plain(text) {
        return Some(Cow::Borrowed(text));
    }
    let text = unquote(text)?;
    if !text.contains('%') {
        return Some(text);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let (high, low) = (hex(rest.next()?)?, hex(rest.next()?)?);
            bytes.push(high << 4 | low);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

/// To the end in any case: without an early way out this takes many bytes at a time.
fn is_all_plain(text: &str) -> bool {
    text.bytes().fold(true, |all, byte| all & is_plain(byte))
}

const fn is_plain(byte: u8) -> bool {
    matches!(byte, 0x21..=0x7e) & (byte != b'"') & (byte != b'%')
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| value.try_into().ok())
}

fn unquote(text: &str) -> Option<Cow<'_, str>> {
    let Some(quoted) = text.strip_prefix('"') else {
        return (!text.contains('"')).then_some(Cow::Borrowed(text));
    };
    let mut plain = String::with_capacity(quoted.len());
    let mut rest = quoted.chars();
    loop {
        match rest.next()? {
            '"' => return rest.next().is_none().then_some(Cow::Owned(plain)),
            '\\' => plain.push(rest.next()?),
            c => plain.push(c),
        }
    }
}
