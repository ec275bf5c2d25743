//! The calls that manage tags and workers. leafd runs them one at a time, so that they cannot crowd
//! out requests for IDs. Connections take turns, so that one with many such calls cannot crowd out
//! the others.

use std::sync::Arc;

use leaf_client::wire::{
    Call, ErrorCode, ForecastPage, MAX_TAGS_PER_PAGE, MAX_WORKERS_PER_PAGE, Reply, TagStatus,
    WireError, WorkerStatus,
};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::answers::bad_tag;
use super::in_flight::{InFlightGuard, PendingReply, in_background};
use super::queues::AdministrationQueues;
use super::shared::Service;
use super::trail::{AuditTrail, AuditedCall};
use crate::actor::Actor;
use crate::ids::BizTag;
use crate::tally::CallKind;

/// A call that outlives the buffer it arrived in.
enum AdministrativeCall {
    Status,
    List { after: String, limit: u32 },
    Show(String),
    Create { tag: String, step: u32, first: u64, description: String },
    SetStep { tag: String, step: u32 },
    Workers { from: u64, limit: u32 },
    Release { worker: u64, owner: String },
    PoolWorkers { pool: String, from: u64, limit: u32 },
    PoolRelease { pool: String, worker: u64, owner: String },
    Delete(String),
    Used { after: String, limit: u32 },
    Forecasts { tag: String, after: String, limit: u32 },
}

impl AdministrativeCall {
    fn of(call: &Call<'_>) -> Self {
        match *call {
            Call::TagList { after, limit } => Self::List { after: after.to_owned(), limit },
            Call::TagShow { tag } => Self::Show(tag.to_owned()),
            Call::TagCreate { tag, step, first, description } => {
                let (tag, description) = (tag.to_owned(), description.to_owned());
                Self::Create { tag, step, first, description }
            }
            Call::TagSetStep { tag, step } => Self::SetStep { tag: tag.to_owned(), step },
            Call::WorkerList { from, limit } => Self::Workers { from, limit },
            Call::WorkerRelease { worker, owner } => {
                Self::Release { worker, owner: owner.to_owned() }
            }
            Call::PoolList { pool, from, limit } => {
                Self::PoolWorkers { pool: pool.to_owned(), from, limit }
            }
            Call::PoolRelease { pool, worker, owner } => {
                Self::PoolRelease { pool: pool.to_owned(), worker, owner: owner.to_owned() }
            }
            Call::TagDelete { tag } => Self::Delete(tag.to_owned()),
            Call::TagsUsed { after, limit } => Self::Used { after: after.to_owned(), limit },
            Call::TagForecasts { tag, after, limit } => {
                Self::Forecasts { tag: tag.to_owned(), after: after.to_owned(), limit }
            }
            // The session and the transport answer all other calls themselves.
            _ => Self::Status,
        }
    }

    const fn queue<'a>(&self, queues: &'a AdministrationQueues) -> &'a Semaphore {
        match self {
            Self::Status | Self::Used { .. } | Self::Forecasts { .. } => &queues.memory,
            _ => &queues.store,
        }
    }

    /// Notes in `trail` how the thing was before a change.
    async fn reply(self, service: &Service, trail: Option<&mut AuditTrail>) -> Reply {
        let segments = &service.segments;
        let one = |outcome: Result<TagStatus, WireError>| {
            outcome.map_or_else(Reply::Error, |status| Reply::Tags(vec![status]))
        };
        match self {
            Self::Status => Reply::Status(Box::new(service.status_in_turns().await)),
            Self::List { limit, .. } | Self::Used { limit, .. }
                if !(1..=MAX_TAGS_PER_PAGE).contains(&limit) =>
            {
                Reply::Error(bad_limit(limit, MAX_TAGS_PER_PAGE))
            }
            Self::Workers { limit, .. } | Self::PoolWorkers { limit, .. }
                if !(1..=MAX_WORKERS_PER_PAGE).contains(&limit) =>
            {
                Reply::Error(bad_limit(limit, MAX_WORKERS_PER_PAGE))
            }
            Self::List { after, limit } => {
                let page = segments.list(&after, limit as usize).await;
                page.map_or_else(Reply::Error, Reply::Tags)
            }
            Self::Show(tag) => one(segments.show(&tag).await),
            Self::Create { tag, step, first, description } => {
                one(segments.create(&tag, step, first, &description).await)
            }
            Self::SetStep { tag, step } => {
                let changed = segments.set_step(&tag, step).await;
                if let (Ok((Some(old), _)), Some(trail)) = (&changed, trail) {
                    trail.was(format!("step {old}"));
                }
                one(changed.map(|(_, status)| status))
            }
            Self::Used { after, limit } => Reply::Tags(segments.used(&after, limit as usize).await),
            Self::Forecasts { tag, after, limit } => forecasts(service, &tag, &after, limit)
                .await
                .map_or_else(Reply::Error, Reply::Forecasts),
            Self::Delete(tag) => one(segments.delete(&tag).await),
            Self::Workers { from, limit } => service
                .workers
                .list(from, limit as usize)
                .await
                .map_or_else(Reply::Error, Reply::Workers),
            Self::PoolWorkers { pool, from, limit } => service
                .lending
                .list(&pool, from, limit as usize)
                .await
                .map_or_else(Reply::Error, Reply::Workers),
            Self::Release { worker, owner } => {
                released(service.workers.release(worker, &owner).await, &owner, trail)
            }
            Self::PoolRelease { pool, worker, owner } => {
                released(service.lending.release(&pool, worker, &owner).await, &owner, trail)
            }
        }
    }
}

