//! A point in time with the one canonical text form of the bus.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use time::format_description::well_known::Rfc3339;
use time::{Date, Month, OffsetDateTime, PrimitiveDateTime, Time};

/// Nanoseconds since 1970-01-01T00:00:00Z; the text form is UTC, `Z` and nine digits.
///
/// Holds the years 0000 to 9999, which have that text form; constructors stop at these ends.
///
/// ```
/// use bus_envelope::Timestamp;
///
/// let time = Timestamp::parse("2026-01-02T03:04:05.000000006Z")?;
/// assert_eq!(time.to_string(), "2026-01-02T03:04:05.000000006Z");
/// assert!(Timestamp::parse("2026-01-02T03:04:05Z").is_err());
/// # Ok::<(), bus_envelope::TimeError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    unix_ns: i128,
}

/// Why a text is not a time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("time is not in canonical form: expected YYYY-MM-DDTHH:MM:SS.nnnnnnnnnZ")]
pub struct TimeError;

impl Timestamp {
    /// 0000-01-01T00:00:00.000000000Z.
    pub const MIN: Self = Self { unix_ns: -62_167_219_200_000_000_000 };

    /// 9999-12-31T23:59:59.999999999Z.
    pub const MAX: Self = Self { unix_ns: 253_402_300_799_999_999_999 };

    /// The time `unix_ns` nanoseconds after the epoch, held between [`MIN`](Self::MIN) and
    /// [`MAX`](Self::MAX).
    #[must_use]
    pub const fn from_unix_ns(unix_ns: i128) -> Self {
        if unix_ns < Self::MIN.unix_ns {
            Self::MIN
        } else if unix_ns > Self::MAX.unix_ns {
            Self::MAX
        } else {
            Self { unix_ns }
        }
    }

    /// Reads the canonical form and no other.
    ///
    /// # Errors
    /// [`TimeError`] for every other text, also for other ways to write the same time.
    pub fn parse(text: &str) -> Result<Self, TimeError> {
        let bytes: &[u8; CanonicalTime::BYTES] =
            text.as_bytes().try_into().map_err(|_| TimeError)?;
        let [
            y1,
            y2,
            y3,
            y4,
            b'-',
            mo1,
            mo2,
            b'-',
            d1,
            d2,
            b'T',
            h1,
            h2,
            b':',
            mi1,
            mi2,
            b':',
            s1,
            s2,
            b'.',
            fraction @ ..,
            b'Z',
        ] = bytes
        else {
            return Err(TimeError);
        };
        let year = number(&[*y1, *y2, *y3, *y4])?;
        let (month, day) = (number(&[*mo1, *mo2])?, number(&[*d1, *d2])?);
        let (hour, minute) = (number(&[*h1, *h2])?, number(&[*mi1, *mi2])?);
        let (second, nanosecond) = (number(&[*s1, *s2])?, number(fraction)?);
        // All but `year` and `nanosecond` have two digits, so the casts keep the value.
        let month = Month::try_from(month as u8).map_err(|_| TimeError)?;
        let date =
            Date::from_calendar_date(year as i32, month, day as u8).map_err(|_| TimeError)?;
        let time = Time::from_hms_nano(hour as u8, minute as u8, second as u8, nanosecond)
            .map_err(|_| TimeError)?;
        Ok(Self { unix_ns: PrimitiveDateTime::new(date, time).assume_utc().unix_timestamp_nanos() })
    }

    /// Reads any RFC 3339 time as an instant, for events made elsewhere.
    ///
    /// The text form is not kept: digits after the ninth are cut, and a leap second becomes the
    /// last nanosecond before it. So a hash must never be taken over such a time.
    ///
    /// # Errors
    /// [`TimeError`] when `text` is not RFC 3339.
    pub fn parse_rfc3339(text: &str) -> Result<Self, TimeError> {
        // The parser of the time crate takes any separator between date and time.
        if !matches!(text.as_bytes().get(10), Some(b'T' | b't')) {
            return Err(TimeError);
        }
        let time = OffsetDateTime::parse(text, &Rfc3339).map_err(|_| TimeError)?;
        Ok(Self::from_unix_ns(time.unix_timestamp_nanos()))
    }

    /// Nanoseconds since the epoch.
    #[must_use]
    pub const fn unix_ns(self) -> i128 {
        self.unix_ns
    }

    /// This time moved on by `by`, at most to [`MAX`](Self::MAX).
    #[must_use]
    pub const fn plus(self, by: Duration) -> Self {
        // The longest Duration has about 2^94 nanoseconds, so neither cast nor sum overflows.
        Self::from_unix_ns(self.unix_ns + by.as_nanos() as i128)
    }

