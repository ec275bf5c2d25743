//! A call as the clients keep it: its arguments are checked, and it can be sent more than once,
//! each time with the timeout that is left.

use std::time::Duration;

use crate::error::Invalid;
use crate::wire::{
    Call, HeldLoan, MAX_BORROWER_CHARS, MAX_CGROUP_CHARS, MAX_DESCRIPTION_CHARS, MAX_OWNER_CHARS,
    MAX_POOL_CHARS, MAX_PUBLIC_IDS, MAX_TAG_CHARS, MAX_TAGS_PER_PAGE, MAX_WORKERS_PER_PAGE,
    Request, encode_request,
};

/// The longest text that is sent as a public ID, in bytes: a few characters more than one has, for the
/// daemon to say what is wrong.
const MAX_PUBLIC_ID_BYTES: usize = 24;

/// The highest end of a range. IDs have to fit a signed 64-bit number.
const MAX_END: u64 = i64::MAX as u64;

/// A call with valid arguments. `S` is `&str`, or `Box<str>` if the call outlives its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CheckedCall<S> {
    Segment { tag: S, count: u32 },
    Snowflake { count: u32 },
    Time,
    Status,
    TagList { after: S, limit: u32 },
    TagShow { tag: S },
    TagCreate { tag: S, step: u32, first: u64, description: S },
    TagSetStep { tag: S, step: u32 },
    WorkerList { from: u64, limit: u32 },
    WorkerRelease { worker: u64, owner: S },
    TagDelete { tag: S },
    TagsUsed { after: S, limit: u32 },
    WorkerBorrow(CheckedBorrow<S>),
    WorkerReturn { pool: S, borrower: S, ceiling_unix_ms: u64 },
    PoolList { pool: S, from: u64, limit: u32 },
    PoolRelease { pool: S, worker: u64, owner: S },
    TagForecasts { tag: S, after: S, limit: u32 },
    PublicEncode { tag: S, ids: Vec<u64> },
    PublicDecode { tag: S, public_ids: Vec<S> },
}

/// What a borrower says of itself and of its loan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CheckedBorrow<S> {
    pool: S,
    borrower: S,
    cgroup: S,
    cgroup_inode: u64,
    /// The worker ID, the claim's name, the limit, and what is left in ms.
    held: Option<(u64, S, u64, u64)>,
}

impl<'a> CheckedCall<&'a str> {
    pub(crate) fn segment(tag: &'a str, count: u32) -> Result<Self, Invalid> {
        check_tag(tag)?;
        check_count(count)?;
        Ok(Self::Segment { tag, count })
    }

    pub(crate) fn snowflake(count: u32) -> Result<Self, Invalid> {
        check_count(count)?;
        Ok(Self::Snowflake { count })
    }

    pub(crate) fn tag_list(after: &'a str, limit: u32) -> Result<Self, Invalid> {
        if !after.is_empty() {
            check_tag(after)?;
        }
        check_page(limit, MAX_TAGS_PER_PAGE)?;
        Ok(Self::TagList { after, limit })
    }

    pub(crate) fn tag_show(tag: &'a str) -> Result<Self, Invalid> {
        check_tag(tag)?;
        Ok(Self::TagShow { tag })
    }

    pub(crate) fn tag_create(
        tag: &'a str,
        step: u32,
        first: u64,
        description: &'a str,
    ) -> Result<Self, Invalid> {
        check_tag(tag)?;
        // At least one step has to fit below the highest ID. A step of 0 stands for the daemon's
        // default, which is 1 or more.
        let fits = first.checked_add(u64::from(step.max(1))).is_some_and(|end| end <= MAX_END);
        if first == 0 || !fits {
            return Err(Invalid::FirstOutOfRange { first, step });
        }
        let chars = description.chars().count();
        if chars > MAX_DESCRIPTION_CHARS {
            return Err(Invalid::DescriptionTooLong(chars));
        }
        Ok(Self::TagCreate { tag, step, first, description })
    }

    pub(crate) fn tag_set_step(tag: &'a str, step: u32) -> Result<Self, Invalid> {
        check_tag(tag)?;
        if step == 0 {
            return Err(Invalid::StepZero);
        }
        Ok(Self::TagSetStep { tag, step })
    }

    pub(crate) fn worker_list(from: u64, limit: u32) -> Result<Self, Invalid> {
        check_page(limit, MAX_WORKERS_PER_PAGE)?;
        Ok(Self::WorkerList { from, limit })
    }

