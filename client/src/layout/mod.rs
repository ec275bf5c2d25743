//! The bits of a snowflake ID: time, worker and sequence, at most 63 in all, so that an ID is never
//! negative as a signed number. Plain arithmetic; no clock and no IO.

mod error;
#[cfg(test)]
mod tests;
mod text;

pub use error::LayoutError;
pub use text::PRESETS;

/// The layout of a snowflake ID: the bits of each field, the epoch and the time unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    unit_ms: u64,
    epoch_ms: u64,
    time_bits: u32,
    worker_bits: u32,
    sequence_bits: u32,
    /// How many of the upper worker bits are the data centre, as in Twitter's layout; 0 if the
    /// layout has no data centre. For decoding only.
    datacenter_bits: u32,
    order: FieldOrder,
}

/// Which field follows the time. The time is always on top, so that IDs rise with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldOrder {
    /// Time, worker, sequence: what one worker issues in a time unit is one run of numbers.
    WorkerAboveSequence,
    /// Time, sequence, worker, as Sonyflake orders them.
    SequenceAboveWorker,
}

/// The parts of a snowflake ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decoded {
    /// The start of the ID's time unit, in milliseconds since 1970-01-01T00:00:00Z.
    pub unix_ms: u64,
    /// The worker ID, data centre bits included.
    pub worker: u64,
    /// The data centre, if the layout has one.
    pub datacenter: Option<u64>,
    /// The sequence number within the time unit.
    pub sequence: u64,
}

impl Layout {
    /// Leaf's layout: 41 bits for milliseconds since 2010-11-04, 10 for the worker, 12 for the
    /// sequence.
    pub const LEAF: Self = Self {
        unit_ms: 1,
        epoch_ms: 1_288_834_974_657,
        time_bits: 41,
        worker_bits: 10,
        sequence_bits: 12,
        datacenter_bits: 0,
        order: FieldOrder::WorkerAboveSequence,
    };

    /// Twitter's layout: as Leaf's, with the worker bits split into 5 for the data centre and 5 for
    /// the worker.
    pub const TWITTER: Self = Self { datacenter_bits: 5, ..Self::LEAF };

    /// Baidu's layout: 28 bits for seconds since 2016-05-20 (in Shanghai), 22 for the worker, 13
    /// for the sequence.
    ///
    /// Its time field ran out on 2024-11-20. New IDs need a later epoch, as in
    /// `baidu@1767225600000`.
    pub const BAIDU: Self = Self {
        unit_ms: 1000,
        epoch_ms: 1_463_673_600_000,
        time_bits: 28,
        worker_bits: 22,
        sequence_bits: 13,
        datacenter_bits: 0,
        order: FieldOrder::WorkerAboveSequence,
    };

    /// A layout whose IDs a double holds exactly, as the numbers of JavaScript and of most JSON parsers
    /// are: 37 bits for units of 10 ms since 2026-01-01, 8 for the worker, 8 for the sequence, 53 in all.
    ///
    /// It has room for 256 workers that issue 25,600 IDs a second each, until 2069-07-21.
    pub const JS: Self = Self {
        unit_ms: 10,
        epoch_ms: 1_767_225_600_000,
        time_bits: 37,
        worker_bits: 8,
        sequence_bits: 8,
        datacenter_bits: 0,
        order: FieldOrder::WorkerAboveSequence,
    };

    /// Sonyflake's layout: 39 bits for units of 10 ms since 2014-09-01, 8 for the sequence, 16 for the
    /// worker below it.
    pub const SONYFLAKE: Self = Self {
        unit_ms: 10,
        epoch_ms: 1_409_529_600_000,
        time_bits: 39,
        worker_bits: 16,
        sequence_bits: 8,
        datacenter_bits: 0,
        order: FieldOrder::SequenceAboveWorker,
    };

    /// Discord's layout: milliseconds since 2015-01-01, 5 bits for the worker and 5 for the process,
    /// which together are the worker ID here, and 12 for the sequence.
    ///
    /// Discord writes the time into 42 bits of 64. The top bit stays 0 until 2084-09-06, when this layout
    /// ends: leafd's IDs have 63 bits.
    pub const DISCORD: Self =
        Self { epoch_ms: 1_420_070_400_000, datacenter_bits: 5, ..Self::LEAF };

    /// Makes a layout.
    ///
    /// `unit_ms` is 1, 10 or 1000; `epoch_ms` is in milliseconds since 1970. The bits add up to at most
    /// 63, with at least one each for time and sequence. The worker is above the sequence;
    /// [`Layout::with_order`] swaps them.
    ///
    /// # Errors
    /// If the bits or the unit are invalid.
    pub fn new(
        unit_ms: u64,
        epoch_ms: u64,
        time_bits: u32,
        worker_bits: u32,
        sequence_bits: u32,
    ) -> Result<Self, LayoutError> {
        let sum = [time_bits, worker_bits, sequence_bits]
            .iter()
            .try_fold(0u32, |sum, bits| sum.checked_add(*bits));
        if sum.is_none_or(|sum| sum > 63) {
            return Err(LayoutError::Sum {
                time: time_bits,
                worker: worker_bits,
                sequence: sequence_bits,
            });
        }
        if time_bits == 0 || sequence_bits == 0 {
            return Err(LayoutError::Empty);
        }
        if ![1, 10, 1000].contains(&unit_ms) {
            return Err(LayoutError::Unit(unit_ms));
        }
        Ok(Self {
            unit_ms,
            epoch_ms,
            time_bits,
            worker_bits,
            sequence_bits,
            datacenter_bits: 0,
            order: FieldOrder::WorkerAboveSequence,
        })
    }

