//! The uniqueness check of a pool's IDs, at a few instructions per ID. Each thread records its own
//! ([`IdRecorder`]): IDs in a row as one run, others as bits of the block of 65,536 around them. Whole
//! runs and blocks go to the check that all threads share ([`BlockVerifier`]). It merges the blocks of
//! different threads while they are fresh, and passes on to the [`Verifier`], which keeps intervals, what
//! has become whole. No IO and no clock.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::bench::verify::Verifier;

/// A block is 2^16 IDs, so its bits are 8 KiB: they stay in the first-level cache.
const BLOCK_BITS: u32 = 16;

const WORDS: usize = 1 << (BLOCK_BITS - 6);

/// A run of so many IDs goes to the shared check by itself. Looking it up there costs less than setting
/// its bits.
const LONG_RUN: u64 = 1024;

/// Most blocks that the shared check keeps as bits, 8 MiB. More are open only if the IDs are sparse.
const MAX_OPEN: usize = 1024;

/// What a thread does with each ID that it takes.
pub(super) trait IdCheck {
    /// Checks an ID, at once or later.
    fn note(&mut self, id: u64);

    /// Passes on what the thread has not yet passed on, before a pause.
    fn hand_over(&mut self);
}

/// The check of a run without `--verify`: none. The compiler must not drop the ID, though.
#[derive(Debug)]
pub(super) struct Unchecked;

impl IdCheck for Unchecked {
    #[inline(always)]
    fn note(&mut self, id: u64) {
        black_box(id);
    }

    fn hand_over(&mut self) {}
}

/// The IDs of one thread that the shared check does not know yet: a run, and the bits of a block.
#[derive(Debug)]
pub(super) struct IdRecorder<'a> {
    shared: &'a Mutex<BlockVerifier>,
    /// The run goes from `first` to `end`, exclusive.
    first: u64,
    end: u64,
    /// The number of the block: the upper bits of its IDs.
    block: u64,
    ids: BlockIds,
    is_empty: bool,
}

impl<'a> IdRecorder<'a> {
    pub(super) fn new(shared: &'a Mutex<BlockVerifier>) -> Self {
        Self { shared, first: 0, end: 0, block: 0, ids: BlockIds::new(), is_empty: true }
    }

    /// Ends the run.
    fn end_run(&mut self) {
        let (first, count) = (self.first, self.end.wrapping_sub(self.first));
        self.first = self.end;
        if count >= LONG_RUN {
            lock(self.shared).add_run(first, count);
        } else {
            for id in first..first.saturating_add(count) {
                self.set(id);
            }
        }
    }

    #[inline]
    fn set(&mut self, id: u64) {
        let block = id >> BLOCK_BITS;
        if block != self.block {
            self.hand_over_block();
            self.block = block;
        }
        self.is_empty = false;
        if self.ids.set(id) {
            lock(self.shared).verifier.add_repeated(id, 1);
        }
    }

    #[cold]
    fn hand_over_block(&mut self) {
        if !self.is_empty {
            lock(self.shared).add_block(self.block, &self.ids);
            self.ids.clear();
            self.is_empty = true;
        }
    }
}

impl IdCheck for IdRecorder<'_> {
    #[inline(always)]
    fn note(&mut self, id: u64) {
        if id != self.end {
            self.end_run();
            self.first = id;
        }
        self.end = id.wrapping_add(1);
    }

    fn hand_over(&mut self) {
        self.end_run();
        self.hand_over_block();
    }
}

/// The check that all threads of a run share.
#[derive(Debug)]
pub(super) struct BlockVerifier {
    verifier: Verifier,
    /// Blocks that are not whole, by number. `verifier` learns of their IDs when they are closed.
    open: BTreeMap<u64, BlockIds>,
}

impl BlockVerifier {
    pub(super) fn new(verifier: Verifier) -> Self {
        Self { verifier, open: BTreeMap::new() }
    }

    fn add_run(&mut self, first: u64, count: u64) {
        self.verifier.add(first, count);
    }

    fn add_block(&mut self, number: u64, ids: &BlockIds) {
        let first = number << BLOCK_BITS;
        let (open, verifier) = (&mut self.open, &mut self.verifier);
        let merged = open.entry(number).or_insert_with(BlockIds::new);
        merged.merge(ids, |offset, count| verifier.add_repeated(first + offset, count));
        if merged.is_whole() {
            open.remove(&number);
            verifier.add(first, 1 << BLOCK_BITS);
        } else if open.len() > MAX_OPEN {
            self.close_blocks();
        }
    }

    /// Passes all blocks on, whole or not. Call it every now and then, when the threads have handed over
    /// what they had: the fewer holes the blocks have, the less this costs.
    pub(super) fn close_blocks(&mut self) {
        for (number, ids) in std::mem::take(&mut self.open) {
            let first = number << BLOCK_BITS;
            ids.runs(|offset, count| self.verifier.add(first + offset, count));
        }
    }

    /// The result, once all threads have handed over what they had.
    pub(super) fn into_verifier(mut self) -> Verifier {
        self.close_blocks();
        self.verifier
    }
}

/// Locks the shared check. Each of its steps is complete in itself, so a panic elsewhere harms nothing.
pub(super) fn lock(shared: &Mutex<BlockVerifier>) -> MutexGuard<'_, BlockVerifier> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Which IDs of a block have come: a bit for each.
#[derive(Debug, Clone)]
struct BlockIds(Box<[u64; WORDS]>);

impl BlockIds {
    fn new() -> Self {
        Self(Box::new([0; WORDS]))
    }

    /// Adds an ID. Returns whether it was there already.
    #[inline]
    fn set(&mut self, id: u64) -> bool {
        let bit = 1 << (id % 64);
        let Some(word) = self.0.get_mut(id as usize / 64 % WORDS) else { return false };
        let was_set = *word & bit != 0;
        *word |= bit;
        was_set
    }

    /// Adds the IDs of `others`. Passes those that were there already to `repeated`, as runs.
    fn merge(&mut self, others: &Self, repeated: impl FnMut(u64, u64)) {
        let mut clashes = None;
        for (at, (mine, theirs)) in self.0.iter_mut().zip(others.0.iter()).enumerate() {
            if *mine & theirs != 0
                && let Some(word) = clashes.get_or_insert_with(Self::new).0.get_mut(at)
            {
                *word = *mine & theirs;
            }
            *mine |= theirs;
        }
        if let Some(clashes) = clashes {
            clashes.runs(repeated);
        }
    }

    fn is_whole(&self) -> bool {
        self.0.iter().all(|word| *word == u64::MAX)
    }

    fn clear(&mut self) {
        self.0.fill(0);
    }

    /// Passes on the IDs as runs: the offset of the first in the block, and how many there are.
    fn runs(&self, mut pass: impl FnMut(u64, u64)) {
        let mut first = None;
        for (offset, word) in (0..).step_by(64).zip(self.0.iter()) {
            // A word of equal bits goes on with the run, or with the gap, as its first bit does.
            let bits = if matches!(*word, 0 | u64::MAX) { 1 } else { 64 };
            for bit in 0..bits {
                match (word >> bit & 1 == 1, first) {
                    (true, None) => first = Some(offset + bit),
                    (false, Some(start)) => {
                        pass(start, offset + bit - start);
                        first = None;
                    }
                    _ => {}
                }
            }
        }
        if let Some(start) = first {
            pass(start, (1 << BLOCK_BITS) - start);
        }
    }
}

#[cfg(test)]
#[path = "blocks_tests.rs"]
mod tests;