/// The forecast of `tag`, or of a page of tags if it is empty.
async fn forecasts(
    service: &Service,
    tag: &str,
    after: &str,
    limit: u32,
) -> Result<ForecastPage, WireError> {
    if !tag.is_empty() {
        BizTag::new(tag).map_err(bad_tag)?;
    }
    if !(1..=MAX_TAGS_PER_PAGE).contains(&limit) {
        return Err(bad_limit(limit, MAX_TAGS_PER_PAGE));
    }
    let (forecasts, segments) = (&service.forecasts, &service.segments);
    match tag {
        "" => Ok(forecasts.page(segments, after, limit as usize).await),
        tag => forecasts.one(segments, tag),
    }
}

fn released(
    outcome: Result<WorkerStatus, WireError>,
    owner: &str,
    trail: Option<&mut AuditTrail>,
) -> Reply {
    if let (Ok(_), Some(trail)) = (&outcome, trail) {
        trail.was(format!("of {owner}"));
    }
    outcome.map_or_else(Reply::Error, |status| Reply::Workers(vec![status]))
}

fn bad_limit(limit: u32, max: u32) -> WireError {
    let text = format!("limit {limit} is not between 1 and {max}");
    WireError::new(ErrorCode::BadCount, text).with_detail(u64::from(max))
}

/// Runs `call` of `actor` once it is its turn. `own_queues` are those of its session.
pub(super) fn administrate(
    service: Arc<Service>,
    in_flight: InFlightGuard,
    own_queues: Arc<AdministrationQueues>,
    actor: Actor,
    call: &Call<'_>,
) -> PendingReply {
    let trail = AuditedCall::of(call).and_then(|audited| audited.begin(actor));
    let kind = CallKind::of(call);
    let call = AdministrativeCall::of(call);
    let deadline = service.environment.now() + service.policy.get().policy.limits.wait;
    Box::pin(async move {
        let _in_flight = in_flight;
        // Held until the connection takes the answer, so that a client that does not read its
        // answers cannot pile them up here.
        let _permit = call.queue(&own_queues).acquire().await;
        let reply = reply_by(deadline, Arc::clone(&service), call, trail);
        let reply = in_background(&service.background, reply).await;
        let reply = reply.unwrap_or_else(Reply::Error);
        service.counts.note(kind, &reply);
        reply
    })
}

/// Runs `call` if its turn comes by `deadline`. Once it runs, only the store's timeouts limit it.
async fn reply_by(
    deadline: Instant,
    service: Arc<Service>,
    call: AdministrativeCall,
    mut trail: Option<AuditTrail>,
) -> Result<Reply, WireError> {
    let reply = reply_in_turn(deadline, &service, call, trail.as_mut()).await;
    let reply = reply.unwrap_or_else(Reply::Error);
    if let Some(trail) = trail {
        trail.end(&reply);
    }
    Ok(reply)
}

async fn reply_in_turn(
    deadline: Instant,
    service: &Service,
    call: AdministrativeCall,
    mut trail: Option<&mut AuditTrail>,
) -> Result<Reply, WireError> {
    let permit = timeout_at(deadline, call.queue(&service.administration).acquire()).await;
    if permit.is_err() || service.environment.now() >= deadline {
        let text = "administrative calls run one at a time, and too many are ahead of this one";
        return Err(WireError::new(ErrorCode::DeadlineExceeded, text).with_retry_after_ms(100));
    }
    if let Some(trail) = &mut trail {
        trail.runs();
    }
    // Other tasks of this runtime run between two administrative calls.
    tokio::task::yield_now().await;
    Ok(Box::pin(call.reply(service, trail)).await)
}
