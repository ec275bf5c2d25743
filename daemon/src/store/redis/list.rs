//! Reading counters: one, those of some tags for the refresh, and pages of all for lists.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::RedisResult;
use redis::aio::MultiplexedConnection;
use tokio::time::Instant;

use super::failure::told;
use super::{LONG_READ, Redis};
use crate::ids::BizTag;
use crate::lock::lock;
use crate::store::{FIND_AT_ONCE, Number, Row, StoreError};

/// How many keys one step of `SCAN` looks at.
const SCAN_AT_ONCE: u32 = 1000;

/// For how long a search serves: a list asks for one page after the other.
const KNOWN_FOR: Duration = Duration::from_secs(10);

/// The tags that the last search found, in byte order, and when that was.
#[derive(Default)]
pub(super) struct KnownKeys(Mutex<Option<(Instant, Arc<Vec<BizTag>>)>>);

/// A counter as Redis has it.
pub(super) struct RawCounter {
    /// The text in it, and leafd's record of its leases.
    pub(super) value: Option<String>,
    pub(super) record: String,
    pub(super) row: Row,
}

impl Redis {
    pub(super) async fn row(&self, tag: &BizTag) -> Result<Row, StoreError> {
        Ok(self.raw(tag).await?.ok_or(StoreError::NoSuchTag)?.row)
    }

    pub(super) async fn find_rows(&self, tags: &[BizTag]) -> Result<Vec<Row>, StoreError> {
        let mut rows = Vec::new();
        for part in tags.chunks(FIND_AT_ONCE) {
            rows.extend(self.raws(part).await?.into_iter().map(|raw| raw.row));
        }
        Ok(rows)
    }

    /// The counter of a tag; none if there is none.
    pub(super) async fn raw(&self, tag: &BizTag) -> Result<Option<RawCounter>, StoreError> {
        Ok(self.raws(std::slice::from_ref(tag)).await?.into_iter().next())
    }

    async fn raws(&self, tags: &[BizTag]) -> Result<Vec<RawCounter>, StoreError> {
        let named = tags.iter().filter_map(|tag| Some((tag, self.place.keys.counter(tag)?)));
        let (tags, counters): (Vec<_>, Vec<_>) = named.unzip();
        if counters.is_empty() {
            return Ok(Vec::new());
        }
        let link = self.link().await?;
        let mut connection = link.connection();
        let read = async {
            let (identity, read) = self.read(&mut connection, &counters).await?;
            // There are no such keys, or they are no text.
            let mut types = redis::pipe();
            for (counter, _) in counters.iter().zip(&read).filter(|(_, it)| it.value.is_none()) {
                types.cmd("TYPE").arg(counter);
            }
            let kinds: Vec<String> = match types.is_empty() {
                true => Vec::new(),
                false => types.query_async(&mut connection).await?,
            };
            let (mut kinds, mut found) = (kinds.into_iter(), Vec::new());
            for (tag, fields) in tags.iter().zip(read) {
                let Fields { value, record, step, description } = fields;
                let max_id = match &value {
                    Some(value) => max_id(value),
                    None => match kinds.next().as_deref() {
                        None | Some("none" | "string") => continue,
                        Some(kind) => Number::new(Some(format!("a {kind}"))),
                    },
                };
                let step = step.map_or_else(
                    || Number::from(self.default_step.cast_signed()),
                    |step| Number::new(Some(step)),
                );
                let description = description.unwrap_or_default();
                let row = Row { tag: tag.as_str().to_owned(), max_id, step, description };
                let record = record.unwrap_or_default();
                found.push(RawCounter { value, record, row });
            }
            Ok((identity, found))
        };
        let (identity, found) = self.on(&link, read).await?;
        // What another Redis lacks, or one that was emptied, says nothing about this host's tags.
        let recorded = self.links.guard().recorded().identity.map(|it| it.to_string());
        if recorded.is_some() && identity != recorded {
            return Err(self.is_another(&link, &identity.unwrap_or_default()).await);
        }
        Ok(found)
    }