    /// How long after `earlier` this is; zero when it is before.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        let ns = (self.unix_ns - earlier.unix_ns).max(0);
        let (seconds, rest) = (ns / NS_PER_SECOND, ns % NS_PER_SECOND);
        Duration::new(seconds.try_into().unwrap_or(u64::MAX), rest.try_into().unwrap_or(0))
    }

    /// The canonical text, made without allocating.
    pub(crate) fn canonical(self) -> CanonicalTime {
        // Every value between MIN and MAX is a time of the time crate.
        let (seconds, nanosecond) = self.seconds();
        let at = OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH);
        let (year, month, day) = at.to_calendar_date();
        let (hour, minute, second) = at.to_hms();
        let mut text = *b"0000-00-00T00:00:00.000000000Z";
        let [
            y1,
            y2,
            y3,
            y4,
            _,
            mo1,
            mo2,
            _,
            d1,
            d2,
            _,
            h1,
            h2,
            _,
            mi1,
            mi2,
            _,
            s1,
            s2,
            _,
            n1,
            n2,
            n3,
            n4,
            n5,
            n6,
            n7,
            n8,
            n9,
            _,
        ] = &mut text;
        digits([y1, y2, y3, y4], year.unsigned_abs());
        digits([mo1, mo2], u32::from(u8::from(month)));
        digits([d1, d2], u32::from(day));
        digits([h1, h2], u32::from(hour));
        digits([mi1, mi2], u32::from(minute));
        digits([s1, s2], u32::from(second));
        // In threes: nine digits one after the other would wait for each other.
        digits([n1, n2, n3], nanosecond / 1_000_000);
        digits([n4, n5, n6], nanosecond / 1_000 % 1_000);
        digits([n7, n8, n9], nanosecond % 1_000);
        CanonicalTime(text)
    }

    /// Whole seconds since the epoch, and the nanoseconds after them.
    fn seconds(self) -> (i64, u32) {
        // From 1970 to 2554, where a division takes a tenth of the time.
        if let Ok(ns) = u64::try_from(self.unix_ns) {
            return ((ns / 1_000_000_000) as i64, (ns % 1_000_000_000) as u32);
        }
        let seconds = self.unix_ns.div_euclid(NS_PER_SECOND);
        // Between MIN and MAX there are fewer than 2^38 seconds on either side.
        (seconds as i64, self.unix_ns.rem_euclid(NS_PER_SECOND) as u32)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.canonical().as_str())
    }
}

impl FromStr for Timestamp {
    type Err = TimeError;

    fn from_str(text: &str) -> Result<Self, TimeError> {
        Self::parse(text)
    }
}

/// The thirty bytes of a canonical time.
pub(crate) struct CanonicalTime([u8; Self::BYTES]);

impl CanonicalTime {
    /// Length of every canonical time.
    pub(crate) const BYTES: usize = 30;

    /// The text as bytes.
    pub(crate) const fn as_bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }

    /// The text.
    pub(crate) fn as_str(&self) -> &str {
        // Only ASCII is ever written into the array.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

const NS_PER_SECOND: i128 = 1_000_000_000;

fn number(digits: &[u8]) -> Result<u32, TimeError> {
    digits.iter().try_fold(0_u32, |sum, c| {
        if c.is_ascii_digit() { Ok(sum * 10 + u32::from(c - b'0')) } else { Err(TimeError) }
    })
}

fn digits<const N: usize>(places: [&mut u8; N], mut value: u32) {
    for place in places.into_iter().rev() {
        *place = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALMOST: &str =
        "[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-6][0-9]:[0-6][0-9]\\.[0-9]{9}Z";

    fn any_time() -> impl Strategy<Value = Timestamp> {
        let range = Timestamp::MIN.unix_ns()..=Timestamp::MAX.unix_ns();
        range.prop_map(Timestamp::from_unix_ns)
    }

    proptest! {
        #[test]
        fn every_time_survives_its_text(time in any_time()) {
            prop_assert_eq!(Timestamp::parse(&time.to_string()), Ok(time));
        }

        #[test]
        fn whatever_is_accepted_is_printed_back_unchanged(text in ALMOST) {
            if let Ok(time) = Timestamp::parse(&text) {
                prop_assert_eq!(time.to_string(), text);
            }
        }
    }

    #[test]
    fn only_the_canonical_form_is_read() {
        let other = [
            "2026-01-02T03:04:05Z",
            "2026-01-02T03:04:05.000Z",
            "2026-01-02T03:04:05.120000000z",
            "2026-01-02t03:04:05.120000000Z",
            "2026-01-02 03:04:05.120000000Z",
            "2026-01-02T03:04:05.1234567891Z",
            "2026-01-02T03:04:05.120000000+00:00",
            "2026-01-02T03:04:05.1200000-00:00",
            "2026-01-02T03:04:05+02:00",
            "2026-01-02T23:59:60.000000000Z",
            "2026-13-01T00:00:00.000000000Z",
            "2026-02-29T00:00:00.000000000Z",
            "2026-01-02T24:00:00.000000000Z",
            "+026-01-02T03:04:05.120000000Z",
            "2026-01-02T03:04:05America/Lima",
            "2026-01-02T03:04Z",
            "",
        ];
        let accepted: Vec<_> = other.iter().filter(|text| Timestamp::parse(text).is_ok()).collect();
        assert!(accepted.is_empty(), "{accepted:?}");
    }

    #[test]
    fn a_blank_between_date_and_time_is_refused_for_foreign_times_too() {
        assert_eq!(Timestamp::parse_rfc3339("2026-01-02 03:04:05Z"), Err(TimeError));
    }

    #[test]
    fn an_offset_is_taken_into_account() {
        let utc = Timestamp::parse("2026-01-02T01:04:05.000000000Z");
        assert_eq!(Timestamp::parse_rfc3339("2026-01-02T03:04:05+02:00"), utc);
    }

    #[test]
    fn times_stop_at_the_ends_of_the_calendar() {
        assert_eq!(Timestamp::MAX.plus(Duration::MAX), Timestamp::MAX);
        assert_eq!(
            Timestamp::from_unix_ns(i128::MIN).to_string(),
            "0000-01-01T00:00:00.000000000Z"
        );
        assert_eq!(Timestamp::MAX.to_string(), "9999-12-31T23:59:59.999999999Z");
    }

    #[test]
    fn a_time_is_zero_since_a_later_one() {
        let early = Timestamp::from_unix_ns(5);
        assert_eq!(early.since(Timestamp::from_unix_ns(6)), Duration::ZERO);
    }
}
