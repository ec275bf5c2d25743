//! How many requests there were, by call and outcome. The path of a request adds to a [`BatchTally`],
//! plain numbers of one connection; only the end of a batch touches the shared [`RequestTally`].

use std::sync::atomic::{AtomicU64, Ordering};

use leaf_client::wire::{Call, ErrorCode};

macro_rules! call_kinds {
    ($($kind:ident = $name:literal,)*) => {
        /// What a request asks for.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum CallKind {
            $($kind,)*
        }

        impl CallKind {
            pub(crate) const ALL: &[Self] = &[$(Self::$kind,)*];

            /// The value of the label `call`.
            pub(crate) const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }
        }
    };
}

call_kinds! {
    Segment = "segment",
    Snowflake = "snowflake",
    Hello = "hello",
    Time = "time",
    Status = "status",
    TagList = "tag-list",
    TagShow = "tag-show",
    TagCreate = "tag-create",
    TagSetStep = "tag-set-step",
    TagDelete = "tag-delete",
    TagsUsed = "tags-used",
    WorkerList = "worker-list",
    WorkerRelease = "worker-release",
    WorkerBorrow = "worker-borrow",
    WorkerReturn = "worker-return",
    PoolList = "pool-list",
    PoolRelease = "pool-release",
    TagForecasts = "tag-forecasts",
    PublicEncode = "public-encode",
    PublicDecode = "public-decode",
    Connect = "connect",
    Unknown = "unknown",
}

impl CallKind {
    pub(crate) const fn of(call: &Call<'_>) -> Self {
        match call {
            Call::Hello { .. } => Self::Hello,
            Call::Segment { .. } => Self::Segment,
            Call::Snowflake { .. } => Self::Snowflake,
            Call::Time => Self::Time,
            Call::Status => Self::Status,
            Call::TagList { .. } => Self::TagList,
            Call::TagShow { .. } => Self::TagShow,
            Call::TagCreate { .. } => Self::TagCreate,
            Call::TagSetStep { .. } => Self::TagSetStep,
            Call::TagDelete { .. } => Self::TagDelete,
            Call::TagsUsed { .. } => Self::TagsUsed,
            Call::WorkerList { .. } => Self::WorkerList,
            Call::WorkerRelease { .. } => Self::WorkerRelease,
            Call::WorkerBorrow { .. } => Self::WorkerBorrow,
            Call::WorkerReturn { .. } => Self::WorkerReturn,
            Call::PoolList { .. } => Self::PoolList,
            Call::PoolRelease { .. } => Self::PoolRelease,
            Call::TagForecasts { .. } => Self::TagForecasts,
            Call::PublicEncode { .. } => Self::PublicEncode,
            Call::PublicDecode { .. } => Self::PublicDecode,
        }
    }
}

const CALLS: usize = CallKind::ALL.len();
const CODES: usize = ErrorCode::ALL.len();

/// Requests that memory answered, of one connection since its last fold.
#[derive(Debug, Default)]
pub(crate) struct BatchTally {
    segments: u64,
    segment_ids: u64,
    snowflakes: u64,
    snowflake_ids: u64,
}

impl BatchTally {
    #[inline(always)]
    pub(crate) const fn segment(&mut self, ids: u32) {
        self.segments += 1;
        self.segment_ids += ids as u64;
    }

    #[inline(always)]
    pub(crate) const fn snowflake(&mut self, ids: u32) {
        self.snowflakes += 1;
        self.snowflake_ids += ids as u64;
    }
}

/// All requests that were answered.
#[derive(Debug)]
pub(crate) struct RequestTally {
    answered: [AtomicU64; CALLS],
    refused: [[AtomicU64; CODES]; CALLS],
    segment_ids: AtomicU64,
    snowflake_ids: AtomicU64,
}

impl Default for RequestTally {
    fn default() -> Self {
        let refused = [const { [const { AtomicU64::new(0) }; CODES] }; CALLS];
        let (answered, zero) = ([const { AtomicU64::new(0) }; CALLS], || AtomicU64::new(0));
        Self { answered, refused, segment_ids: zero(), snowflake_ids: zero() }
    }
}