    pub(crate) fn worker_release(worker: u64, owner: &'a str) -> Result<Self, Invalid> {
        let chars = owner.chars().count();
        if chars > MAX_OWNER_CHARS {
            return Err(Invalid::OwnerTooLong(chars));
        }
        Ok(Self::WorkerRelease { worker, owner })
    }

    pub(crate) fn tags_used(after: &'a str, limit: u32) -> Result<Self, Invalid> {
        if !after.is_empty() {
            check_tag(after)?;
        }
        check_page(limit, MAX_TAGS_PER_PAGE)?;
        Ok(Self::TagsUsed { after, limit })
    }

    pub(crate) fn tag_forecasts(after: &'a str, limit: u32) -> Result<Self, Invalid> {
        if !after.is_empty() {
            check_tag(after)?;
        }
        check_page(limit, MAX_TAGS_PER_PAGE)?;
        Ok(Self::TagForecasts { tag: "", after, limit })
    }

    /// An empty `tag` is refused: on the wire, it stands for all tags.
    pub(crate) fn tag_forecast(tag: &'a str) -> Result<Self, Invalid> {
        check_tag(tag)?;
        Ok(Self::TagForecasts { tag, after: "", limit: 1 })
    }

    /// `tag` is empty for snowflake IDs.
    pub(crate) fn public_encode(tag: &'a str, ids: &[u64]) -> Result<Self, Invalid> {
        check_public(tag, ids.len())?;
        if let Some(id) = ids.iter().find(|id| **id > MAX_END) {
            return Err(Invalid::IdOutOfRange(*id));
        }
        Ok(Self::PublicEncode { tag, ids: ids.to_vec() })
    }

    /// As [`Self::public_encode`].
    pub(crate) fn public_decode(tag: &'a str, public_ids: &[&'a str]) -> Result<Self, Invalid> {
        check_public(tag, public_ids.len())?;
        // A longer one is none, and would not fit into a request.
        if let Some(text) = public_ids.iter().find(|text| text.len() > MAX_PUBLIC_ID_BYTES) {
            return Err(Invalid::PublicIdTooLong(text.chars().count()));
        }
        Ok(Self::PublicDecode { tag, public_ids: public_ids.to_vec() })
    }

    pub(crate) fn worker_borrow(
        pool: &'a str,
        borrower: &'a str,
        (cgroup, cgroup_inode): (&'a str, u64),
        held: Option<HeldLoan<'a>>,
    ) -> Result<Self, Invalid> {
        check_name("pool", pool, MAX_POOL_CHARS)?;
        check_name("borrower", borrower, MAX_BORROWER_CHARS)?;
        // A cgroup that is too long to name is as good as none.
        let fits = cgroup.chars().count() <= MAX_CGROUP_CHARS;
        let (cgroup, cgroup_inode) = if fits { (cgroup, cgroup_inode) } else { ("", 0) };
        let held = held.map(|it| (it.worker, it.claim, it.limit_unix_ms, it.left_ms));
        Ok(Self::WorkerBorrow(CheckedBorrow { pool, borrower, cgroup, cgroup_inode, held }))
    }

    pub(crate) fn worker_return(
        pool: &'a str,
        borrower: &'a str,
        ceiling_unix_ms: u64,
    ) -> Result<Self, Invalid> {
        check_name("pool", pool, MAX_POOL_CHARS)?;
        check_name("borrower", borrower, MAX_BORROWER_CHARS)?;
        Ok(Self::WorkerReturn { pool, borrower, ceiling_unix_ms })
    }

    pub(crate) fn pool_list(pool: &'a str, from: u64, limit: u32) -> Result<Self, Invalid> {
        check_name("pool", pool, MAX_POOL_CHARS)?;
        check_page(limit, MAX_WORKERS_PER_PAGE)?;
        Ok(Self::PoolList { pool, from, limit })
    }

    pub(crate) fn pool_release(
        pool: &'a str,
        worker: u64,
        owner: &'a str,
    ) -> Result<Self, Invalid> {
        check_name("pool", pool, MAX_POOL_CHARS)?;
        let chars = owner.chars().count();
        if chars > MAX_OWNER_CHARS {
            return Err(Invalid::OwnerTooLong(chars));
        }
        Ok(Self::PoolRelease { pool, worker, owner })
    }

    pub(crate) fn tag_delete(tag: &'a str) -> Result<Self, Invalid> {
        check_tag(tag)?;
        Ok(Self::TagDelete { tag })
    }

    /// Copies the texts, so that the call outlives its arguments.
    #[cfg(feature = "async")]
    pub(crate) fn into_owned(self) -> CheckedCall<Box<str>> {
        match self {
            Self::Segment { tag, count } => CheckedCall::Segment { tag: tag.into(), count },
            Self::Snowflake { count } => CheckedCall::Snowflake { count },
            Self::Time => CheckedCall::Time,
            Self::Status => CheckedCall::Status,
            Self::TagList { after, limit } => CheckedCall::TagList { after: after.into(), limit },
            Self::TagShow { tag } => CheckedCall::TagShow { tag: tag.into() },
            Self::TagCreate { tag, step, first, description } => CheckedCall::TagCreate {
                tag: tag.into(),
                step,
                first,
                description: description.into(),
            },
            Self::TagSetStep { tag, step } => CheckedCall::TagSetStep { tag: tag.into(), step },
            Self::WorkerList { from, limit } => CheckedCall::WorkerList { from, limit },
            Self::WorkerRelease { worker, owner } => {
                CheckedCall::WorkerRelease { worker, owner: owner.into() }
            }
            Self::TagDelete { tag } => CheckedCall::TagDelete { tag: tag.into() },
            Self::TagsUsed { after, limit } => CheckedCall::TagsUsed { after: after.into(), limit },
            Self::WorkerBorrow(of) => CheckedCall::WorkerBorrow(CheckedBorrow {
                pool: of.pool.into(),
                borrower: of.borrower.into(),
                cgroup: of.cgroup.into(),
                cgroup_inode: of.cgroup_inode,
                held: of
                    .held
                    .map(|(worker, claim, limit, left)| (worker, claim.into(), limit, left)),
            }),
            Self::WorkerReturn { pool, borrower, ceiling_unix_ms } => CheckedCall::WorkerReturn {
                pool: pool.into(),
                borrower: borrower.into(),
                ceiling_unix_ms,
            },
            Self::PoolList { pool, from, limit } => {
                CheckedCall::PoolList { pool: pool.into(), from, limit }
            }
            Self::PoolRelease { pool, worker, owner } => {
                CheckedCall::PoolRelease { pool: pool.into(), worker, owner: owner.into() }
            }
            Self::TagForecasts { tag, after, limit } => {
                CheckedCall::TagForecasts { tag: tag.into(), after: after.into(), limit }
            }
            Self::PublicEncode { tag, ids } => CheckedCall::PublicEncode { tag: tag.into(), ids },
            Self::PublicDecode { tag, public_ids } => CheckedCall::PublicDecode {
                tag: tag.into(),
                public_ids: public_ids.into_iter().map(Into::into).collect(),
            },
        }
    }
}

