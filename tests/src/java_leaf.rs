//! A stand-in for a Java Leaf server on a shared table, with its statements, its transaction, its step
//! rule and its types. It has no double buffer: leasing ahead changes when a range is leased, but not
//! which range.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::database::{Database, Session};

/// The step is not doubled beyond this.
const MAX_STEP: i32 = 1_000_000;

/// A range that lasts less than this is too small, so the step is doubled.
const SEGMENT_DURATION: Duration = Duration::from_secs(15 * 60);

/// One server. Dropping it loses the IDs that it has leased and not issued, as every restart of Java
/// Leaf does; [`Self::left`] returns them.
#[derive(Debug)]
pub struct JavaLeaf {
    url: String,
    session: Option<Session>,
    tags: HashMap<String, Buffer>,
    loads: u64,
    uncertain: u64,
}

/// The state of a tag: the range in use, `[next, max)`, and that of the step rule.
#[derive(Debug, Default)]
struct Buffer {
    next: i64,
    max: i64,
    loads: u32,
    step: i32,
    min_step: i32,
    updated: Option<Instant>,
}

impl JavaLeaf {
    /// Starts a server on this database.
    #[must_use]
    pub fn new(database: &Database) -> Self {
        let url = database.url();
        Self { url, session: None, tags: HashMap::new(), loads: 0, uncertain: 0 }
    }

    /// The next ID of a tag. Fails if a range is needed and the database does not give one, which is
    /// Java Leaf's code -3. The next call tries again.
    pub fn get(&mut self, tag: &str) -> sqlx::Result<u64> {
        if self.tags.get(tag).is_none_or(|buffer| buffer.next >= buffer.max) {
            self.load(tag)?;
        }
        let buffer = self.tags.get_mut(tag).expect("it was loaded");
        let id = buffer.next;
        buffer.next += 1;
        Ok(u64::try_from(id).expect("an ID above 0"))
    }

    /// The first ID and the number of IDs that it has leased of a tag and not issued.
    #[must_use]
    pub fn left(&self, tag: &str) -> (u64, u64) {
        let (next, max) = self.tags.get(tag).map_or((0, 0), |buffer| (buffer.next, buffer.max));
        (next.cast_unsigned(), (max - next).cast_unsigned())
    }

    /// How many ranges it has leased.
    #[must_use]
    pub const fn loads(&self) -> u64 {
        self.loads
    }

    /// How many commits failed without telling whether they took effect.
    #[must_use]
    pub const fn uncertain(&self) -> u64 {
        self.uncertain
    }

    /// The size of the last range of a tag, and the step that the row had then.
    #[must_use]
    pub fn last_load(&self, tag: &str) -> Option<(i32, i32)> {
        self.tags.get(tag).map(|buffer| (buffer.step, buffer.min_step))
    }

    fn load(&mut self, tag: &str) -> sqlx::Result<()> {
        let buffer = self.tags.entry(tag.to_owned()).or_default();
        let adapted = buffer.next_step();
        // The tags of tests need no quoting.
        let update = match adapted {
            None => "max_id + step".to_owned(),
            Some(step) => format!("max_id + {step}"),
        };
        let update = format!("UPDATE leaf_alloc SET max_id = {update} WHERE biz_tag = '{tag}'");
        let select =
            format!("SELECT biz_tag, max_id, step FROM leaf_alloc WHERE biz_tag = '{tag}'");
        // Any failure closes the session, which rolls back.
        let mut session = match self.session.take() {
            Some(session) => session,
            None => Session::open(&self.url)?,
        };
        session.try_query("BEGIN")?;
        session.try_query(&update)?;
        let rows = session.try_query(&select)?;
        if let Err(error) = session.try_query("COMMIT") {
            self.uncertain += 1;
            return Err(error);
        }
        self.session = Some(session);
        self.loads += 1;
        let row = rows.first().unwrap_or_else(|| panic!("there is no tag {tag}"));
        let [_, Some(max_id), Some(row_step)] = row.as_slice() else { panic!("{row:?}") };
        buffer.loaded(
            adapted,
            max_id.parse().unwrap_or_else(|_| panic!("max_id {max_id}")),
            row_step.parse().unwrap_or_else(|_| panic!("step {row_step}")),
        );
        Ok(())
    }
}

impl Buffer {
    /// The step of the next load; none if the row decides, as it does for the first two loads.
    fn next_step(&self) -> Option<i32> {
        let since = self.updated?.elapsed();
        Some(if since < SEGMENT_DURATION {
            let doubled = self.step.wrapping_mul(2);
            if doubled > MAX_STEP { self.step } else { doubled }
        } else if since < SEGMENT_DURATION * 2 {
            self.step
        } else if self.step / 2 >= self.min_step {
            self.step / 2
        } else {
            self.step
        })
    }

    fn loaded(&mut self, adapted: Option<i32>, max_id: i64, row_step: i32) {
        self.loads += 1;
        if self.loads >= 2 {
            self.updated = Some(Instant::now());
        }
        self.step = adapted.unwrap_or(row_step);
        self.min_step = row_step;
        self.next = max_id - i64::from(self.step);
        self.max = max_id;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::Kind;

    #[test]
    fn the_first_two_ranges_have_the_rows_step_and_later_ones_double() {
        for kind in Kind::ALL {
            let database = Database::shared(kind).fresh();
            database.create_table();
            database.insert_tag("orders", 1, 100);
            let mut java = JavaLeaf::new(&database);
            for (first, step) in [(1, 100), (101, 100), (201, 200), (401, 400), (801, 800)] {
                for id in first..first + step {
                    assert_eq!(java.get("orders").unwrap(), id);
                }
                assert_eq!(database.max_id("orders").cast_unsigned(), first + step);
                assert_eq!(java.left("orders"), (first + step, 0));
            }
            assert_eq!((java.loads(), java.uncertain()), (5, 0));
        }
    }

    #[test]
    fn the_step_doubles_up_to_a_million_and_halves_down_to_the_rows_step_after_long_pauses() {
        let mut buffer = Buffer::default();
        for load in 0..30 {
            let adapted = buffer.next_step();
            assert_eq!(adapted.is_none(), load < 2);
            buffer.loaded(adapted, 1 << 40, 1000);
        }
        assert_eq!(buffer.step, 512_000);
        for step in [256_000, 128_000, 64_000, 32_000, 16_000, 8000, 4000, 2000, 1000, 1000] {
            buffer.updated = buffer.updated.and_then(|at| at.checked_sub(2 * SEGMENT_DURATION));
            let adapted = buffer.next_step();
            assert_eq!(adapted, Some(step));
            buffer.loaded(adapted, 1 << 40, 1000);
        }
        buffer.updated = buffer.updated.and_then(|at| at.checked_sub(SEGMENT_DURATION));
        assert_eq!(buffer.next_step(), Some(1000));
    }
}
