//! Finds the string literals in Rust source, and those among them that are logged. In the results `…`
//! stands for a formatted value.

use std::path::{Path, PathBuf};

use crate::citations;

/// A log line in the source.
#[derive(Debug)]
pub struct Logged {
    /// The source file.
    pub path: PathBuf,
    /// The name of the macro, such as `warn`.
    pub level: String,
    /// The message.
    pub text: String,
}

/// Every call of `warn!` and `error!` in the Rust files below `folder`, except in tests.
#[must_use]
pub fn logged(folder: &Path) -> Vec<Logged> {
    let mut found = Vec::new();
    for (path, tokens) in tokens_of(folder) {
        for (at, window) in tokens.windows(3).enumerate() {
            let [Token::Word(level), Token::Mark('!'), Token::Mark('(')] = window else { continue };
            if level == "warn" || level == "error" {
                let text = first_text(&tokens[at + 2..]);
                let text = text.unwrap_or_else(|| panic!("{}: {level}!", path.display()));
                found.push(Logged { path: path.clone(), level: level.clone(), text });
            }
        }
    }
    found
}

/// Every string literal in the Rust files below `folder`, except in tests.
#[must_use]
pub fn texts(folder: &Path) -> Vec<String> {
    only_texts(tokens_of(folder).into_iter().flat_map(|(_, tokens)| tokens))
}

/// Every string literal in one Rust file, except in its tests.
#[must_use]
pub fn texts_of(file: &Path) -> Vec<String> {
    let source = std::fs::read_to_string(file);
    let source = source.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    only_texts(tokens_before_tests(&source))
}

fn only_texts(tokens: impl IntoIterator<Item = Token>) -> Vec<String> {
    let texts = tokens.into_iter().filter_map(|token| match token {
        Token::Text(text) => Some(text),
        _ => None,
    });
    texts.collect()
}

/// Whether `text` matches `pattern`, in which `…` stands for anything. The rest of `pattern` needs at
/// least seven letters, since a shorter one would match almost anything.
#[must_use]
pub fn fits(text: &str, pattern: &str) -> bool {
    let fixed = pattern.chars().filter(|char| char.is_alphabetic()).count();
    fixed >= 7 && citations::fits(text, pattern)
}

#[derive(Debug, PartialEq)]
enum Token {
    Word(String),
    Text(String),
    Mark(char),
}

fn tokens_of(folder: &Path) -> Vec<(PathBuf, Vec<Token>)> {
    let sources = citations::sources(folder);
    assert!(!sources.is_empty(), "no sources in {}", folder.display());
    let is_shipped = |path: &Path| !path.to_string_lossy().ends_with("_tests.rs");
    let sources = sources.into_iter().filter(|(path, _)| is_shipped(path));
    sources.map(|(path, text)| (path, tokens_before_tests(&text))).collect()
}

fn tokens_before_tests(text: &str) -> Vec<Token> {
    // Tests are the last module of a file; clippy enforces that.
    let end = text.find("#[cfg(test)]\nmod tests {");
    let end = end.or_else(|| text.find("#[cfg(test)]\npub(crate) mod tests {"));
    tokens(&text[..end.unwrap_or(text.len())])
}

/// The first literal directly inside the parentheses that `tokens` begin with.
fn first_text(tokens: &[Token]) -> Option<String> {
    let mut depth = 0;
    for token in tokens {
        match token {
            Token::Mark('(' | '[' | '{') => depth += 1,
            Token::Mark(')' | ']' | '}') if depth == 1 => return None,
            Token::Mark(')' | ']' | '}') => depth -= 1,
            Token::Text(text) if depth == 1 => return Some(text.clone()),
            _ => {}
        }
    }
    None
}

fn tokens(source: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = source;
    while let Some(char) = rest.chars().next() {
        if rest.starts_with("//") {
            rest = rest.split_once('\n').map_or("", |(_, rest)| rest);
        } else if char == '"' {
            let (text, after) = text(&rest[1..]);
            tokens.push(Token::Text(text));
            rest = after;
        } else if let Some(after) = after_character(rest) {
            rest = after;
        } else if char.is_alphanumeric() || char == '_' {
            let end = rest.find(|char: char| !char.is_alphanumeric() && char != '_');
            let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
            tokens.push(Token::Word(word.to_owned()));
            rest = after;
        } else {
            if !char.is_whitespace() {
                tokens.push(Token::Mark(char));
            }
            rest = &rest[char.len_utf8()..];
        }
    }
    tokens
}

/// What follows a character literal, such as `'"'` or `'\n'`; none if `rest` begins with anything else,
/// such as a lifetime.
fn after_character(rest: &str) -> Option<&str> {
    let inside = rest.strip_prefix('\'')?;
    if let Some(escaped) = inside.strip_prefix('\\') {
        let after = escaped.get(escaped.chars().next()?.len_utf8()..)?;
        return after.split_once('\'').map(|(_, after)| after);
    }
    inside.get(inside.chars().next()?.len_utf8()..)?.strip_prefix('\'')
}

/// The string literal that begins in `source` after its opening quote, as it is printed, and what
/// follows it.
fn text(source: &str) -> (String, &str) {
    let mut text = String::new();
    let mut chars = source.chars();
    while let Some(char) = chars.next() {
        let ahead = chars.as_str();
        match char {
            '"' => break,
            '\\' => match chars.next() {
                // The literal continues on the next line.
                Some('\n') => chars = chars.as_str().trim_start().chars(),
                Some('n') => text.push('\n'),
                Some(char) => text.push(char),
                None => {}
            },
            '{' | '}' if ahead.starts_with(char) => {
                text.push(char);
                chars.next();
            }
            '{' => {
                text.push('…');
                chars = ahead.split_once('}').map_or("", |(_, after)| after).chars();
            }
            char => text.push(char),
        }
    }
    (text, chars.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_lines_are_found_as_they_are_printed_and_those_of_tests_are_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let source = r#"
            // An error!("in a comment") is none.
            fn one(quote: char) -> &'static str {
                if quote != '"' && quote != '\'' {
                    tracing::warn!(path = %Path::new("x").display(), limit, "cannot {} it: \
                                    {error:?}", "do");
                }
                Err(why) if why => tracing::error!("{{braces}}"),
                info!("not this");
                "a text"
            }

            #[cfg(test)]
            mod tests {
                fn two() { tracing::error!("a test"); }
            }"#;
        let source = source.lines().map(str::trim).collect::<Vec<_>>().join("\n");
        std::fs::write(folder.path().join("a.rs"), &source).expect("a file");
        std::fs::write(folder.path().join("a_tests.rs"), "error!(\"x\")").expect("a file");
        let found = logged(folder.path());
        let found: Vec<_> = found.iter().map(|line| (&*line.level, &*line.text)).collect();
        assert_eq!(found, [("warn", "cannot … it: …"), ("error", "{braces}")]);
        let texts = texts(folder.path());
        assert!(texts.contains(&"a text".to_owned()) && !texts.contains(&"a test".to_owned()));
    }

    #[test]
    fn a_pattern_matches_the_text_that_it_shortens_and_one_without_words_matches_nothing() {
        assert!(fits("the row went to …, below …; and more", "the row went to …, below …; …"));
        assert!(!fits("the row went to …", "the row went to …, below …"));
        assert!(!fits("the row", "…"));
    }
}