impl<S: AsRef<str>> CheckedCall<S> {
    /// The name of the call, as `docs/protocol.md` gives it.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Segment { .. } => "Segment",
            Self::Snowflake { .. } => "Snowflake",
            Self::Time => "Time",
            Self::Status => "Status",
            Self::TagList { .. } => "TagList",
            Self::TagShow { .. } => "TagShow",
            Self::TagCreate { .. } => "TagCreate",
            Self::TagSetStep { .. } => "TagSetStep",
            Self::WorkerList { .. } => "WorkerList",
            Self::WorkerRelease { .. } => "WorkerRelease",
            Self::TagDelete { .. } => "TagDelete",
            Self::TagsUsed { .. } => "TagsUsed",
            Self::WorkerBorrow(_) => "WorkerBorrow",
            Self::WorkerReturn { .. } => "WorkerReturn",
            Self::PoolList { .. } => "PoolList",
            Self::PoolRelease { .. } => "PoolRelease",
            Self::TagForecasts { .. } => "TagForecasts",
            Self::PublicEncode { .. } => "PublicEncode",
            Self::PublicDecode { .. } => "PublicDecode",
        }
    }

    /// Appends the request to `out`. `remaining` is the time until the caller's deadline.
    pub(crate) fn encode(&self, id: u64, remaining: Duration, out: &mut Vec<u8>) {
        let timeout_ms = daemon_timeout_ms(remaining);
        let call = match self {
            Self::Segment { tag, count } => {
                Call::Segment { tag: tag.as_ref(), count: *count, timeout_ms }
            }
            Self::Snowflake { count } => Call::Snowflake { count: *count, timeout_ms },
            Self::Time => Call::Time,
            Self::Status => Call::Status,
            Self::TagList { after, limit } => {
                Call::TagList { after: after.as_ref(), limit: *limit }
            }
            Self::TagShow { tag } => Call::TagShow { tag: tag.as_ref() },
            Self::TagCreate { tag, step, first, description } => Call::TagCreate {
                tag: tag.as_ref(),
                step: *step,
                first: *first,
                description: description.as_ref(),
            },
            Self::TagSetStep { tag, step } => Call::TagSetStep { tag: tag.as_ref(), step: *step },
            Self::WorkerList { from, limit } => Call::WorkerList { from: *from, limit: *limit },
            Self::WorkerRelease { worker, owner } => {
                Call::WorkerRelease { worker: *worker, owner: owner.as_ref() }
            }
            Self::TagDelete { tag } => Call::TagDelete { tag: tag.as_ref() },
            Self::TagsUsed { after, limit } => {
                Call::TagsUsed { after: after.as_ref(), limit: *limit }
            }
            Self::WorkerBorrow(of) => Call::WorkerBorrow {
                pool: of.pool.as_ref(),
                borrower: of.borrower.as_ref(),
                cgroup: of.cgroup.as_ref(),
                cgroup_inode: of.cgroup_inode,
                held: of.held.as_ref().map(|(worker, claim, limit_unix_ms, left_ms)| HeldLoan {
                    worker: *worker,
                    claim: claim.as_ref(),
                    limit_unix_ms: *limit_unix_ms,
                    left_ms: *left_ms,
                }),
            },
            Self::WorkerReturn { pool, borrower, ceiling_unix_ms } => Call::WorkerReturn {
                pool: pool.as_ref(),
                borrower: borrower.as_ref(),
                ceiling_unix_ms: *ceiling_unix_ms,
            },
            Self::PoolList { pool, from, limit } => {
                Call::PoolList { pool: pool.as_ref(), from: *from, limit: *limit }
            }
            Self::PoolRelease { pool, worker, owner } => {
                Call::PoolRelease { pool: pool.as_ref(), worker: *worker, owner: owner.as_ref() }
            }
            Self::TagForecasts { tag, after, limit } => {
                Call::TagForecasts { tag: tag.as_ref(), after: after.as_ref(), limit: *limit }
            }
            Self::PublicEncode { tag, ids } => {
                Call::PublicEncode { tag: tag.as_ref(), ids: ids.clone() }
            }
            Self::PublicDecode { tag, public_ids } => Call::PublicDecode {
                tag: tag.as_ref(),
                public_ids: public_ids.iter().map(AsRef::as_ref).collect(),
            },
        };
        encode_request(&Request { id, call }, out);
    }
}

