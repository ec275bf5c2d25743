//! Writes results to stdout, through one locked buffer, and reports when writing fails.

use std::fmt;
use std::io::{BufWriter, Write};

use leaf_client::form::FormCodec;
use leafd::stdout::{Stdout, stdout};
use serde::Serialize;

use crate::exit::Failure;
use crate::public::PublicByLeafd;

/// What a line with an ID looks like.
struct IdLine {
    /// In JSON, an object with the ID; else the bare ID.
    json: bool,
    /// The tag, which JSON has unless it is a snowflake ID.
    tag: Option<String>,
    /// The form of the ID; none for the plain number.
    form: Option<IdText>,
}

/// What makes the text of an ID.
pub(crate) enum IdText {
    Codec(FormCodec),
    ByLeafd(Box<PublicByLeafd>),
}

/// An ID as JSON: text, since most programs that read JSON round numbers above 2^53.
#[derive(Serialize)]
struct IdView<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    tag: Option<&'a str>,
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
}

/// A buffered writer of results. Everything is written by [`Output::finish`] at the latest.
pub(crate) struct Output<W: Write> {
    writer: BufWriter<W>,
    ids: IdLine,
    /// The text of the last ID.
    text: String,
}

impl Output<Stdout> {
    pub(crate) fn stdout() -> Self {
        Self::to(stdout())
    }
}

impl<W: Write> Output<W> {
    pub(crate) fn to(writer: W) -> Self {
        let ids = IdLine { json: false, tag: None, form: None };
        Self { writer: BufWriter::with_capacity(64 * 1024, writer), ids, text: String::new() }
    }

    /// Sets what [`Output::id`] writes: the ID in this form; with `json`, an object with the ID, its form and
    /// its tag.
    pub(crate) fn print_ids(&mut self, json: bool, tag: Option<&str>, form: Option<IdText>) {
        self.ids = IdLine { json, tag: tag.map(str::to_owned), form };
    }

    /// Writes an ID on one line.
    pub(crate) fn id(&mut self, id: u64) -> Result<(), Failure> {
        self.text.clear();
        match &mut self.ids.form {
            None => {}
            Some(IdText::Codec(codec)) => {
                codec.encode_into(id, &mut self.text).map_err(|error| {
                    Failure::Usage(format!(
                        "the ID {id} was issued, but cannot have this form: {error}"
                    ))
                })?;
            }
            Some(IdText::ByLeafd(public)) => {
                self.text = public.encode(id).map_err(|failure| {
                    failure.after(&format!("the ID {id} was issued, but has no public ID:"))
                })?;
            }
        }
        let text = self.ids.form.as_ref().map(|_| self.text.as_str());
        match (self.ids.json, text) {
            (false, None) => writeln!(self.writer, "{id}").map_err(Failure::Output),
            (false, Some(text)) => writeln!(self.writer, "{text}").map_err(Failure::Output),
            (true, text) => {
                let view = IdView { tag: self.ids.tag.as_deref(), id: id.to_string(), text };
                write_json(&mut self.writer, &view)
            }
        }
    }

    /// Writes one line.
    pub(crate) fn line(&mut self, line: impl fmt::Display) -> Result<(), Failure> {
        writeln!(self.writer, "{line}").map_err(Failure::Output)
    }

    /// Writes a text as it is.
    pub(crate) fn text(&mut self, text: impl fmt::Display) -> Result<(), Failure> {
        write!(self.writer, "{text}").map_err(Failure::Output)
    }

    /// Writes `value` as JSON on one line.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        write_json(&mut self.writer, value)
    }

    /// Flushes the buffer.
    pub(crate) fn finish(&mut self) -> Result<(), Failure> {
        self.writer.flush().map_err(Failure::Output)
    }
}

fn write_json(writer: &mut impl Write, value: &impl Serialize) -> Result<(), Failure> {
    serde_json::to_writer(&mut *writer, value).map_err(|error| Failure::Output(error.into()))?;
    writeln!(writer).map_err(Failure::Output)
}

/// Escapes the control characters of text from a daemon or its store, so that the terminal shows
/// them instead of obeying them.
pub(crate) fn harmless(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            let (escaped, plain) =
                if c.is_control() { (Some(c.escape_default()), None) } else { (None, Some(c)) };
            escaped.into_iter().flatten().chain(plain)
        })
        .collect()
}

/// Formats a number with commas between thousands: `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Everything that `print` writes.
    pub(crate) fn printed(
        print: impl FnOnce(&mut Output<&mut Vec<u8>>) -> Result<(), Failure>,
    ) -> String {
        let mut bytes = Vec::new();
        let mut out = Output::to(&mut bytes);
        print(&mut out).unwrap();
        out.finish().unwrap();
        drop(out);
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn in_json_an_id_is_a_string() {
        let largest = u64::try_from(i64::MAX).unwrap();
        let line = |json, tag| {
            printed(|out| {
                out.print_ids(json, tag, None);
                out.id(largest)
            })
        };
        assert_eq!(line(false, Some("a")), "9223372036854775807\n");
        assert_eq!(line(true, None), "{\"id\":\"9223372036854775807\"}\n");
        let tagged = r#"{"tag":"a\"b","id":"9223372036854775807"}"#;
        assert_eq!(line(true, Some("a\"b")), format!("{tagged}\n"));
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(harmless("a\x1b[2Jb\nü 订单"), "a\\u{1b}[2Jb\\nü 订单");
    }

    #[test]
    fn thousands_are_separated_by_commas() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn finish_writes_every_line() {
        let text = printed(|out| {
            out.line(7)?;
            out.json(&[1, 2])
        });
        assert_eq!(text, "7\n[1,2]\n");
    }
}
