//! Buffers that all connections of a thread share, so that an idle connection holds none.

use std::cell::RefCell;

/// Bytes of one read: some hundred requests, which take a dozen microseconds. Other connections run
/// between two reads of a client that sends more at a time.
const READ: usize = 4 * 1024;

/// A buffer that has grown beyond this many bytes is freed, not kept for the next connection.
const KEPT: usize = 512 * 1024;

thread_local! {
    static INPUT: RefCell<Vec<u8>> = RefCell::new(vec![0; READ]);
    static OUTPUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Lends the input buffer for one read.
pub(super) fn with_input<T>(read: impl FnOnce(&mut [u8]) -> T) -> T {
    INPUT.with_borrow_mut(|buffer| read(buffer))
}

/// An empty buffer for answers, usually with its memory allocated already.
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
