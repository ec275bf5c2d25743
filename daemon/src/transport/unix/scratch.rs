//! Buffers that all connections of a thread share, so that a connection that waits for its next
//! request holds no memory for it.

use std::cell::RefCell;

/// How much is read at once: some hundred requests, which take a dozen microseconds. Whoever
/// sends more at a time has the others come first in between.
const READ: usize = 4 * 1024;

/// A buffer that has grown beyond this for one connection is not kept for the others.
const KEPT: usize = 512 * 1024;

thread_local! {
    static INPUT: RefCell<Vec<u8>> = RefCell::new(vec![0; READ]);
    static OUTPUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Lends the input buffer for one read.
pub(super) fn with_input<T>(read: impl FnOnce(&mut [u8]) -> T) -> T {
    INPUT.with_borrow_mut(|buffer| read(buffer))
}

/// An empty buffer for answers, most often with room already.
pub(super) fn take_output() -> Vec<u8> {
    OUTPUT.take()
}

/// Gives the buffer of answers back for the next connection.
pub(super) fn give_output(mut buffer: Vec<u8>) {
    if buffer.capacity() <= KEPT {
        buffer.clear();
        OUTPUT.replace(buffer);
    }
}
