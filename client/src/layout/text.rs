//! Layouts as text: the names of the presets, and the notation of all others.

use std::fmt;
use std::str::FromStr;

use super::{FieldOrder, Layout, LayoutError};
use crate::date::unix_ms;

/// The presets by their names, in the order in which they are listed to users.
pub const PRESETS: [(&str, Layout); 6] = [
    ("leaf", Layout::LEAF),
    ("twitter", Layout::TWITTER),
    ("baidu", Layout::BAIDU),
    ("js", Layout::JS),
    ("sonyflake", Layout::SONYFLAKE),
    ("discord", Layout::DISCORD),
];

/// Writes `TIME/WORKER/SEQUENCE@EPOCH_MS/UNITms`, or `TIME/sSEQUENCE/wWORKER@EPOCH_MS/UNITms` if the
/// sequence is above the worker: the forms that [`FromStr`] reads.
impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.time_bits)?;
        if self.order == FieldOrder::SequenceAboveWorker {
            write!(f, "s{}/w", self.sequence_bits)?;
        }
        if self.datacenter_bits > 0 {
            write!(f, "{}+{}", self.datacenter_bits, self.worker_bits - self.datacenter_bits)?;
        } else {
            write!(f, "{}", self.worker_bits)?;
        }
        if self.order == FieldOrder::WorkerAboveSequence {
            write!(f, "/{}", self.sequence_bits)?;
        }
        write!(f, "@{}/{}ms", self.epoch_ms, self.unit_ms)
    }
}

/// Reads the name of a preset (`leaf`), a preset with another epoch (`baidu@EPOCH`), or what
/// [`fmt::Display`] writes, where the unit defaults to 1 ms. An epoch is in milliseconds since 1970, or
/// a date in UTC: `2026-01-01`, `2010-11-04T01:42:54.657Z`.
impl FromStr for Layout {
    type Err = LayoutError;

    fn from_str(text: &str) -> Result<Self, LayoutError> {
        let unknown = || LayoutError::Unknown(text.to_owned());
        let (name, epoch) = match text.split_once('@') {
            Some((name, epoch)) => (name, Some(epoch)),
            None => (text, None),
        };
        if let Some((_, preset)) = PRESETS.iter().find(|(preset, _)| *preset == name) {
            let epoch_ms = match epoch {
                Some(epoch) => epoch_of(epoch).ok_or_else(unknown)?,
                None => preset.epoch_ms,
            };
            return Ok(Self { epoch_ms, ..*preset });
        }
        let (bits, rest) = text.split_once('@').ok_or_else(unknown)?;
        let (epoch, unit) = match rest.split_once('/') {
            Some((epoch, unit)) => (epoch, unit.strip_suffix("ms").ok_or_else(unknown)?),
            None => (rest, "1"),
        };
        let mut bits = bits.splitn(3, '/');
        let mut part = || bits.next().ok_or_else(unknown);
        let (time, second, third) = (part()?, part()?, part()?);
        let (worker, sequence, order) = match (second.strip_prefix('s'), third.strip_prefix('w')) {
            (Some(sequence), Some(worker)) => (worker, sequence, FieldOrder::SequenceAboveWorker),
            (None, None) => (second, third, FieldOrder::WorkerAboveSequence),
            _ => return Err(unknown()),
        };
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
        .with_order(order)
        .with_datacenter_bits(datacenter)
    }
}

/// Milliseconds since 1970, or a date.
fn epoch_of(text: &str) -> Option<u64> {
    text.parse().ok().or_else(|| unix_ms(text))
}
