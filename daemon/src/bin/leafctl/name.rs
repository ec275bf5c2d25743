//! How this leafctl was started, for the commands that it suggests: as `leafd ctl`, it must not send
//! the operator to a leafctl that may not be installed. Also quotes words for the operator's shell.

use std::ffi::OsString;
use std::sync::OnceLock;

/// What the first word ends with if leafd was started, and not leafctl.
const COMMAND_OF_LEAFD: &str = " ctl";

static WORDS: OnceLock<String> = OnceLock::new();

/// Remembers the first word of the command line.
pub(crate) fn remember(first: Option<&OsString>) {
    let words = first.map_or_else(|| LEAFCTL.to_owned(), |first| words(&first.to_string_lossy()));
    // leafctl starts once. If it did twice, the first start would be the one that was typed.
    let _ = WORDS.set(words);
}

/// The beginning of a command line that starts this program again.
pub(crate) fn own() -> &'static str {
    WORDS.get().map_or(LEAFCTL, String::as_str)
}

const LEAFCTL: &str = "leafctl";

fn words(first: &str) -> String {
    match first.strip_suffix(COMMAND_OF_LEAFD) {
        Some(leafd) => format!("{}{COMMAND_OF_LEAFD}", quoted(leafd)),
        None => LEAFCTL.to_owned(),
    }
}

/// Quotes a word for a shell, if it needs quotes.
pub(crate) fn quoted(word: impl ToString) -> String {
    let word = word.to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word;
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_suggested_commands_begin_as_the_operator_began() {
        for (first, own) in [
            ("leafctl", "leafctl"),
            ("/usr/bin/leafctl", "leafctl"),
            ("leafd ctl", "leafd ctl"),
            ("target/release/leafd ctl", "target/release/leafd ctl"),
            ("/my programs/leafd ctl", "'/my programs/leafd' ctl"),
        ] {
            assert_eq!(words(first), own);
        }
    }
}