impl RequestTally {
    /// Adds what one connection has counted, and begins again at 0.
    #[inline]
    pub(crate) fn fold(&self, batch: &mut BatchTally) {
        let BatchTally { segments, segment_ids, snowflakes, snowflake_ids } = *batch;
        if segments > 0 {
            self.add(CallKind::Segment, segments);
            self.segment_ids.fetch_add(segment_ids, Ordering::Relaxed);
            (batch.segments, batch.segment_ids) = (0, 0);
        }
        if snowflakes > 0 {
            self.add(CallKind::Snowflake, snowflakes);
            self.snowflake_ids.fetch_add(snowflake_ids, Ordering::Relaxed);
            (batch.snowflakes, batch.snowflake_ids) = (0, 0);
        }
    }

    #[inline]
    fn add(&self, call: CallKind, requests: u64) {
        if let Some(count) = self.answered.get(call as usize) {
            count.fetch_add(requests, Ordering::Relaxed);
        }
    }

    /// A request got what it asked for, without IDs.
    pub(crate) fn answered(&self, call: CallKind) {
        self.add(call, 1);
    }

    /// A request that waited got `ids` IDs.
    pub(crate) fn waited(&self, call: CallKind, ids: u64) {
        self.add(call, 1);
        let count = match call {
            CallKind::Snowflake => &self.snowflake_ids,
            _ => &self.segment_ids,
        };
        count.fetch_add(ids, Ordering::Relaxed);
    }

    /// A request was refused.
    #[cold]
    pub(crate) fn refused(&self, call: CallKind, code: ErrorCode) {
        let index = ErrorCode::ALL.iter().position(|known| *known == code);
        let counts = self.refused.get(call as usize);
        if let Some(count) = index.and_then(|index| counts?.get(index)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The requests of `call` that got what they asked for.
    pub(crate) fn of(&self, call: CallKind) -> u64 {
        self.answered.get(call as usize).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// The errors that requests of `call` have got, with how many of each.
    pub(crate) fn errors_of(&self, call: CallKind) -> impl Iterator<Item = (ErrorCode, u64)> {
        let counts = self.refused.get(call as usize).into_iter().flatten();
        let counts = counts.map(|count| count.load(Ordering::Relaxed));
        ErrorCode::ALL.iter().copied().zip(counts)
    }

    /// The requests for IDs that have an answer, refused ones included.
    pub(crate) fn for_ids(&self) -> u64 {
        let calls = [CallKind::Segment, CallKind::Snowflake];
        let refused = |call| self.errors_of(call).map(|(_, count)| count).sum::<u64>();
        calls.into_iter().map(|call| self.of(call) + refused(call)).sum()
    }

    /// The IDs that requests have got: of segments, and snowflakes.
    pub(crate) fn ids(&self) -> (u64, u64) {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (read(&self.segment_ids), read(&self.snowflake_ids))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_counted_once() {
        let (tally, mut batch) = (RequestTally::default(), BatchTally::default());
        batch.segment(7);
        batch.segment(1);
        batch.snowflake(3);
        for _ in 0..2 {
            tally.fold(&mut batch);
        }
        assert_eq!((tally.of(CallKind::Segment), tally.of(CallKind::Snowflake)), (2, 1));
        assert_eq!(tally.ids(), (8, 3));
        tally.waited(CallKind::Snowflake, 5);
        assert_eq!((tally.of(CallKind::Snowflake), tally.ids()), (2, (8, 8)));
    }

    #[test]
    fn every_error_number_of_every_call_has_a_count_of_its_own() {
        let tally = RequestTally::default();
        for (times, code) in ErrorCode::ALL.iter().enumerate() {
            (0..=times).for_each(|_| tally.refused(CallKind::Segment, *code));
        }
        let counts: Vec<_> = tally.errors_of(CallKind::Segment).map(|(_, count)| count).collect();
        assert!(counts.iter().copied().eq(1..=ErrorCode::ALL.len() as u64), "{counts:?}");
        assert!(tally.errors_of(CallKind::Time).all(|(_, count)| count == 0));
    }

    #[test]
    fn no_two_calls_have_one_name() {
        let names: std::collections::BTreeSet<_> =
            CallKind::ALL.iter().map(|call| call.name()).collect();
        assert_eq!(names.len(), CALLS);
    }
}
