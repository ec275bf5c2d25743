//! Lines of text from a stream, one at a time, for commands that answer each line as it comes.

use std::io::{self, BufRead, BufReader, Read};

/// Longest line that is kept. No ID and no tag comes near it.
const LONGEST: u64 = 1024;

/// A line of the stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// The first line has number 1.
    pub(crate) number: u64,
    /// Without the blanks around it. Of a line that is too long, only the beginning.
    pub(crate) text: String,
}

/// Reads a stream line by line, in bounded memory.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    reader: BufReader<R>,
    number: u64,
}

impl<R: Read> Lines<R> {
    pub(crate) fn of(reader: R) -> Self {
        Self { reader: BufReader::new(reader), number: 0 }
    }

    /// Whether everything that was read has been returned, so that the next line has to be waited
    /// for.
    pub(crate) fn is_drained(&self) -> bool {
        self.reader.buffer().is_empty()
    }

    /// The next line; `None` at the end.
    ///
    /// # Errors
    /// When the stream cannot be read.
    pub(crate) fn next(&mut self) -> io::Result<Option<Line>> {
        let mut bytes = Vec::new();
        if self.reader.by_ref().take(LONGEST).read_until(b'\n', &mut bytes)? == 0 {
            return Ok(None);
        }
        if bytes.last() != Some(&b'\n') {
            self.reader.skip_until(b'\n')?;
        }
        self.number += 1;
        let text = String::from_utf8_lossy(&bytes).trim().to_owned();
        Ok(Some(Line { number: self.number, text }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_its_number_and_an_endless_one_takes_bounded_memory() {
        let text = format!("1\n\n 2 \r\n{}\n3\n4", "x".repeat(1_000_000));
        let mut lines = Lines::of(text.as_bytes());
        let mut all = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            assert!(line.text.len() <= 1024, "{}", line.text.len());
            all.push((line.number, line.text));
        }
        let texts: Vec<_> = all.iter().map(|(_, text)| text.get(..1).unwrap_or("")).collect();
        assert_eq!(texts[..4], ["1", "", "2", "x"]);
        assert_eq!((all.len(), all[5].clone()), (6, (6, "4".to_owned())));
        assert!(lines.is_drained());
    }
}
