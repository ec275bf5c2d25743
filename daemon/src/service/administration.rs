//! The calls that are not about IDs. leafd does them one at a time, so that they cannot crowd out
//! requests for IDs, and connections take turns, so that one with many such calls cannot crowd out
//! others.

use std::sync::Arc;

use leaf_client::wire::{
    Call, ErrorCode, MAX_TAGS_PER_PAGE, MAX_WORKERS_PER_PAGE, Reply, TagStatus, WireError,
};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::room::{Later, Taken, in_background};
use super::service::Service;
use super::turns::AdministrationTurns;

enum Task {
    Status,
    List { after: String, limit: u32 },
    Show(String),
    Create { tag: String, step: u32, first: u64, description: String },
    SetStep { tag: String, step: u32 },
    Workers { from: u64, limit: u32 },
    Release { worker: u64, owner: String },
    Delete(String),
    Used { after: String, limit: u32 },
}

impl Task {
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
            Call::TagDelete { tag } => Self::Delete(tag.to_owned()),
            Call::TagsUsed { after, limit } => Self::Used { after: after.to_owned(), limit },
            // The others have been answered.
            _ => Self::Status,
        }
    }

    const fn turn<'a>(&self, turns: &'a AdministrationTurns) -> &'a Semaphore {
        match self {
            Self::Status | Self::Used { .. } => &turns.memory,
            _ => &turns.store,
        }
    }

    async fn reply(self, service: &Service) -> Reply {
        let segments = &service.segments;
        let one = |outcome: Result<TagStatus, WireError>| {
            outcome.map_or_else(Reply::Error, |status| Reply::Tags(vec![status]))
        };
        match self {
            Self::Status => Reply::Status(Box::new(service.status_in_turns().await)),
            Self::List { limit, .. } | Self::Used { limit, .. }
                if !(1..=MAX_TAGS_PER_PAGE).contains(&limit) =>
            {
                bad_limit(limit, MAX_TAGS_PER_PAGE)
            }
            Self::Workers { limit, .. } if !(1..=MAX_WORKERS_PER_PAGE).contains(&limit) => {
                bad_limit(limit, MAX_WORKERS_PER_PAGE)
            }
            Self::List { after, limit } => {
                let page = segments.list(&after, limit as usize).await;
                page.map_or_else(Reply::Error, Reply::Tags)
            }
            Self::Show(tag) => one(segments.show(&tag).await),
            Self::Create { tag, step, first, description } => {
                one(segments.create(&tag, step, first, &description).await)
            }
            Self::SetStep { tag, step } => one(segments.set_step(&tag, step).await),
            Self::Used { after, limit } => Reply::Tags(segments.used(&after, limit as usize).await),
            Self::Delete(tag) => one(segments.delete(&tag).await),
            Self::Workers { from, limit } => service
                .workers
                .list(from, limit as usize)
                .await
                .map_or_else(Reply::Error, Reply::Workers),
            Self::Release { worker, owner } => service
                .workers
                .release(worker, &owner)
                .await
                .map_or_else(Reply::Error, |status| Reply::Workers(vec![status])),
        }
    }
}

fn bad_limit(limit: u32, most: u32) -> Reply {
    let text = format!("limit {limit} is not between 1 and {most}");
    Reply::Error(WireError::new(ErrorCode::BadCount, text).with_detail(u64::from(most)))
}

/// Does `call` when it is its turn. `turns` are those of its connection.
pub(super) fn administrate(
    service: Arc<Service>,
    taken: Taken,
    turns: Arc<AdministrationTurns>,
    call: &Call<'_>,
) -> Later {
    let task = Task::of(call);
    let due = service.environment.now() + service.terms().terms.limits.wait;
    Box::pin(async move {
        let _taken = taken;
        // Until the connection has taken the answer: one whose peer does not read gathers none.
        let _own = task.turn(&turns).acquire().await;
        let background = service.background.clone();
        let reply = in_background(&background, reply_by(due, service, task)).await;
        reply.unwrap_or_else(Reply::Error)
    })
}

/// The call itself, once it has begun, has the time that the store has.
async fn reply_by(due: Instant, service: Arc<Service>, task: Task) -> Result<Reply, WireError> {
    let turn = timeout_at(due, task.turn(&service.administration).acquire()).await;
    if turn.is_err() || service.environment.now() >= due {
        let text = "calls of administration are done one at a time, and too many are ahead";
        return Err(WireError::new(ErrorCode::DeadlineExceeded, text).with_retry_after_ms(100));
    }
    // Others come first between two of these.
    tokio::task::yield_now().await;
    Ok(Box::pin(task.reply(&service)).await)
}
