//! The bytes that were read but not decoded yet. A frame's length is checked before the buffer
//! grows for it.

use std::io::{self, Read};

use crate::wire::{FrameError, HEADER_LEN, MAX_RESPONSE_LEN, split_frame};

/// The initial size in bytes: enough for hundreds of ordinary answers.
const INITIAL_LEN: usize = 8 * 1024;

/// A buffer that takes bytes as they arrive and gives back whole frames.
#[derive(Debug)]
pub(super) struct FrameBuffer {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl FrameBuffer {
    pub(super) fn new() -> Self {
        Self { buffer: vec![0; INITIAL_LEN], start: 0, end: 0 }
    }

    /// Takes the body of the next frame if all of it has arrived.
    pub(super) fn take(&mut self) -> Result<Option<&[u8]>, FrameError> {
        let unread = self.buffer.get(self.start..self.end).unwrap_or_default();
        match split_frame(unread, MAX_RESPONSE_LEN)? {
            Some((body, _)) => {
                self.start += HEADER_LEN + body.len();
                Ok(Some(body))
            }
            None => Ok(None),
        }
    }

    /// Whether all that was read is taken.
    pub(super) const fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Reads once and returns the number of bytes; 0 is the end of the stream. Call it after
    /// [`Self::take`] has found no frame.
    pub(super) fn fill(&mut self, mut from: impl Read) -> io::Result<usize> {
        let unread = self.end - self.start;
        if unread == 0 {
            (self.start, self.end) = (0, 0);
        } else if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, unread);
        }
        let announced = self.buffer.first_chunk().filter(|_| unread >= HEADER_LEN);
        if let Some(header) = announced {
            // `take` has already checked the length.
            let whole = HEADER_LEN + u32::from_be_bytes(*header) as usize;
            if whole > self.buffer.len() && whole <= HEADER_LEN + MAX_RESPONSE_LEN {
                self.buffer.resize(whole, 0);
            }
        }
        let len = from.read(self.buffer.get_mut(self.end..).unwrap_or_default())?;
        self.end += len;
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(body: &[u8]) -> Vec<u8> {
        [&u32::try_from(body.len()).unwrap().to_be_bytes(), body].concat()
    }

    /// A reader that returns at most `.1` bytes at a time.
    struct Drip<'a>(&'a [u8], usize);

    impl Read for Drip<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let len = self.1.min(self.0.len()).min(buffer.len());
            buffer[..len].copy_from_slice(&self.0[..len]);
            self.0 = &self.0[len..];
            Ok(len)
        }
    }

    #[test]
    fn frames_are_complete_however_the_bytes_arrive() {
        let bodies = [vec![1; 5], vec![], vec![2; MAX_RESPONSE_LEN], vec![3; 9000], vec![4; 1]];
        let bytes: Vec<u8> = bodies.iter().flat_map(|body| frame(body)).collect();
        for step in [1, 3, 8192, usize::MAX] {
            let (mut frames, mut from) = (FrameBuffer::new(), Drip(&bytes, step));
            for body in &bodies {
                let found = loop {
                    if let Some(found) = frames.take().unwrap() {
                        break found.to_vec();
                    }
                    assert_ne!(frames.fill(&mut from).unwrap(), 0);
                };
                assert!(found == *body);
            }
            assert_eq!(frames.take(), Ok(None));
        }
    }

    #[test]
    fn a_length_above_the_limit_is_refused_before_the_buffer_grows() {
        for len in [u32::MAX, MAX_RESPONSE_LEN as u32 + 1] {
            let mut frames = FrameBuffer::new();
            frames.fill(&len.to_be_bytes()[..]).unwrap();
            assert_eq!(frames.take().unwrap_err().len, len as usize);
            frames.fill(&[0][..]).unwrap();
            assert_eq!(frames.buffer.len(), INITIAL_LEN);
        }
    }
}
