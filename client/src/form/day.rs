//! Numbers that start over every day, as in `20261122-000017`: the date is in the tag, so whatever the clock
//! does, a number of a day comes from that day's tag and cannot come twice.

use std::fmt;
use std::str::FromStr;

use super::FormError;
use super::text::{read_padded, write_padded};
use crate::date::{days_of, ymd_of};

/// The time zone whose midnight begins a day: a fixed distance from UTC.
///
/// There is no default. A zone with daylight saving time has two distances; pass the one of the moment, or
/// make the [`Day`] from a date that a library for time zones returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zone {
    minutes: i32,
}

impl Zone {
    /// Coordinated universal time.
    pub const UTC: Self = Self { minutes: 0 };
}

/// Writes `UTC`, or hours and minutes as in `+08:00`.
impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.minutes == 0 {
            return f.write_str("UTC");
        }
        let (sign, minutes) = (if self.minutes < 0 { '-' } else { '+' }, self.minutes.abs());
        write!(f, "{sign}{:02}:{:02}", minutes / 60, minutes % 60)
    }
}

/// Reads `UTC`, or hours and minutes as in `+08:00`, up to 18 hours.
impl FromStr for Zone {
    type Err = FormError;

    fn from_str(text: &str) -> Result<Self, FormError> {
        let wrong = || FormError::Zone(text.to_owned());
        if text == "UTC" {
            return Ok(Self::UTC);
        }
        let two = |part: &str| {
            let is_number = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| part.parse::<i32>().ok()).flatten()
        };
        let (sign, rest) = match text.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, text.strip_prefix('+').ok_or_else(wrong)?),
        };
        let (hours, minutes) = rest.split_once(':').ok_or_else(wrong)?;
        let (hours, minutes) = (two(hours).ok_or_else(wrong)?, two(minutes).ok_or_else(wrong)?);
        let total = hours * 60 + minutes;
        if minutes > 59 || total > 18 * 60 {
            return Err(wrong());
        }
        Ok(Self { minutes: sign * total })
    }
}

/// A date whose IDs have a tag of their own.
///
/// Read the clock once, and take both the tag and the text from the same `Day`: then the date in the text
/// is the one that the number belongs to, even at midnight.
///
/// ```
/// use leaf_client::form::{Day, Zone};
///
/// let day = Day::at(1_795_305_600_000, Zone::UTC);
/// let tag = day.tag("invoices"); // ask leafd for an ID of this tag
/// assert_eq!(tag, "invoices-20261122");
/// assert_eq!(day.text(17, 6), "20261122-000017");
/// assert_eq!(Day::parse("20261122-000017", 6), Ok((day, 17)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day {
    year: u16,
    month: u8,
    day: u8,
}

/// Digits of the number unless a caller wants others.
pub(super) const DIGITS: usize = 6;

impl Day {
    /// The date at this time, in milliseconds since 1970, in this zone. Times outside the years 1970 to
    /// 9999 give the first or last day.
    #[must_use]
    pub fn at(unix_ms: u64, zone: Zone) -> Self {
        let minutes = (unix_ms / 60_000).saturating_add_signed(zone.minutes.into());
        let (year, month, day) = ymd_of(minutes / 1440);
        Self { year, month, day }
    }

    /// A date of the calendar, from 1970 to 9999. `None` if there is no such day.
    #[must_use]
    pub fn new(year: u16, month: u8, day: u8) -> Option<Self> {
        days_of(year.into(), month.into(), day.into()).map(|_| Self { year, month, day })
    }

    /// The tag of this day's IDs: `base`, a hyphen and the date.
    #[must_use]
    pub fn tag(self, base: &str) -> String {
        format!("{base}-{self}")
    }

    /// The text of an ID of this day's tag, its number padded to `digits`, between 1 and 19. Texts of one
    /// day sort as the numbers do while these fit.
    #[must_use]
    pub fn text(self, id: u64, digits: usize) -> String {
        let mut text = String::with_capacity(28);
        self.text_into(id, digits, &mut text);
        text
    }

    /// Appends [`Day::text`].
    pub fn text_into(self, id: u64, digits: usize, out: &mut String) {
        let date =
            u64::from(self.year) * 10_000 + u64::from(self.month) * 100 + u64::from(self.day);
        write_padded(date, 8, out);
        out.push('-');
        write_padded(id, digits, out);
    }

    /// Reads what [`Day::text`] writes, and nothing else.
    ///
    /// # Errors
    /// What is wrong with the text, and where.
    pub fn parse(text: &str, digits: usize) -> Result<(Self, u64), FormError> {
        let Some((date, number)) = text.split_once('-') else {
            return Err(FormError::Date(text.to_owned()));
        };
        Ok((date.parse()?, read_padded(number, digits, date.len() + 1)?))
    }
}

/// Writes `YYYYMMDD`.
impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}{:02}{:02}", self.year, self.month, self.day)
    }
}

/// Reads `YYYYMMDD`.
impl FromStr for Day {
    type Err = FormError;

    fn from_str(text: &str) -> Result<Self, FormError> {
        let is_number = text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_digit());
        let date = is_number.then(|| text.parse::<u32>().ok()).flatten();
        let day = date.and_then(|date| {
            let year = u16::try_from(date / 10_000).ok()?;
            Self::new(year, (date / 100 % 100) as u8, (date % 100) as u8)
        });
        day.ok_or_else(|| FormError::Date(text.to_owned()))
    }
}
