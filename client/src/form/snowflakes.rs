//! The forms that hold the parts of a snowflake: unique because it is, and reversible.

use super::bits::{LOW_BITS, TimedBits};
use super::{FleetId, FormError, ObjectId, Uuid};
use crate::layout::{Decoded, Layout};

/// Bits of the worker ID in a UUID of version 1: 14 of the clock sequence, and 7 of the node.
const WORKER_BITS_1: u32 = 21;

/// 1970-01-01 in units of 100 ns since 1582-10-15, where UUIDs of version 1 begin.
const GREGORIAN_TICKS: u64 = 0x01b2_1dd2_1381_4000;

/// Units of 100 ns in a millisecond.
const TICKS_PER_MS: u64 = 10_000;

/// Bits of the fleet ID in an ObjectID, its upper ones.
const FLEET_BITS_OF_OBJECT_ID: u32 = 20;

/// Turns the snowflakes of one installation into UUIDs and ObjectIDs, and back.
///
/// ```
/// use leaf_client::Layout;
/// use leaf_client::form::Snowflakes;
///
/// let snowflakes = Snowflakes::new(Layout::LEAF, "4be1f0a37c".parse()?);
/// let uuid = snowflakes.uuid7(2_124_029_785_372_885_063)?;
/// assert_eq!(uuid.to_string(), "01a1fcd4-5c07-7000-8000-474be1f0a37c");
/// assert_eq!(snowflakes.id_of(uuid)?, 2_124_029_785_372_885_063);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snowflakes {
    layout: Layout,
    fleet: FleetId,
}

impl Snowflakes {
    /// The snowflakes of this layout and installation.
    #[must_use]
    pub const fn new(layout: Layout, fleet: FleetId) -> Self {
        Self { layout, fleet }
    }

    /// The UUID of version 7: the milliseconds of the snowflake, worker and sequence, then the fleet ID.
    /// UUIDs sort as the snowflakes do.
    ///
    /// # Errors
    /// If `id` does not belong to the layout, or the layout has no room: its time is past the year 10889, or
    /// worker and sequence have more than 34 bits (for units of 10 ms 37, for seconds 43).
    pub fn uuid7(&self, id: u64) -> Result<Uuid, FormError> {
        let TimedBits { unix_ms, low } = TimedBits::of(&self.layout, id)?;
        if unix_ms >> 48 != 0 {
            return Err(FormError::NoRoom("the time has more than 48 bits of milliseconds"));
        }
        let rest = low & ((1 << (LOW_BITS - 12)) - 1);
        Ok(Uuid::of(7, unix_ms, low >> (LOW_BITS - 12), rest << FleetId::BITS | self.fleet.bits()))
    }

    /// The UUID of version 8: the ID as it is, then the fleet ID, then 19 zero bits. It needs no layout,
    /// and sorts as the number does.
    ///
    /// # Errors
    /// If `id` is above `i64::MAX`.
    pub fn uuid8(&self, id: u64) -> Result<Uuid, FormError> {
        if i64::try_from(id).is_err() {
            return Err(FormError::TooLarge(id));
        }
        let rest = (id & 0b111) << 59 | self.fleet.bits() << 19;
        Ok(Uuid::of(8, id >> 15, (id >> 3) & 0xfff, rest))
    }

    /// The UUID of version 1: the time in units of 100 ns, of which the sequence is the last part; the
    /// worker in clock sequence and node; the fleet ID in the node. Its order is not the snowflakes'.
    ///
    /// # Errors
    /// If `id` does not belong to the layout, or the layout has no room: a unit of time has fewer than 10,000
    /// steps per millisecond for the sequence, or the time is past the year 5236.
    pub fn uuid1(&self, id: u64) -> Result<Uuid, FormError> {
        let Decoded { unix_ms, worker, sequence, .. } = self.layout.decode(id)?;
        self.check_room_1()?;
        let excess = (worker >> WORKER_BITS_1) * (self.layout.max_sequence() + 1);
        let ticks = unix_ms
            .checked_mul(TICKS_PER_MS)
            .and_then(|ticks| ticks.checked_add(GREGORIAN_TICKS + excess + sequence))
            .filter(|ticks| ticks >> 60 == 0)
            .ok_or(FormError::NoRoom("the time has more than 60 bits of 100 ns"))?;
        let worker = worker & ((1 << WORKER_BITS_1) - 1);
        // The lowest bit of the first byte says that the node is no network card's address.
        let node = (worker & 0x7f) << 41 | 1 << 40 | self.fleet.bits();
        let (low, mid) = (ticks & 0xffff_ffff, (ticks >> 32) & 0xffff);
        Ok(Uuid::of(1, low << 16 | mid, ticks >> 48, (worker >> 7) << 48 | node))
    }

    fn check_room_1(&self) -> Result<(), FormError> {
        let layout = &self.layout;
        let excess = (layout.max_worker() >> WORKER_BITS_1) + 1;
        let steps = excess.checked_mul(layout.max_sequence() + 1);
        if steps.is_none_or(|steps| steps > layout.unit_ms() * TICKS_PER_MS) {
            return Err(FormError::NoRoom("a unit of time has too few steps of 100 ns"));
        }
        Ok(())
    }

