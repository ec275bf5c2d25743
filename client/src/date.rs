//! Dates in UTC as people write them, as milliseconds since 1970. Arithmetic only; no clock.

/// Reads `2026-01-01`, `2026-01-01T08:30:00Z` or `2026-01-01T08:30:00.250Z`, from 1970 to 9999.
pub(crate) fn unix_ms(text: &str) -> Option<u64> {
    let (date, time) = match text.split_once(['T', 't', ' ']) {
        Some((date, time)) => (date, Some(time.strip_suffix(['Z', 'z'])?)),
        None => (text, None),
    };
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    Some(days_of(year, month, day)? * 86_400_000 + time.map_or(Some(0), ms_of_day)?)
}

/// Days from 1970-01-01 to this date. `None` if there is no such date from 1970 to 9999.
pub(crate) fn days_of(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1970..=9999).contains(&year)
        || !(1..=12).contains(&month)
        || !(1..=days_in(year, month)).contains(&day)
    {
        return None;
    }
    let years = (1970..year).map(days_in_year).sum::<u64>();
    let months = (1..month).map(|month| days_in(year, month)).sum::<u64>();
    Some(years + months + day - 1)
}

/// Year, month and day so many days after 1970-01-01; the last day of 9999 if that is past it.
pub(crate) fn ymd_of(days: u64) -> (u16, u8, u8) {
    let mut year = 1970;
    let mut left = days;
    while left >= days_in_year(year) {
        left -= days_in_year(year);
        year += 1;
        if year > 9999 {
            return (9999, 12, 31);
        }
    }
    let mut month = 1;
    while left >= days_in(year, month) {
        left -= days_in(year, month);
        month += 1;
    }
    (year as u16, month as u8, left as u8 + 1)
}

const fn days_in_year(year: u64) -> u64 {
    if is_leap(year) { 366 } else { 365 }
}

fn ms_of_day(time: &str) -> Option<u64> {
    let (time, fraction) = time.split_once('.').unwrap_or((time, "000"));
    let [hour, minute, second] = numbers(time, ':', [2, 2, 2])?;
    let [ms] = numbers(fraction, '.', [3])?;
    let is_time = hour < 24 && minute < 60 && second < 60;
    is_time.then_some(((hour * 60 + minute) * 60 + second) * 1000 + ms)
}

/// Numbers with fixed counts of digits.
fn numbers<const N: usize>(text: &str, between: char, digits: [usize; N]) -> Option<[u64; N]> {
    let mut parts = text.split(between);
    let mut numbers = [0; N];
    for (number, digits) in numbers.iter_mut().zip(digits) {
        let part = parts.next()?;
        let is_number = part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit());
        *number = is_number.then(|| part.parse().ok())??;
    }
    parts.next().is_none().then_some(numbers)
}

const fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

const fn days_in(year: u64, month: u64) -> u64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_from_1970_to_9999_has_one_date() {
        let last = days_of(9999, 12, 31).unwrap();
        let mut before = (0, 0, 0);
        for days in (0..50_000).chain(last - 1000..=last) {
            let (year, month, day) = ymd_of(days);
            assert_eq!(days_of(year.into(), month.into(), day.into()), Some(days));
            assert!((year, month, day) > before);
            before = (year, month, day);
        }
        assert_eq!((ymd_of(last + 1), ymd_of(u64::MAX)), ((9999, 12, 31), (9999, 12, 31)));
    }

    #[test]
    fn known_dates_have_their_milliseconds_and_others_are_refused() {
        for (text, ms) in [
            ("1970-01-01", 0),
            ("2000-02-29", 951_782_400_000),
            ("2010-11-04T01:42:54.657Z", 1_288_834_974_657),
            ("2016-05-19T16:00:00Z", 1_463_673_600_000),
            ("2026-01-01", 1_767_225_600_000),
            ("2026-01-01 00:00:00z", 1_767_225_600_000),
            ("9999-12-31T23:59:59.999Z", 253_402_300_799_999),
        ] {
            assert_eq!(unix_ms(text), Some(ms), "{text}");
        }
        for text in [
            "",
            "1969-12-31",
            "10000-01-01",
            "2025-02-29",
            "2026-13-01",
            "2026-00-01",
            "2026-01-32",
            "2026-1-1",
            "2026-01-01T00:00:00",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:00:00+01:00",
            "2026-01-01T00:00:00.5Z",
            "2026-01-01-01",
            "+026-01-01",
        ] {
            assert_eq!(unix_ms(text), None, "{text}");
        }
    }
}
