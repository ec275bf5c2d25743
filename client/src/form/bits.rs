//! A snowflake as milliseconds and the bits below them, as UUIDs and ObjectIDs hold it.

use super::FormError;
use crate::layout::Layout;

/// How many bits below the milliseconds UUIDs and ObjectIDs have room for.
pub(super) const LOW_BITS: u32 = 34;

/// The two parts. They sort as the snowflakes of one layout do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TimedBits {
    /// Milliseconds since 1970.
    pub(super) unix_ms: u64,
    /// Worker and sequence, below `1 << LOW_BITS`.
    pub(super) low: u64,
}

/// Of the bits below the time, how many do not fit into [`LOW_BITS`]. They are counted in milliseconds
/// within the layout's time unit, which has so many that mean nothing.
fn excess_bits(layout: &Layout) -> Result<u32, FormError> {
    let excess = layout.low_bits().saturating_sub(LOW_BITS);
    if excess < u64::BITS && 1 << excess <= layout.unit_ms() {
        return Ok(excess);
    }
    Err(FormError::NoRoom("worker and sequence have more bits than there are random ones"))
}

impl TimedBits {
    /// Splits a snowflake.
    pub(super) fn of(layout: &Layout, id: u64) -> Result<Self, FormError> {
        excess_bits(layout)?;
        let unit_start_ms = layout.decode(id)?.unix_ms;
        let low = id & ((1 << layout.low_bits()) - 1);
        Ok(Self {
            unix_ms: unit_start_ms.saturating_add(low >> LOW_BITS),
            low: low & ((1 << LOW_BITS) - 1),
        })
    }

    /// The snowflake that was split. Refuses what no snowflake of the layout gives.
    pub(super) fn id(self, layout: &Layout) -> Result<u64, FormError> {
        let excess_bits = excess_bits(layout)?;
        let since_ms = self.unix_ms.checked_sub(layout.epoch_ms());
        let since_ms = since_ms.ok_or(FormError::Foreign("its time is before the epoch"))?;
        let (time, excess) = (since_ms / layout.unit_ms(), since_ms % layout.unit_ms());
        if time > layout.max_time() {
            return Err(FormError::Foreign("its time is past the end of the layout"));
        }
        if excess >> excess_bits != 0 {
            return Err(FormError::Foreign("its time lies within a time unit"));
        }
        let low = excess << LOW_BITS | self.low;
        if low >> layout.low_bits() != 0 {
            return Err(FormError::Foreign("it has more bits for worker and sequence"));
        }
        Ok(time << layout.low_bits() | low)
    }
}
