//! The memory of the fake daemon: a counter per tag, the next snowflake ID, the worker IDs. It
//! turns a call into a reply without a socket.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::layout::Layout;
use crate::wire::{
    Call, DaemonStatus, ErrorCode, ForecastPage, LimitForecast, Reply, Run, SegmentTotals,
    SnowflakeState, SnowflakeStatus, TagForecast, TagStatus, WireError, WorkerLoan, WorkerState,
    WorkerStatus,
};

const WORKER: u64 = 1;
const IDENTITY: &str = "127.0.0.1:2182";
const DEFAULT_STEP: u32 = 1000;
const LOAN_MS: u64 = 3_600_000;

#[derive(Debug)]
struct FakeTag {
    step: u32,
    next: u64,
    first: u64,
    description: String,
}

/// The fake daemon's memory.
#[derive(Debug)]
pub(super) struct FakeModel {
    tags: BTreeMap<String, FakeTag>,
    /// Where deleted tags ended.
    tombstones: BTreeMap<String, u64>,
    /// The time (ms since 1970) and sequence of the next snowflake ID, unless the clock is later.
    snowflake: (u64, u64),
    snowflakes_issued: u64,
    workers: BTreeMap<u64, WorkerStatus>,
    /// By pool and borrower.
    loans: BTreeMap<String, BTreeMap<String, u64>>,
}

impl Default for FakeModel {
    fn default() -> Self {
        Self {
            tags: BTreeMap::new(),
            tombstones: BTreeMap::new(),
            snowflake: (0, 0),
            snowflakes_issued: 0,
            workers: BTreeMap::from([(WORKER, own_worker())]),
            loans: BTreeMap::new(),
        }
    }
}

impl FakeModel {
    /// Returns the reply to `call`. `requests` and `connections` go into the status.
    pub(super) fn reply(
        &mut self,
        call: &Call<'_>,
        max_count: u32,
        requests: u64,
        connections: u32,
    ) -> Reply {
        let reply = match call {
            Call::Hello { .. } => Err(error(ErrorCode::Malformed, "Hello was already sent")),
            Call::Segment { count, .. } | Call::Snowflake { count, .. }
                if *count == 0 || *count > max_count =>
            {
                Err(error(ErrorCode::BadCount, "the count is out of range")
                    .with_detail(u64::from(max_count)))
            }
            Call::Segment { tag, count, .. } => Ok(self.segment(tag, *count)),
            Call::Snowflake { count, .. } => self.snowflake(*count, unix_ms()),
            Call::Time => Ok(Reply::Time { unix_ms: unix_ms() }),
            Call::Status => Ok(self.status(requests, connections)),
            Call::TagList { after, limit } | Call::TagsUsed { after, limit } => {
                Ok(self.list(after, *limit))
            }
            Call::TagForecasts { tag, after, limit } => self.forecasts(tag, after, *limit),
            Call::TagShow { tag } => self.show(tag),
            // No permutation, but it turns back.
            Call::PublicEncode { ids, .. } => {
                Ok(Reply::PublicIds(ids.iter().map(|id| format!("{id:015x}")).collect()))
            }
            Call::PublicDecode { public_ids, .. } => public_numbers(public_ids),
            Call::TagCreate { tag, step, first, description } => {
                self.create(tag, *step, *first, description)
            }
            Call::TagSetStep { tag, step } => self.set_step(tag, *step),
            Call::WorkerList { from, limit } => Ok(self.list_workers(*from, *limit)),
            Call::WorkerRelease { worker, owner } => self.release_worker(*worker, owner),
            Call::TagDelete { tag } => self.delete(tag),
            Call::WorkerBorrow { pool, borrower, .. } => Ok(self.lend(pool, borrower)),
            Call::WorkerReturn { pool, borrower, .. } => self.take_back(pool, borrower),
            Call::PoolList { .. } | Call::PoolRelease { .. } => {
                Err(error(ErrorCode::NotConfigured, "the fake daemon keeps no list of its pools"))
            }
        };
        reply.unwrap_or_else(Reply::Error)
    }

    /// Lends the lowest free worker ID.
    fn lend(&mut self, pool: &str, borrower: &str) -> Reply {
        let pool = self.loans.entry(pool.to_owned()).or_default();
        let free = (0..).find(|worker| !pool.values().any(|lent| lent == worker)).unwrap_or(0);
        let worker = *pool.entry(borrower.to_owned()).or_insert(free);
        Reply::Loan(loan(worker, borrower))
    }

    fn take_back(&mut self, pool: &str, borrower: &str) -> Result<Reply, WireError> {
        let lent = self.loans.get_mut(pool).and_then(|pool| pool.remove(borrower));
        let worker =
            lent.ok_or_else(|| error(ErrorCode::UnknownWorker, "the borrower has no loan"))?;
        Ok(Reply::Loan(WorkerLoan { left_ms: 0, ..loan(worker, borrower) }))
    }