    /// The identity of this Redis, and what it has of these counters, in their order.
    async fn read(
        &self,
        connection: &mut MultiplexedConnection,
        counters: &[String],
    ) -> RedisResult<(Option<String>, Vec<Fields>)> {
        let keys = &self.place.keys;
        let mut all = redis::pipe();
        all.cmd("GET").arg(keys.identity()).cmd("MGET").arg(counters);
        for hash in [keys.leases(), keys.steps(), keys.descriptions()] {
            all.cmd("HMGET").arg(hash).arg(counters);
        }
        type Column = Vec<Option<Vec<u8>>>;
        let (identity, values, records, steps, descriptions): (
            Option<Vec<u8>>,
            Column,
            Column,
            Column,
            Column,
        ) = all.query_async(connection).await?;
        let text = |bytes: Option<Vec<u8>>| Some(String::from_utf8_lossy(&bytes?).into_owned());
        let columns = values.into_iter().zip(records).zip(steps).zip(descriptions);
        let fields = columns.map(|(((value, record), step), description)| Fields {
            value: text(value),
            record: text(record),
            step: text(step),
            description: text(description),
        });
        Ok((text(identity).map(|it| it.trim().to_owned()), fields.collect()))
    }

    pub(super) async fn page_of(&self, after: &str, limit: usize) -> Result<Vec<Row>, StoreError> {
        // Redis has no order of keys, so every page but the first is cut from one search.
        let environment = self.links.environment();
        let is_usable = |at: Instant| !after.is_empty() && environment.since(at) < KNOWN_FOR;
        let known = lock(&self.known.0).clone().filter(|(at, _)| is_usable(*at));
        let known = match known {
            Some((_, tags)) => tags,
            None => self.search().await?,
        };
        let start = known.partition_point(|tag| tag.as_str() <= after);
        let mut rows: Vec<Row> = Vec::new();
        for part in known.get(start..).unwrap_or_default().chunks(FIND_AT_ONCE) {
            let missing = limit.saturating_sub(rows.len());
            if missing == 0 {
                break;
            }
            let part = part.get(..part.len().min(missing)).unwrap_or_default();
            rows.extend(self.raws(part).await?.into_iter().map(|raw| raw.row));
        }
        Ok(rows)
    }

    /// Every tag that has a counter. Reads all keys of the database, a thousand at a time.
    async fn search(&self) -> Result<Arc<Vec<BizTag>>, StoreError> {
        let link = self.link().await?;
        let mut connection = link.connection();
        let glob = self.place.keys.glob();
        let search = async {
            let (mut cursor, mut tags) = (0_u64, Vec::new());
            loop {
                let mut scan = redis::cmd("SCAN");
                scan.arg(cursor).arg("MATCH").arg(&glob).arg("COUNT").arg(SCAN_AT_ONCE);
                let (next, keys): (u64, Vec<Vec<u8>>) = scan.query_async(&mut connection).await?;
                let texts = keys.iter().filter_map(|key| std::str::from_utf8(key).ok());
                tags.extend(texts.filter_map(|key| self.place.keys.tag(key)));
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
            // A key may come twice.
            tags.sort_unstable();
            tags.dedup();
            RedisResult::Ok(tags)
        };
        // A slow list says nothing about leases, so it fails as busy, not as down.
        let most = self.timeout * LONG_READ;
        let tags = tokio::time::timeout(most, search).await.map_err(|_| {
            let ms = most.as_millis();
            StoreError::Busy(format!(
                "{}: {ms} ms did not suffice to read all keys",
                self.described
            ))
        })?;
        let tags = Arc::new(tags.map_err(|error| match error.code() {
            // Leases do not need this right.
            Some("NOPERM") => StoreError::NotSetUp(format!(
                "{}: {}; give leafd's user the right +scan",
                self.described,
                told(&error)
            )),
            _ => self.failed(&error),
        })?);
        *lock(&self.known.0) = Some((self.links.environment().now(), Arc::clone(&tags)));
        Ok(tags)
    }
}

struct Fields {
    value: Option<String>,
    record: Option<String>,
    step: Option<String>,
    description: Option<String>,
}

/// Where the next lease starts, if the counter holds a number; else its text.
fn max_id(value: &str) -> Number {
    let number = value.parse::<u64>().ok().filter(|number| number.to_string() == value);
    match number.and_then(|number| number.checked_add(1)) {
        Some(next) => Number::new(Some(next.to_string())),
        // In quotes, so that it is no number either where Redis takes it for none, such as 01.
        None => Number::new(Some(format!("{:?}", value.chars().take(40).collect::<String>()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_lease_starts_one_above_a_counter_that_is_a_number() {
        assert_eq!(max_id("0"), Number::from(1));
        assert_eq!(max_id("9007199254740993").get(), Some(9_007_199_254_740_994));
        assert_eq!(max_id("9223372036854775806").get(), Some(i64::MAX));
        assert_eq!(max_id("9223372036854775807").get(), None, "it is full");
        for text in ["", "-1", "+1", "01", "1.0", "many", "9223372036854775808"] {
            assert_eq!(max_id(text).get(), None, "{text}");
        }
    }
}
