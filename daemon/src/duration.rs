//! Parses and prints durations such as `500ms`, `5s`, `1h30m`. No IO.

use std::time::Duration;

/// Name and milliseconds of each unit, the largest first.
const UNITS: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// A duration in whole milliseconds, rounded down.
#[must_use]
pub(crate) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Parses whole numbers with a unit each, the larger unit first, such as `1h30m`.
///
/// # Errors
/// Describes what is wrong; the caller adds the name of the option or key.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a duration; write it like 500ms, 5s, 1m or 1h30m");
    let mut units = UNITS.iter();
    let mut rest = text;
    let mut total: u64 = 0;
    loop {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let (number, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        // The iterator only moves on, so no unit can come twice or after a smaller one.
        let (_, scale) = units.find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        let number: u64 = number.parse().map_err(|_| wrong())?;
        total = number
            .checked_mul(*scale)
            .and_then(|ms| total.checked_add(ms))
            .ok_or_else(|| format!("the duration {text:?} is too long"))?;
        if tail.is_empty() {
            return Ok(Duration::from_millis(total));
        }
        rest = tail;
    }
}

/// As [`parse`], but rejects 0.
pub(crate) fn parse_positive(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        Duration::ZERO => Err("the duration must be above 0".to_owned()),
        duration => Ok(duration),
    }
}

/// What a text that is no duration most probably means, as [`parse`] reads it: `10 s`, `1.5s`,
/// `10sec`, `2 days`.
pub(crate) fn guess(text: &str) -> Option<String> {
    const WORDS: [(&str, f64); 15] = [
        ("ms", 1.0),
        ("msec", 1.0),
        ("millis", 1.0),
        ("millisecond", 1.0),
        ("s", 1000.0),
        ("sec", 1000.0),
        ("second", 1000.0),
        ("m", 60_000.0),
        ("min", 60_000.0),
        ("minute", 60_000.0),
        ("h", 3_600_000.0),
        ("hr", 3_600_000.0),
        ("hour", 3_600_000.0),
        ("d", 86_400_000.0),
        ("day", 86_400_000.0),
    ];
    let text = text.trim().trim_matches(['"', '\'']).trim().to_lowercase();
    let (number, unit) = text.split_at(text.find(|c: char| c.is_alphabetic())?);
    let number: f64 = number.trim().parse().ok()?;
    let plain = unit.strip_suffix('s').filter(|singular| !singular.is_empty());
    let is = |word: &str| word == unit || Some(word) == plain;
    let (_, scale) = WORDS.iter().find(|(word, _)| is(word))?;
    let ms = number * scale;
    // A duration of a thousand years is no duration.
    (0.0..=3e13).contains(&ms).then(|| exact(Duration::from_secs_f64(ms.round() / 1000.0)))
}

/// Formats a duration as [`parse`] reads it, in whole milliseconds: `1h30m`.
pub(crate) fn exact(duration: Duration) -> String {
    let mut rest = ms(duration);
    if rest == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    for (unit, scale) in UNITS {
        if rest >= scale {
            text.push_str(&format!("{}{unit}", rest / scale));
            rest %= scale;
        }
    }
    text
}

/// Formats milliseconds roughly: in the two largest units, or in milliseconds alone.
pub fn rough(ms: u64) -> String {
    let (s, m, h) = (ms / 1000, ms / 60_000, ms / 3_600_000);
    match () {
        () if s == 0 => format!("{ms} ms"),
        () if m == 0 => format!("{s} s"),
        () if h == 0 => format!("{m} min {} s", s % 60),
        () if h < 48 => format!("{h} h {} min", m % 60),
        () => format!("{} d {} h", h / 24, h % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_with_their_units() {
        for (text, ms) in [
            ("500ms", 500),
            ("0s", 0),
            ("5s", 5000),
            ("1m", 60_000),
            ("1h", 3_600_000),
            ("1h30m", 5_400_000),
            ("2m3s4ms", 123_004),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn an_error_quotes_what_is_not_a_duration() {
        for text in ["", "5", "s", "-5s", "5 s", "1.5s", "5x", "5s3", "5s1h", "1s1s", "5µs", "٣s"]
        {
            let error = parse(text).unwrap_err();
            assert!(error.contains("is not a duration"), "{text}: {error}");
        }
        assert!(parse("18446744073709551615h").unwrap_err().contains("too long"));
        assert!(parse("18446744073709551615ms1s").is_err());
        assert!(parse_positive("0ms").is_err());
        assert!(parse_positive("1ms").is_ok());
    }

    #[test]
    fn a_duration_is_written_as_it_is_read() {
        for text in ["0s", "1ms", "999ms", "1s", "1m", "1h30m", "24h", "2m3s4ms", "8760h"] {
            assert_eq!(exact(parse(text).unwrap()), text);
        }
        assert_eq!(exact(Duration::from_secs(90_000)), "25h");
    }

    #[test]
    fn a_guess_reads_what_people_write() {
        for (text, meant) in [
            ("10 s", "10s"),
            ("1.5s", "1s500ms"),
            ("10sec", "10s"),
            ("5 Minutes", "5m"),
            ("2d", "48h"),
            ("\"10s\"", "10s"),
            ("ms", ""),
            ("5 parsecs", ""),
            ("10", ""),
            ("-1s", ""),
            ("inf s", ""),
            ("nans", ""),
            ("1e300h", ""),
            ("", ""),
        ] {
            assert_eq!(guess(text).unwrap_or_default(), meant, "{text}");
        }
    }

    #[test]
    fn rough_durations_have_at_most_two_units() {
        assert_eq!(rough(999), "999 ms");
        assert_eq!(rough(59_999), "59 s");
        assert_eq!(rough(61_000), "1 min 1 s");
        assert_eq!(rough(3_600_000), "1 h 0 min");
        assert_eq!(rough(50 * 3_600_000), "2 d 2 h");
    }
}