    fn segment(&mut self, tag: &str, count: u32) -> Reply {
        let begin = self.tombstones.get(tag).copied().unwrap_or(1);
        let tag = self.tags.entry(tag.to_owned()).or_insert_with(|| FakeTag::new(0, begin, ""));
        let first = tag.next;
        tag.next = first.saturating_add(u64::from(count));
        Reply::Ids { first: Run { first, count }, more: Vec::new() }
    }

    fn snowflake(&mut self, count: u32, now_ms: u64) -> Result<Reply, WireError> {
        let layout = Layout::LEAF;
        if self.snowflake.0 < now_ms {
            self.snowflake = (now_ms, 0);
        }
        let (mut runs, mut wanted) = (Vec::new(), u64::from(count));
        while wanted > 0 {
            let (ms, sequence) = self.snowflake;
            let here = wanted.min(layout.max_sequence() + 1 - sequence);
            let first = ms
                .checked_sub(layout.epoch_ms())
                .and_then(|time| layout.compose(time, WORKER, sequence))
                .ok_or_else(|| {
                    error(ErrorCode::TimeExhausted, "the clock is outside the layout")
                })?;
            runs.push(Run { first, count: u32::try_from(here).unwrap_or(u32::MAX) });
            wanted -= here;
            self.snowflake = if sequence + here > layout.max_sequence() {
                (ms + 1, 0)
            } else {
                (ms, sequence + here)
            };
        }
        self.snowflakes_issued += u64::from(count);
        let mut runs = runs.into_iter();
        let first = runs.next().ok_or_else(|| error(ErrorCode::BadCount, "no IDs"))?;
        Ok(Reply::Ids { first, more: runs.collect() })
    }

    fn list(&self, after: &str, limit: u32) -> Reply {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let later = self.tags.iter().filter(|(name, _)| name.as_str() > after);
        Reply::Tags(later.take(limit).map(|(name, tag)| tag.status(name)).collect())
    }

    /// The fake daemon is too young to know a rate.
    fn forecasts(&self, tag: &str, after: &str, limit: u32) -> Result<Reply, WireError> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let is_asked_for = |name: &str| match tag {
            "" => name > after,
            tag => name == tag,
        };
        let asked_for = self.tags.iter().filter(|(name, _)| is_asked_for(name)).take(limit);
        let tags: Vec<_> = asked_for.map(|(name, tag)| forecast(name, tag.next)).collect();
        if tags.is_empty() && !tag.is_empty() {
            return Err(unknown(tag));
        }
        let layout_end_unix_ms = Some(Layout::LEAF.end_ms());
        Ok(Reply::Forecasts(ForecastPage { unix_ms: unix_ms(), layout_end_unix_ms, tags }))
    }

    fn show(&self, name: &str) -> Result<Reply, WireError> {
        let tag = self.tags.get(name).ok_or_else(|| unknown(name))?;
        Ok(Reply::Tags(vec![tag.status(name)]))
    }

    fn create(
        &mut self,
        name: &str,
        step: u32,
        first: u64,
        description: &str,
    ) -> Result<Reply, WireError> {
        if self.tags.contains_key(name) {
            return Err(error(ErrorCode::TagExists, "the tag already exists"));
        }
        let first = first.max(self.tombstones.get(name).copied().unwrap_or(0));
        self.tags.insert(name.to_owned(), FakeTag::new(step, first, description));
        self.show(name)
    }

    fn set_step(&mut self, name: &str, step: u32) -> Result<Reply, WireError> {
        self.tags.get_mut(name).ok_or_else(|| unknown(name))?.step = step;
        self.show(name)
    }

    fn delete(&mut self, name: &str) -> Result<Reply, WireError> {
        let tag = self.tags.remove(name).ok_or_else(|| unknown(name))?;
        self.tombstones.insert(name.to_owned(), tag.next);
        Ok(Reply::Tags(vec![tag.status(name)]))
    }

    /// Adds a worker ID to the registry, or replaces its status.
    pub(super) fn put_worker(&mut self, status: WorkerStatus) {
        self.workers.insert(status.worker, status);
    }

    fn list_workers(&self, from: u64, limit: u32) -> Reply {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Reply::Workers(self.workers.range(from..).take(limit).map(|(_, w)| w.clone()).collect())
    }

    fn release_worker(&mut self, worker: u64, owner: &str) -> Result<Reply, WireError> {
        let refused = |code, why: &str| WireError::new(code, format!("worker ID {worker}: {why}"));
        let status = self.workers.get_mut(&worker);
        let status =
            status.ok_or_else(|| refused(ErrorCode::UnknownWorker, "it does not exist"))?;
        if status.owner != owner {
            return Err(refused(ErrorCode::WrongOwner, &format!("{:?} has it", status.owner)));
        }
        if status.live {
            return Err(refused(ErrorCode::WorkerInUse, "its owner is live"));
        }
        status.state = WorkerState::Released;
        Ok(Reply::Workers(vec![status.clone()]))
    }

    fn status(&self, requests: u64, connections: u32) -> Reply {
        let issued = self.tags.values().map(|tag| tag.next.saturating_sub(tag.first)).sum();
        Reply::Status(Box::new(DaemonStatus {
            version: concat!("fake ", env!("CARGO_PKG_VERSION")).into(),
            pid: std::process::id(),
            uptime_ms: 0,
            connections,
            requests,
            state_dir: String::new(),
            segments: SegmentTotals {
                store: "memory".into(),
                store_error: String::new(),
                tags: u64::try_from(self.tags.len()).unwrap_or(u64::MAX),
                waiting: 0,
                issued,
                leases: 0,
            },
            snowflake: SnowflakeStatus {
                state: SnowflakeState::Serving,
                worker: Some(WORKER),
                registry: "memory".into(),
                layout: Layout::LEAF.to_string(),
                ceiling_unix_ms: 0,
                last_unix_ms: self.snowflake.0,
                clock_unix_ms: unix_ms(),
                issued: self.snowflakes_issued,
                identity: IDENTITY.into(),
                last_report_ms_ago: Some(0),
                registry_error: String::new(),
                limit_unix_ms: None,
                clock_offset_ms: None,
                peers: 0,
            },
        }))
    }
}