/// The timeout to send with a request: a little less than the time left, so that the daemon's
/// error, which names the cause, arrives before the caller's deadline. Never 0, which stands for
/// the daemon's default.
fn daemon_timeout_ms(remaining: Duration) -> u32 {
    let margin = (remaining / 10).min(Duration::from_millis(50));
    u32::try_from(remaining.saturating_sub(margin).as_millis()).unwrap_or(u32::MAX).max(1)
}

fn check_name(what: &'static str, name: &str, most: usize) -> Result<(), Invalid> {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_graphic());
    if is_plain && (1..=most).contains(&name.len()) {
        return Ok(());
    }
    Err(Invalid::Name { what, most })
}

fn check_tag(tag: &str) -> Result<(), Invalid> {
    if tag.is_empty() {
        return Err(Invalid::EmptyTag);
    }
    // A character takes at least one byte, so short tags need no counting.
    if tag.len() > MAX_TAG_CHARS {
        let chars = tag.chars().count();
        if chars > MAX_TAG_CHARS {
            return Err(Invalid::TagTooLong(chars));
        }
    }
    tag.chars().find(|c| c.is_control()).map_or(Ok(()), |c| Err(Invalid::ControlInTag(c)))
}

/// An empty tag stands for snowflake IDs.
fn check_public(tag: &str, count: usize) -> Result<(), Invalid> {
    if !tag.is_empty() {
        check_tag(tag)?;
    }
    if (1..=MAX_PUBLIC_IDS).contains(&count) { Ok(()) } else { Err(Invalid::PublicIds(count)) }
}

const fn check_count(count: u32) -> Result<(), Invalid> {
    if count == 0 { Err(Invalid::CountZero) } else { Ok(()) }
}

