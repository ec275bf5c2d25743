//! The bits of a snowflake ID: time, worker and sequence, 63 in all, so that an ID is never
//! negative as a signed number. Plain arithmetic; no clock and no IO.

use std::fmt;
use std::str::FromStr;

use crate::date::unix_ms;

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

/// Why a layout or an ID is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// The bits do not add up to 63.
    #[error("time {time} + worker {worker} + sequence {sequence} bits make {}, not 63",
        u64::from(*time) + u64::from(*worker) + u64::from(*sequence))]
    Sum {
        /// Bits of the time.
        time: u32,
        /// Bits of the worker ID.
        worker: u32,
        /// Bits of the sequence.
        sequence: u32,
    },
    /// Time or sequence has no bits.
    #[error("time and sequence need at least one bit each")]
    Empty,
    /// The time unit, in milliseconds, is not supported.
    #[error("a unit of {0} ms is not supported; use 1, 10 or 1000")]
    Unit(u64),
    /// The data centre has more bits than the worker ID that it is part of.
    #[error("{datacenter} data centre bits do not fit into {worker} worker bits")]
    Datacenter {
        /// Bits of the data centre.
        datacenter: u32,
        /// Bits of the worker ID.
        worker: u32,
    },
    /// The text is neither a preset nor of the written form.
    #[error(
        "layout {0:?} is neither a preset (leaf, twitter, baidu, each with an optional epoch as in \
         baidu@2026-01-01) nor TIME/WORKER/SEQUENCE@EPOCH with an optional unit, as in \
         41/10/12@2010-11-04T01:42:54.657Z or 28/22/13@2026-01-01/1000ms; an epoch is a date in UTC, \
         or milliseconds since 1970"
    )]
    Unknown(String),
    /// The ID has its sign bit set.
    #[error("{0} is above 2^63 - 1, so it is no snowflake ID")]
    Negative(u64),
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
    };

    /// Makes a layout.
    ///
    /// `unit_ms` is 1, 10 or 1000; `epoch_ms` is in milliseconds since 1970. The bits add up to 63,
    /// with at least one each for time and sequence.
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
        if sum != Some(63) {
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
        Ok(Self { unit_ms, epoch_ms, time_bits, worker_bits, sequence_bits, datacenter_bits: 0 })
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

    /// Composes an ID from its parts. `None` if a part does not fit its field.
    #[must_use]
    pub const fn compose(&self, time: u64, worker: u64, sequence: u64) -> Option<u64> {
        if time > self.max_time() || worker > self.max_worker() || sequence > self.max_sequence() {
            return None;
        }
        Some(
            time << (self.worker_bits + self.sequence_bits)
                | worker << self.sequence_bits
                | sequence,
        )
    }

    /// Splits an ID into its parts.
    ///
    /// # Errors
    /// If `id` is above `i64::MAX`.
    pub fn decode(&self, id: u64) -> Result<Decoded, LayoutError> {
        if id > i64::MAX as u64 {
            return Err(LayoutError::Negative(id));
        }
        let time = id >> (self.worker_bits + self.sequence_bits);
        let worker = (id >> self.sequence_bits) & self.max_worker();
        let datacenter =
            (self.datacenter_bits > 0).then(|| worker >> (self.worker_bits - self.datacenter_bits));
        Ok(Decoded {
            unix_ms: self.epoch_ms.saturating_add(time.saturating_mul(self.unit_ms)),
            worker,
            datacenter,
            sequence: id & self.max_sequence(),
        })
    }
}

impl Default for Layout {
    fn default() -> Self {
        Self::LEAF
    }
}

/// Writes `TIME/WORKER/SEQUENCE@EPOCH_MS/UNITms`, the form that [`FromStr`] reads.
impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.time_bits)?;
        if self.datacenter_bits > 0 {
            write!(f, "{}+{}", self.datacenter_bits, self.worker_bits - self.datacenter_bits)?;
        } else {
            write!(f, "{}", self.worker_bits)?;
        }
        write!(f, "/{}@{}/{}ms", self.sequence_bits, self.epoch_ms, self.unit_ms)
    }
}

/// Reads a preset (`leaf`, `twitter`, `baidu`), a preset with another epoch (`baidu@EPOCH`), or the
/// form that [`fmt::Display`] writes, where the unit defaults to 1 ms. An epoch is in milliseconds
/// since 1970, or a date in UTC: `2026-01-01`, `2010-11-04T01:42:54.657Z`.
impl FromStr for Layout {
    type Err = LayoutError;