impl FakeTag {
    fn new(step: u32, first: u64, description: &str) -> Self {
        let step = if step == 0 { DEFAULT_STEP } else { step };
        Self { step, next: first, first, description: description.to_owned() }
    }

    fn status(&self, name: &str) -> TagStatus {
        TagStatus {
            tag: name.to_owned(),
            row_step: u64::from(self.step),
            step: u64::from(self.step),
            max_id: self.next,
            description: self.description.clone(),
            current: None,
            next: None,
            position: self.next,
            remaining: 0,
            issued: self.next.saturating_sub(self.first),
            leases: 0,
            last_lease_ms_ago: None,
            last_lease_size: 0,
            waiting: 0,
            lease_error: String::new(),
            seconds_left: None,
        }
    }
}

fn own_worker() -> WorkerStatus {
    WorkerStatus {
        worker: WORKER,
        owner: IDENTITY.into(),
        address: IDENTITY.into(),
        state: WorkerState::Held,
        live: true,
        own: true,
        reported_unix_ms: unix_ms(),
        age_ms: 0,
        ceiling_unix_ms: 0,
        limit_unix_ms: None,
    }
}

fn loan(worker: u64, claim: &str) -> WorkerLoan {
    let limit_unix_ms = unix_ms().saturating_add(LOAN_MS);
    let claim = claim.to_owned();
    WorkerLoan { worker, bits: 10, claim, start_unix_ms: 0, limit_unix_ms, left_ms: LOAN_MS }
}

fn error(code: ErrorCode, message: &str) -> WireError {
    WireError::new(code, message)
}

fn forecast(name: &str, max_id: u64) -> TagForecast {
    let limits = [1 << 31, 1 << 53, 1 << 63];
    let limits = limits.map(|limit| LimitForecast { limit, reached_unix_ms: None }).into();
    TagForecast { tag: name.to_owned(), max_id, growth: None, limits }
}

fn public_numbers(public_ids: &[&str]) -> Result<Reply, WireError> {
    let numbers = public_ids.iter().zip(0..).map(|(text, at)| {
        u64::from_str_radix(text, 16).map_err(|_| {
            let text = format!("{text:?} is no public ID");
            WireError::new(ErrorCode::BadPublicId, text).with_detail(at)
        })
    });
    numbers.collect::<Result<_, _>>().map(Reply::PublicNumbers)
}

fn unknown(name: &str) -> WireError {
    WireError::new(ErrorCode::UnknownTag, format!("no tag {name:?}"))
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snowflake_ids_rise_even_if_the_clock_goes_back() {
        let (mut model, now, mut last) = (FakeModel::default(), 1_600_000_000_000, 0);
        // The third call comes with a clock that went back.
        for (now, count) in [(now, 4000), (now, 200), (now - 5, 10_000), (now + 1, 1)] {
            let Ok(Reply::Ids { first, more }) = model.snowflake(count, now) else {
                panic!("no IDs");
            };
            let mut total = 0;
            for run in [first].into_iter().chain(more) {
                assert!(run.first > last);
                last = run.first + u64::from(run.count) - 1;
                let (low, high) =
                    (Layout::LEAF.decode(run.first).unwrap(), Layout::LEAF.decode(last).unwrap());
                assert_eq!((low.unix_ms, low.worker), (high.unix_ms, WORKER));
                total += run.count;
            }
            assert_eq!(total, count);
        }
    }
}
