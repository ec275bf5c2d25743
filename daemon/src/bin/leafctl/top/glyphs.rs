//! Bars and sparklines, in Unicode and, where the locale has no UTF-8, in ASCII. No IO.

use unicode_width::UnicodeWidthChar;

/// The heights of a sparkline, and what stands for them in ASCII.
const HEIGHTS: [(char, char); 8] = [
    ('▁', '_'),
    ('▂', '.'),
    ('▃', ':'),
    ('▄', '-'),
    ('▅', '='),
    ('▆', '+'),
    ('▇', '*'),
    ('█', '#'),
];
const FULL: char = '█';
const EMPTY: char = '░';

/// A bar of `width` columns, of which `part` of `whole` is full: at least one column if it is above 0.
pub(super) fn bar(part: u64, whole: u64, width: usize) -> String {
    let columns = u128::try_from(width).unwrap_or(0);
    let full = (u128::from(part) * columns).div_ceil(u128::from(whole.max(1))).min(columns);
    let full = usize::try_from(full).unwrap_or(width);
    let full_then_empty = std::iter::repeat_n(FULL, full).chain(std::iter::repeat(EMPTY));
    full_then_empty.take(width).collect()
}

/// The last `width` values, scaled to the highest of them; on the left, blanks for those that are
/// missing.
pub(super) fn sparkline(values: impl DoubleEndedIterator<Item = u64>, width: usize) -> String {
    let values: Vec<u64> = values.rev().take(width).collect();
    let most = values.iter().copied().max().unwrap_or(0).max(1);
    let blanks = std::iter::repeat_n(' ', width.saturating_sub(values.len()));
    blanks.chain(values.into_iter().rev().map(|value| height(value, most))).collect()
}

fn height(value: u64, most: u64) -> char {
    // 0 alone is the lowest.
    let step = (u128::from(value) * 7).div_ceil(u128::from(most));
    let height = usize::try_from(step).ok().and_then(|step| HEIGHTS.get(step));
    height.map_or(FULL, |(unicode, _)| *unicode)
}

/// Whether the first of `LC_ALL`, `LC_CTYPE` and `LANG` that is set names UTF-8, as for every program.
pub(super) fn is_utf8<'a>(locale: impl IntoIterator<Item = Option<&'a str>>) -> bool {
    let locale = locale.into_iter().flatten().find(|name| !name.is_empty()).unwrap_or("C");
    let locale = locale.to_ascii_uppercase();
    locale.contains("UTF-8") || locale.contains("UTF8")
}

/// The text in ASCII, with the same number of columns.
pub(super) fn ascii(text: &str) -> String {
    let mut ascii = String::with_capacity(text.len());
    for c in text.chars() {
        let height = HEIGHTS.iter().find(|(unicode, _)| *unicode == c);
        match (c, height) {
            (_, Some((_, plain))) => ascii.push(*plain),
            (EMPTY, _) => ascii.push('.'),
            ('…', _) => ascii.push('~'),
            _ if c.is_ascii() => ascii.push(c),
            _ => ascii.extend(std::iter::repeat_n('?', c.width().unwrap_or(0))),
        }
    }
    ascii
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::width;
    use proptest::prelude::*;

    #[test]
    fn a_bar_is_full_empty_or_in_between() {
        assert_eq!(bar(10, 10, 4), "████");
        assert_eq!(bar(5, 10, 4), "██░░");
        assert_eq!(bar(1, 1000, 4), "█░░░");
        assert_eq!(bar(0, 10, 4), "░░░░");
        assert_eq!(bar(0, 0, 4), "░░░░");
        assert_eq!(bar(u64::MAX, 1, 2), "██");
    }

    #[test]
    fn a_sparkline_shows_the_latest_values_relative_to_their_highest() {
        assert_eq!(sparkline([0, 1, 50, 100].into_iter(), 4), "▁▂▅█");
        assert_eq!(sparkline([100, 1, 2].into_iter(), 2), "▅█");
        assert_eq!(sparkline([0, 0].into_iter(), 4), "  ▁▁");
        assert_eq!(sparkline([u64::MAX, 0].into_iter(), 2), "█▁");
    }

    #[test]
    fn the_first_variable_that_is_set_decides_about_utf8() {
        assert!(is_utf8([Some("C.UTF-8"), Some("C"), None]));
        assert!(is_utf8([None, Some(""), Some("de_DE.utf8")]));
        assert!(!is_utf8([Some("POSIX"), Some("en_US.UTF-8")]));
        assert!(!is_utf8([None, None]));
    }

    proptest! {
        #[test]
        fn ascii_keeps_the_columns(text in "[a-z▁▄█░…订é ]{0,40}") {
            let plain = ascii(&text);
            prop_assert!(plain.is_ascii() && plain.len() == width(&text), "{}", plain);
        }
    }
}
