//! What the operator's keys mean: the bytes of a terminal, put together. No IO.

/// Longer escape sequences than this are no key.
const LONGEST: usize = 16;

/// Longest text to search for, in bytes: no tag's name is longer.
const LONGEST_SEARCH: usize = 512;

/// A key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TopKey {
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    /// A byte of text, or a control character.
    Byte(u8),
}

/// The bytes of a key that has not ended.
#[derive(Debug, Default)]
pub(super) struct KeyDecoder {
    escape: Vec<u8>,
}

impl KeyDecoder {
    /// The key that ends with this byte.
    pub(super) fn note(&mut self, byte: u8) -> Option<TopKey> {
        match (self.escape.as_slice(), byte) {
            (_, 0x1b) => {
                self.escape = vec![byte];
                None
            }
            ([], _) => Some(TopKey::Byte(byte)),
            ([_], b'[' | b'O') => {
                self.escape.push(byte);
                None
            }
            // Escape alone, and then another key.
            ([_], _) => {
                self.escape.clear();
                Some(TopKey::Byte(byte))
            }
            (_, 0x40..=0x7e) => {
                self.escape.push(byte);
                let key = Self::key(&self.escape);
                self.escape.clear();
                key
            }
            (sequence, _) => {
                if sequence.len() < LONGEST {
                    self.escape.push(byte);
                } else {
                    self.escape.clear();
                }
                None
            }
        }
    }

    fn key(sequence: &[u8]) -> Option<TopKey> {
        Some(match sequence.get(2..)? {
            b"A" => TopKey::Up,
            b"B" => TopKey::Down,
            b"5~" => TopKey::PageUp,
            b"6~" => TopKey::PageDown,
            b"H" | b"1~" | b"7~" => TopKey::Home,
            b"F" | b"4~" | b"8~" => TopKey::End,
            _ => return None,
        })
    }
}

/// The text that the operator searches for.
#[derive(Debug, Default)]
pub(super) struct Search {
    bytes: Vec<u8>,
    /// Whether keys go on with it.
    pub(super) is_typing: bool,
}

impl Search {
    /// Begins a new one.
    pub(super) fn begin(&mut self) {
        *self = Self { bytes: Vec::new(), is_typing: true };
    }

    /// Goes on with it.
    pub(super) fn type_byte(&mut self, byte: u8) {
        match byte {
            b'\r' | b'\n' => self.is_typing = false,
            // Backspace: with all bytes of a character.
            0x08 | 0x7f => while self.bytes.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {},
            0..0x20 => {}
            _ if self.bytes.len() < LONGEST_SEARCH => self.bytes.push(byte),
            _ => {}
        }
    }

    /// The text so far. A character that is not complete does not count.
    pub(super) fn text(&self) -> &str {
        let whole = match std::str::from_utf8(&self.bytes) {
            Ok(text) => return text,
            Err(error) => error.valid_up_to(),
        };
        self.bytes
            .get(..whole)
            .and_then(|bytes| std::str::from_utf8(bytes).ok())
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(bytes: &[u8]) -> Vec<TopKey> {
        let mut decoder = KeyDecoder::default();
        bytes.iter().filter_map(|byte| decoder.note(*byte)).collect()
    }

    #[test]
    fn sequences_are_one_key_and_unknown_ones_none() {
        use TopKey::{Byte, Down, End, Home, PageDown, PageUp, Up};
        assert_eq!(keys(b"\x1b[Aq"), [Up, Byte(b'q')]);
        assert_eq!(keys(b"\x1bOB\x1b[5~\x1b[6~"), [Down, PageUp, PageDown]);
        assert_eq!(keys(b"\x1b[H\x1b[4~"), [Home, End]);
        assert_eq!(keys(b"\x1b[15;2~r\x1b[Z"), [Byte(b'r')]);
        assert_eq!(keys(b"\x1bq\x1b\x1b[B"), [Byte(b'q'), Down]);
        let endless = [b"\x1b[".as_slice(), &[b'1'; 100]].concat();
        assert!(keys(&endless).len() > 50, "q works again");
    }

    #[test]
    fn a_search_takes_whole_characters() {
        let mut search = Search::default();
        search.begin();
        "订x\x7f\x7fö\x01".bytes().for_each(|byte| search.type_byte(byte));
        assert_eq!((search.text(), search.is_typing), ("ö", true));
        search.type_byte(0xe8);
        assert_eq!(search.text(), "ö");
        search.type_byte(b'\n');
        assert!(!search.is_typing);
    }
}