const fn check_page(limit: u32, most: u32) -> Result<(), Invalid> {
    if limit == 0 || limit > most { Err(Invalid::PageSize(limit)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{HEADER_LEN, MAX_REQUEST_LEN, decode_request};

    #[test]
    fn invalid_arguments_are_found_before_sending() {
        assert_eq!(CheckedCall::segment("", 1), Err(Invalid::EmptyTag));
        assert_eq!(CheckedCall::segment("a\nb", 1), Err(Invalid::ControlInTag('\n')));
        assert_eq!(CheckedCall::segment(&"ä".repeat(129), 1), Err(Invalid::TagTooLong(129)));
        assert_eq!(CheckedCall::segment("a", 0), Err(Invalid::CountZero));
        assert_eq!(CheckedCall::snowflake(0), Err(Invalid::CountZero));
        assert_eq!(CheckedCall::tag_list("", 0), Err(Invalid::PageSize(0)));
        assert_eq!(CheckedCall::tag_list("", 101), Err(Invalid::PageSize(101)));
        assert_eq!(CheckedCall::tag_show(""), Err(Invalid::EmptyTag));
        assert_eq!(CheckedCall::tag_forecast(""), Err(Invalid::EmptyTag));
        assert!(CheckedCall::public_encode("", &[0, i64::MAX as u64]).is_ok());
        let refused = Err(Invalid::IdOutOfRange(1 << 63));
        assert_eq!(CheckedCall::public_encode("a", &[1, 1 << 63]), refused);
        assert_eq!(CheckedCall::public_encode("a", &[]), Err(Invalid::PublicIds(0)));
        assert_eq!(CheckedCall::public_encode("a\n", &[1]), Err(Invalid::ControlInTag('\n')));
        assert_eq!(CheckedCall::public_decode("a", &["0"; 33]), Err(Invalid::PublicIds(33)));
        assert_eq!(
            CheckedCall::public_decode("a", &[&"ä".repeat(13)]),
            Err(Invalid::PublicIdTooLong(13))
        );
        assert_eq!(CheckedCall::tag_forecasts("", 101), Err(Invalid::PageSize(101)));
        let end = i64::MAX as u64;
        for (first, step) in
            [(0, 10), (1 << 63, 0), (u64::MAX, u32::MAX), (end, 0), (end - 9, 10), (end - 1, 2)]
        {
            let refused = Err(Invalid::FirstOutOfRange { first, step });
            assert_eq!(CheckedCall::tag_create("a", step, first, ""), refused);
        }
        for (first, step) in [(1, 0), (end - 1, 0), (end - 1, 1), (end - 10, 10)] {
            assert!(CheckedCall::tag_create("a", step, first, "").is_ok(), "{first} {step}");
        }
        let long = "x".repeat(257);
        assert_eq!(
            CheckedCall::tag_create("a", 0, 1, &long),
            Err(Invalid::DescriptionTooLong(257))
        );
        assert_eq!(CheckedCall::tag_set_step("a", 0), Err(Invalid::StepZero));
        for limit in [0, MAX_WORKERS_PER_PAGE + 1] {
            assert_eq!(CheckedCall::worker_list(0, limit), Err(Invalid::PageSize(limit)));
        }
        assert_eq!(CheckedCall::worker_release(1, &long), Err(Invalid::OwnerTooLong(257)));
        assert!(CheckedCall::worker_release(u64::MAX, &"ä".repeat(256)).is_ok());
    }

    #[test]
    fn the_largest_valid_request_fits_a_frame() {
        let (tag, description) = ("\u{10348}".repeat(128), "\u{10348}".repeat(256));
        let ask = CheckedCall::tag_create(&tag, u32::MAX, 1, &description).unwrap();
        let mut out = Vec::new();
        ask.encode(7, Duration::from_secs(1), &mut out);
        assert!(out.len() - HEADER_LEN <= MAX_REQUEST_LEN);
        assert_eq!(out.len() - HEADER_LEN, 1576);
        let call =
            Call::TagCreate { tag: &tag, step: u32::MAX, first: 1, description: &description };
        assert_eq!(decode_request(&out[HEADER_LEN..]).unwrap(), Request { id: 7, call });
    }

    #[test]
    fn the_daemons_timeout_is_a_little_less_than_the_time_left() {
        assert_eq!(daemon_timeout_ms(Duration::from_secs(5)), 4950);
        assert_eq!(daemon_timeout_ms(Duration::from_millis(100)), 90);
        assert_eq!(daemon_timeout_ms(Duration::ZERO), 1);
        assert_eq!(daemon_timeout_ms(Duration::MAX), u32::MAX);
    }
}
