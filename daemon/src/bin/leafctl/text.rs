//! Text in columns of a terminal, where `订` takes two and a combining accent none.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// How many columns a line takes.
pub(crate) fn width(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// How many of the first bytes fit into `columns`.
fn fitting(text: &str, columns: usize) -> usize {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        used += c.width().unwrap_or(0);
        if used > columns {
            return at;
        }
    }
    text.len()
}

/// `text`, or its beginning and `…` if it takes more than `columns`.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let (kept, _) = text.split_at(fitting(text, columns.saturating_sub(1)));
    if columns == 0 { String::new() } else { format!("{kept}…") }
}

/// Breaks `text` between words into lines of at most `columns`. A longer word is broken too.
pub(crate) fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for mut word in text.split_inclusive(' ') {
        if !line.is_empty() && width(&line) + width(word.trim_end()) > columns {
            lines.push(std::mem::take(&mut line));
        }
        while width(word.trim_end()) > columns {
            let first = word.chars().next().map_or(0, char::len_utf8);
            let (head, tail) = word.split_at(fitting(word, columns).max(first));
            lines.push(head.to_owned());
            word = tail;
        }
        line.push_str(word);
    }
    lines.push(line);
    lines.iter_mut().for_each(|line| line.truncate(line.trim_end().len()));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_text_that_fits_stays_and_a_longer_one_ends_with_an_ellipsis() {
        assert_eq!(cut("orders", 6), "orders");
        assert_eq!(cut("orders", 5), "orde…");
        assert_eq!(cut("订单", 4), "订单");
        assert_eq!(cut("订单", 3), "订…");
        assert_eq!(cut("订单", 2), "…");
        assert_eq!(cut("x", 0), "");
    }

    #[test]
    fn lines_break_between_words_and_in_words_that_are_too_long() {
        assert_eq!(wrapped("up 1 h, state in /var/lib", 12), ["up 1 h,", "state in", "/var/lib"]);
        assert_eq!(wrapped("ab 0123456789", 4), ["ab", "0123", "4567", "89"]);
        assert_eq!(wrapped("clock    now", 12), ["clock    now"]);
        assert_eq!(wrapped("", 4), [""]);
    }

    proptest! {
        #[test]
        fn no_line_is_too_wide_and_no_letter_is_lost(text in "[a-z订é ]{0,80}", columns in 2..30usize) {
            let lines = wrapped(&text, columns);
            prop_assert!(lines.iter().all(|line| width(line) <= columns), "{:?}", lines);
            let letters = |text: &str| text.chars().filter(|c| *c != ' ').collect::<String>();
            prop_assert_eq!(letters(&lines.concat()), letters(&text));
            prop_assert!(width(&cut(&text, columns)) <= columns);
        }
    }
}