    /// Returns the same fields in this order.
    #[must_use]
    pub const fn with_order(self, order: FieldOrder) -> Self {
        Self { order, ..self }
    }

    /// Returns the same layout with the upper `datacenter` worker bits as the data centre.
    ///
    /// # Errors
    /// If the layout has fewer worker bits.
    pub fn with_datacenter_bits(self, datacenter: u32) -> Result<Self, LayoutError> {
        if datacenter > self.worker_bits {
            return Err(LayoutError::Datacenter { datacenter, worker: self.worker_bits });
        }
        Ok(Self { datacenter_bits: datacenter, ..self })
    }

    /// The length of a time unit, in milliseconds.
    #[must_use]
    pub const fn unit_ms(&self) -> u64 {
        self.unit_ms
    }

    /// The time 0 of this layout, in milliseconds since 1970.
    #[must_use]
    pub const fn epoch_ms(&self) -> u64 {
        self.epoch_ms
    }

    /// The highest time, in units since the epoch.
    #[must_use]
    pub const fn max_time(&self) -> u64 {
        (1 << self.time_bits) - 1
    }

    /// The highest worker ID.
    #[must_use]
    pub const fn max_worker(&self) -> u64 {
        (1 << self.worker_bits) - 1
    }

    /// The highest sequence number, which is one less than the IDs per time unit and worker.
    #[must_use]
    pub const fn max_sequence(&self) -> u64 {
        (1 << self.sequence_bits) - 1
    }

    /// The end of the layout: the first time that no longer fits, in milliseconds since 1970.
    /// Saturates at `u64::MAX`.
    #[must_use]
    pub const fn end_ms(&self) -> u64 {
        self.epoch_ms.saturating_add((self.max_time() + 1).saturating_mul(self.unit_ms))
    }

    /// How many consecutive numbers one worker issues at most before it skips some: those of a time unit,
    /// or 1 if the worker is below the sequence.
    #[must_use]
    pub const fn longest_run(&self) -> u64 {
        match self.order {
            FieldOrder::SequenceAboveWorker if self.worker_bits > 0 => 1,
            _ => self.max_sequence() + 1,
        }
    }

    /// The order of the fields below the time.
    #[must_use]
    pub const fn order(&self) -> FieldOrder {
        self.order
    }

    /// The bits below the time: worker and sequence.
    #[must_use]
    pub const fn low_bits(&self) -> u32 {
        self.worker_bits + self.sequence_bits
    }

    /// The shifts of worker and sequence.
    const fn shifts(&self) -> (u32, u32) {
        match self.order {
            FieldOrder::WorkerAboveSequence => (self.sequence_bits, 0),
            FieldOrder::SequenceAboveWorker => (0, self.worker_bits),
        }
    }

    /// Composes an ID from its parts. `None` if a part does not fit its field.
    #[must_use]
    pub const fn compose(&self, time: u64, worker: u64, sequence: u64) -> Option<u64> {
        if time > self.max_time() || worker > self.max_worker() || sequence > self.max_sequence() {
            return None;
        }
        let (worker_at, sequence_at) = self.shifts();
        Some(time << self.low_bits() | worker << worker_at | sequence << sequence_at)
    }

    /// An ID of the time unit at `unix_ms` (ms since 1970) with every bit of worker and sequence: the
    /// highest that can be issued in it. `None` outside the layout's time.
    #[must_use]
    pub const fn full_id(&self, unix_ms: u64) -> Option<u64> {
        match unix_ms.checked_sub(self.epoch_ms) {
            Some(since) => {
                self.compose(since / self.unit_ms, self.max_worker(), self.max_sequence())
            }
            None => None,
        }
    }

    /// Splits an ID into its parts.
    ///
    /// # Errors
    /// If `id` is above `i64::MAX`, or has more bits than the layout.
    pub fn decode(&self, id: u64) -> Result<Decoded, LayoutError> {
        if id > i64::MAX as u64 {
            return Err(LayoutError::Negative(id));
        }
        let time = id >> self.low_bits();
        if time > self.max_time() {
            return Err(LayoutError::TooLong { id, bits: self.time_bits + self.low_bits() });
        }
        let (worker_at, sequence_at) = self.shifts();
        let worker = (id >> worker_at) & self.max_worker();
        let datacenter =
            (self.datacenter_bits > 0).then(|| worker >> (self.worker_bits - self.datacenter_bits));
        Ok(Decoded {
            unix_ms: self.epoch_ms.saturating_add(time.saturating_mul(self.unit_ms)),
            worker,
            datacenter,
            sequence: (id >> sequence_at) & self.max_sequence(),
        })
    }
}

impl Default for Layout {
    fn default() -> Self {
        Self::LEAF
    }
}