    fn from_str(text: &str) -> Result<Self, LayoutError> {
        let unknown = || LayoutError::Unknown(text.to_owned());
        let (name, epoch) = match text.split_once('@') {
            Some((name, epoch)) => (name, Some(epoch)),
            None => (text, None),
        };
        let preset = match name {
            "leaf" => Some(Self::LEAF),
            "twitter" => Some(Self::TWITTER),
            "baidu" => Some(Self::BAIDU),
            _ => None,
        };
        if let Some(preset) = preset {
            let epoch_ms = match epoch {
                Some(epoch) => epoch_of(epoch).ok_or_else(unknown)?,
                None => preset.epoch_ms,
            };
            return Ok(Self { epoch_ms, ..preset });
        }
        let (bits, rest) = text.split_once('@').ok_or_else(unknown)?;
        let (epoch, unit) = match rest.split_once('/') {
            Some((epoch, unit)) => (epoch, unit.strip_suffix("ms").ok_or_else(unknown)?),
            None => (rest, "1"),
        };
        let mut bits = bits.splitn(3, '/');
        let mut part = || bits.next().ok_or_else(unknown);
        let (time, worker, sequence) = (part()?, part()?, part()?);
        let number = |text: &str| text.parse::<u32>().map_err(|_| unknown());
        let (datacenter, worker) = match worker.split_once('+') {
            Some((upper, lower)) => {
                let upper = number(upper)?;
                (upper, upper.checked_add(number(lower)?).ok_or_else(unknown)?)
            }
            None => (0, number(worker)?),
        };
        Self::new(
            unit.parse().map_err(|_| unknown())?,
            epoch_of(epoch).ok_or_else(unknown)?,
            number(time)?,
            worker,
            number(sequence)?,
        )?
        .with_datacenter_bits(datacenter)
    }
}

/// Milliseconds since 1970, or a date.
fn epoch_of(text: &str) -> Option<u64> {
    text.parse().ok().or_else(|| unix_ms(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ids_are_decoded_as_java_leaf_composes_them() {
        // (timestamp - twepoch) << 22 | workerId << 12 | sequence
        let id = (1_600_000_000_000 - 1_288_834_974_657) << 22 | 513 << 12 | 77;
        let decoded = Layout::LEAF.decode(id).unwrap();
        assert_eq!(
            decoded,
            Decoded { unix_ms: 1_600_000_000_000, worker: 513, datacenter: None, sequence: 77 }
        );
        let twitter = Layout::TWITTER.decode(id).unwrap();
        assert_eq!((twitter.worker, twitter.datacenter), (513, Some(16)));
    }

    #[test]
    fn presets_are_written_and_read_back() {
        for (name, layout) in
            [("leaf", Layout::LEAF), ("twitter", Layout::TWITTER), ("baidu", Layout::BAIDU)]
        {
            assert_eq!(name.parse::<Layout>().unwrap(), layout);
            assert_eq!(layout.to_string().parse::<Layout>().unwrap(), layout);
        }
        let late: Layout = "baidu@1767225600000".parse().unwrap();
        assert_eq!(late, Layout::new(1000, 1_767_225_600_000, 28, 22, 13).unwrap());
        assert_eq!("baidu@2026-01-01".parse::<Layout>().unwrap(), late);
        assert_eq!("28/22/13@2026-01-01/1000ms".parse::<Layout>().unwrap(), late);
        let leaf = "41/10/12@2010-11-04T01:42:54.657Z";
        assert_eq!(leaf.parse::<Layout>().unwrap(), Layout::LEAF);
        assert_eq!(Layout::LEAF.to_string(), "41/10/12@1288834974657/1ms");
        assert_eq!("41/10/12@1288834974657".parse::<Layout>().unwrap(), Layout::LEAF);
    }

    #[test]
    fn an_invalid_layout_is_refused_with_its_numbers() {
        let error = Layout::new(1, 0, 41, 10, 13).unwrap_err();
        assert!(error.to_string().contains("make 64, not 63"), "{error}");
        assert!(Layout::new(1, 0, u32::MAX, u32::MAX, 65).is_err());
        assert!(Layout::new(1, 0, 0, 51, 12).is_err());
        assert!(Layout::new(1, 0, 41, 22, 0).is_err());
        assert_eq!(Layout::new(2, 0, 41, 10, 12), Err(LayoutError::Unit(2)));
        for text in [
            "",
            "leaf2",
            "leaf@",
            "baidu@x",
            "41/10/12",
            "41/10@0",
            "41/10/12@-1",
            "41/9+/12@0",
            "a/b/c@d",
        ] {
            assert!(text.parse::<Layout>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn no_id_is_negative() {
        for layout in [Layout::LEAF, Layout::BAIDU] {
            let (time, worker, sequence) =
                (layout.max_time(), layout.max_worker(), layout.max_sequence());
            assert_eq!(layout.compose(time, worker, sequence), Some(i64::MAX as u64));
            assert_eq!(layout.compose(time + 1, worker, sequence), None);
            assert_eq!(layout.compose(time, worker + 1, sequence), None);
            assert_eq!(layout.compose(time, worker, sequence + 1), None);
        }
        assert!(Layout::LEAF.decode(u64::MAX).is_err());
    }

    proptest! {
        #[test]
        fn every_id_is_decoded_to_the_parts_it_was_composed_of(id in 0..=i64::MAX as u64) {
            for layout in [Layout::LEAF, Layout::TWITTER, Layout::BAIDU] {
                let decoded = layout.decode(id).unwrap();
                let time = (decoded.unix_ms - layout.epoch_ms()) / layout.unit_ms();
                prop_assert_eq!(layout.compose(time, decoded.worker, decoded.sequence), Some(id));
            }
        }
    }
}