    /// The ID that became this UUID of version 1, 7 or 8.
    ///
    /// # Errors
    /// If the UUID has another version, comes from another installation, or could not have been made by
    /// [`Snowflakes::uuid7`], [`Snowflakes::uuid8`] or [`Snowflakes::uuid1`].
    pub fn id_of(&self, uuid: Uuid) -> Result<u64, FormError> {
        let found = fleet_of(uuid)?;
        if found != self.fleet {
            return Err(FormError::Fleet {
                expected: self.fleet.to_string(),
                found: found.to_string(),
            });
        }
        match uuid.version() {
            1 => self.id_of_1(uuid),
            8 => id_of_8(uuid),
            _ => {
                let (unix_ms, high, rest) = uuid.fields(7)?;
                let low = high << (LOW_BITS - 12) | rest >> FleetId::BITS;
                TimedBits { unix_ms, low }.id(&self.layout)
            }
        }
    }

    fn id_of_1(&self, uuid: Uuid) -> Result<u64, FormError> {
        self.check_room_1()?;
        let layout = &self.layout;
        let (low, high, rest) = uuid.fields(1)?;
        let ticks = high << 48 | (low & 0xffff) << 32 | low >> 16;
        if rest >> 40 & 1 == 0 {
            return Err(FormError::Foreign("its node is the address of a network card"));
        }
        let epoch = layout.epoch_ms().checked_mul(TICKS_PER_MS);
        let since = epoch
            .and_then(|epoch| ticks.checked_sub(GREGORIAN_TICKS)?.checked_sub(epoch))
            .ok_or(FormError::Foreign("its time is before the epoch"))?;
        let unit = layout.unit_ms() * TICKS_PER_MS;
        let (time, step) = (since / unit, since % unit);
        let sequences = layout.max_sequence() + 1;
        let worker = (step / sequences) << WORKER_BITS_1 | rest >> 48 << 7 | rest >> 41 & 0x7f;
        let id = layout.compose(time, worker, step % sequences);
        id.ok_or(FormError::Foreign("a part does not fit its field"))
    }

    /// The ObjectID: seconds, milliseconds, worker and sequence, then the upper 20 bits of the fleet ID.
    /// ObjectIDs sort as the snowflakes do. Two installations can have these 20 bits in common.
    ///
    /// # Errors
    /// As [`Snowflakes::uuid7`], with times up to the year 2106.
    pub fn object_id(&self, id: u64) -> Result<ObjectId, FormError> {
        let TimedBits { unix_ms, low } = TimedBits::of(&self.layout, id)?;
        let seconds = u32::try_from(unix_ms / 1000)
            .map_err(|_| FormError::NoRoom("the time has more than 32 bits of seconds"))?;
        let low = (unix_ms % 1000) << LOW_BITS | low;
        Ok(ObjectId::of(seconds, low << FLEET_BITS_OF_OBJECT_ID | self.upper_fleet()))
    }

    /// The ID that became this ObjectID.
    ///
    /// # Errors
    /// If the ObjectID is of another installation, or none that [`Snowflakes::object_id`] makes.
    pub fn id_of_object_id(&self, object_id: ObjectId) -> Result<u64, FormError> {
        let (_, rest) = object_id.fields();
        if rest & ((1 << FLEET_BITS_OF_OBJECT_ID) - 1) != self.upper_fleet() {
            return Err(FormError::PartOfFleet { expected: self.fleet.to_string() });
        }
        loose_object_id(self.layout, object_id)
    }

    const fn upper_fleet(&self) -> u64 {
        self.fleet.bits() >> (FleetId::BITS - FLEET_BITS_OF_OBJECT_ID)
    }
}

/// The fleet ID in a UUID of version 1, 7 or 8, which another installation may have made.
///
/// # Errors
/// If the UUID has another version.
pub fn fleet_of(uuid: Uuid) -> Result<FleetId, FormError> {
    match uuid.version() {
        8 => uuid.fields(8).map(|(_, _, rest)| FleetId::of_lower(rest >> 19)),
        1 => uuid.fields(1).map(|(_, _, rest)| FleetId::of_lower(rest)),
        5 => Err(FormError::OneWay),
        _ => uuid.fields(7).map(|(_, _, rest)| FleetId::of_lower(rest)),
    }
}

/// The ID that became this ObjectID in whichever installation.
pub(super) fn loose_object_id(layout: Layout, object_id: ObjectId) -> Result<u64, FormError> {
    let (seconds, rest) = object_id.fields();
    let rest = rest >> FLEET_BITS_OF_OBJECT_ID;
    let (ms, low) = (rest >> LOW_BITS, rest & ((1 << LOW_BITS) - 1));
    if ms >= 1000 {
        return Err(FormError::Foreign("it has more than 999 milliseconds"));
    }
    TimedBits { unix_ms: u64::from(seconds) * 1000 + ms, low }.id(&layout)
}

fn id_of_8(uuid: Uuid) -> Result<u64, FormError> {
    let (high, middle, rest) = uuid.fields(8)?;
    if rest & ((1 << 19) - 1) != 0 {
        return Err(FormError::Foreign("its last 19 bits are not zero"));
    }
    Ok(high << 15 | middle << 3 | rest >> 59)
}
