//! What to write instead of a value that does not fit. It guesses what was meant, and proposes only
//! what leafd would accept for that key.

use super::mistake::{hidden, quoted};
use super::nearest::did_you_mean;
use super::reader::{Misfit, MisfitKind};
use super::values::{DURATION, MODE};
use super::written::{Place, Written, WrittenValue};
use crate::duration;

/// The message for a value that does not fit. `fits` says whether leafd accepts another value in its
/// place. With `is_secret`, the message does not show the value.
pub(super) fn explain(
    misfit: &Misfit,
    value: &Written,
    is_secret: bool,
    fits: &dyn Fn(&WrittenValue) -> bool,
) -> String {
    let shown = if is_secret { "the value".to_owned() } else { shown(&value.value) };
    match &misfit.why {
        MisfitKind::NotA(wanted) => {
            let meant = candidates(wanted, &value.value).into_iter().find(|meant| fits(meant));
            let hint = match meant {
                Some(meant) if is_secret || holds_password(&meant) => {
                    "; put it in quotes".to_owned()
                }
                Some(meant) => format!("; write {}", as_written(&meant, &value.place)),
                None => String::new(),
            };
            format!("{shown} is not {}{hint}", described(wanted, &value.value, hint.is_empty()))
        }
        MisfitKind::UnknownValue(known) => {
            let near = match &value.value {
                WrittenValue::Text(text) | WrittenValue::Raw(text) => {
                    did_you_mean(text, known.iter().copied())
                }
                _ => String::new(),
            };
            format!("{shown} is not one of {}{near}", known.join(", "))
        }
        MisfitKind::UnknownKey(name, known) => {
            let near = did_you_mean(name, known.iter().copied());
            format!("there is no key {}{near}", quoted(name))
        }
        MisfitKind::Lacks(name) => format!("{name} is missing"),
        MisfitKind::Other(text) if text.contains(&shown) || is_secret => text.clone(),
        MisfitKind::Other(text) => format!("{shown}: {text}"),
    }
}

/// The message for a value without its quotes, which is no TOML: `raw` is what is there instead.
pub(super) fn unquoted(
    raw: &str,
    is_secret: bool,
    fits: &dyn Fn(&WrittenValue) -> bool,
) -> Option<String> {
    // A word processor has turned the quotes into others.
    let text = WrittenValue::Text(raw.trim_matches(['“', '”', '„', '‘', '’']).to_owned());
    let meant = std::iter::once(text).chain(simpler(raw)).find(|meant| fits(meant))?;
    let place = Place::Line { line: 1, column: 1 };
    Some(match meant {
        WrittenValue::Text(_) if is_secret || holds_password(&meant) => {
            "put the value in quotes".to_owned()
        }
        meant @ WrittenValue::Text(_) => {
            format!(
                "{} lacks quotes; write {}",
                shown(&WrittenValue::Raw(raw.to_owned())),
                as_written(&meant, &place)
            )
        }
        meant => format!(
            "{} is no value; write {}",
            shown(&WrittenValue::Raw(raw.to_owned())),
            as_written(&meant, &place)
        ),
    })
}

/// The value in a message.
fn shown(value: &WrittenValue) -> String {
    match value {
        WrittenValue::Text(text) | WrittenValue::Raw(text) => quoted(text),
        WrittenValue::Integer(_, text) | WrittenValue::Float(text) | WrittenValue::Date(text) => {
            text.clone()
        }
        WrittenValue::Boolean(truth) => truth.to_string(),
        WrittenValue::List(_) => "a list".to_owned(),
        WrittenValue::Table(_) => "a table".to_owned(),
    }
}

/// What is wanted, in the words of the manual. serde calls numbers by Rust's names. `example`:
/// whether nothing better follows.
fn described(wanted: &str, value: &WrittenValue, example: bool) -> String {
    let is_text = matches!(value, WrittenValue::Text(_));
    match wanted {
        DURATION if matches!(value, WrittenValue::Integer(..)) && !example => {
            "a duration: it has no unit".to_owned()
        }
        DURATION if example => {
            "a duration; write it like \"500ms\", \"5s\" or \"1h30m\"".to_owned()
        }
        MODE if example => "a file mode in octal; write it like \"0660\"".to_owned(),
        "u16" | "u32" | "u64" | "usize" => match value {
            WrittenValue::Integer(None, _) => "a number that leafd can count".to_owned(),
            _ if is_text => "a number: numbers have no quotes".to_owned(),
            _ => "a whole number from 0 on".to_owned(),
        },
        "a boolean" if is_text => "true or false: these have no quotes".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a string" if matches!(value, WrittenValue::List(_) | WrittenValue::Table(_)) => {
            "a text, which this key wants".to_owned()
        }
        "a string" => "a text: texts have quotes".to_owned(),
        "a sequence" => "a list".to_owned(),
        section if section.starts_with("struct ") => "a table of keys".to_owned(),
        choice if choice.starts_with("enum ") => "a text: texts have quotes".to_owned(),
        other => other.to_owned(),
    }
}

