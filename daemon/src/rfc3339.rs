//! Formats times as RFC 3339 in UTC. Arithmetic only; no clock.

const DAY_MS: u64 = 86_400_000;

/// Days from 0000-03-01 to 1970-01-01 in the proleptic Gregorian calendar.
const DAYS_TO_1970: u64 = 719_468;

/// Days in the 400 years after which the calendar repeats.
const DAYS_PER_ERA: u64 = 146_097;

/// Formats milliseconds since 1970-01-01T00:00:00Z as `2010-11-04T01:42:54.657Z`. Years beyond
/// 9999, which RFC 3339 does not have, get a `+` as in ISO 8601.
#[must_use]
pub fn rfc3339(unix_ms: u64) -> String {
    let (year, month, day) = civil_from_days(unix_ms / DAY_MS);
    let ms = unix_ms % DAY_MS;
    let plus = if year > 9999 { "+" } else { "" };
    format!(
        "{plus}{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}Z",
        ms / 3_600_000,
        ms / 60_000 % 60,
        ms / 1000 % 60,
        ms % 1000
    )
}

/// Year, month and day of the date `days` days after 1970-01-01. It counts years from March, so
/// that the leap day is the last day of a year (Hinnant's algorithm, without negative days).
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let days = days + DAYS_TO_1970;
    let day_of_era = days % DAYS_PER_ERA;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + days / DAYS_PER_ERA * 400 + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_times_have_the_right_calendar_date() {
        for (unix_ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (86_399_999, "1970-01-01T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_288_834_974_657, "2010-11-04T01:42:54.657Z"),
            (1_463_673_600_000, "2016-05-19T16:00:00.000Z"),
            (1_709_164_800_123, "2024-02-29T00:00:00.123Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
            (1_709_251_200_000, "2024-03-01T00:00:00.000Z"),
            (4_107_456_000_000, "2100-02-28T00:00:00.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
            (253_402_300_800_000, "+10000-01-01T00:00:00.000Z"),
        ] {
            assert_eq!(rfc3339(unix_ms), text);
        }
    }

    #[test]
    fn eight_hundred_years_of_days_follow_the_calendar() {
        let leap =
            |y: u64| y.is_multiple_of(4) && (!y.is_multiple_of(100) || y.is_multiple_of(400));
        let mut expected = (1970, 1, 1);
        for days in 0..292_194 {
            assert_eq!(civil_from_days(days), expected);
            let (year, month, day) = expected;
            let length = match month {
                2 => 28 + u64::from(leap(year)),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            expected = match (month, day) {
                (12, 31) => (year + 1, 1, 1),
                (_, d) if d == length => (year, month + 1, 1),
                _ => (year, month, day + 1),
            };
        }
    }

    #[test]
    fn no_time_is_too_large() {
        assert!(rfc3339(u64::MAX).starts_with('+'));
    }
}