/// What may have been meant, the likeliest first.
fn candidates(wanted: &str, value: &WrittenValue) -> Vec<WrittenValue> {
    let text = |text: String| WrittenValue::Text(text);
    match value {
        WrittenValue::Integer(_, digits) if wanted == DURATION => {
            ["s", "ms", "m", "h"].iter().map(|unit| text(format!("{digits}{unit}"))).collect()
        }
        WrittenValue::Integer(_, digits) if wanted == MODE => {
            vec![text(format!("0{}", digits.trim_start_matches("0o")))]
        }
        WrittenValue::Text(given) | WrittenValue::Raw(given) if wanted == DURATION => {
            let units =
                ["s", "ms", "m", "h"].iter().map(|unit| text(format!("{}{unit}", given.trim())));
            duration::guess(given).map(text).into_iter().chain(units).collect()
        }
        WrittenValue::Text(given) | WrittenValue::Raw(given) => {
            let mut all = simpler(given);
            all.push(WrittenValue::List(vec![alone(text(given.clone()))]));
            all
        }
        WrittenValue::List(items) => {
            let texts: Vec<_> = items.iter().map(|item| shown_plain(&item.value)).collect();
            let one = match items.as_slice() {
                [item] => Some(item.value.clone()),
                _ => None,
            };
            one.into_iter().chain([text(texts.join(","))]).collect()
        }
        WrittenValue::Table(_) => vec![WrittenValue::List(vec![alone(value.clone())])],
        // A number or a truth where a text is wanted, or a list.
        other => vec![text(shown(other)), WrittenValue::List(vec![alone(other.clone())])],
    }
}

/// Other types for a text: a truth, a number, or the text without its quotes.
fn simpler(given: &str) -> Vec<WrittenValue> {
    let plain = given.trim().trim_matches(['"', '\'']).trim();
    let mut all = Vec::new();
    match plain.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" => all.push(WrittenValue::Boolean(true)),
        "false" | "no" | "off" => all.push(WrittenValue::Boolean(false)),
        _ => {}
    }
    let digits: String = plain.chars().filter(|c| !"_, '.".contains(*c)).collect();
    // 1.5 is another number than 15.
    let groups = plain.split(['_', ',', ' ', '\'', '.']).skip(1).all(|group| group.len() == 3);
    if let Some(number) = digits.parse::<i64>().ok().filter(|_| groups) {
        all.push(WrittenValue::Integer(Some(number), number.to_string()));
    }
    if plain != given {
        all.push(WrittenValue::Text(plain.to_owned()));
    }
    all
}

fn alone(value: WrittenValue) -> Written {
    Written { value, ..Written::empty() }
}

fn shown_plain(value: &WrittenValue) -> String {
    match value {
        WrittenValue::Text(text) => text.clone(),
        other => shown(other),
    }
}

/// Whether the value looks as if it held a password, whatever key it is for.
fn holds_password(value: &WrittenValue) -> bool {
    match value {
        WrittenValue::Text(text) => hidden(text) != *text,
        WrittenValue::List(items) => items.iter().any(|item| holds_password(&item.value)),
        _ => false,
    }
}

/// The value as it belongs into the file, or into a variable.
fn as_written(value: &WrittenValue, place: &Place) -> String {
    match (value, place) {
        (WrittenValue::Text(text), Place::Variable(_)) => text.clone(),
        (WrittenValue::List(items), _) => {
            let in_file = Place::Line { line: 1, column: 1 };
            let items: Vec<_> =
                items.iter().map(|item| as_written(&item.value, &in_file)).collect();
            format!("[{}]", items.join(", "))
        }
        (WrittenValue::Table(_), _) => "{ … }".to_owned(),
        (WrittenValue::Text(text), Place::Line { .. }) => {
            toml::Value::String(text.clone()).to_string()
        }
        (other, _) => shown(other),
    }
}
