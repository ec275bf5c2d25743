//! The callers' side: hands a call to the task and waits for its result, no longer than its
//! timeout. The timer is the caller's own, so that a stuck task cannot hold a caller.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use super::link::{Link, LinkState};
use super::task::{ConnectionTask, TaskCommand};
use crate::error::Error;
use crate::options::Options;
use crate::session::{CheckedCall, ConnectionFailure, FIRST_CALL_ID};
use crate::wire::Reply;

/// What all clones of a client share. The task does not hold it, so that it ends when the last
/// clone goes and the channel closes.
#[derive(Debug)]
pub(super) struct ClientHandle {
    options: Arc<Options>,
    link: Arc<Link>,
    next_id: AtomicU64,
    task: Mutex<Option<mpsc::UnboundedSender<TaskCommand>>>,
}

impl ClientHandle {
    pub(super) fn new(options: Options) -> Self {
        Self {
            options: Arc::new(options),
            link: Arc::default(),
            next_id: AtomicU64::new(FIRST_CALL_ID),
            task: Mutex::new(None),
        }
    }

    /// Makes a call and waits for its reply, which may still be a refusal.
    pub(super) async fn call(
        &self,
        ask: CheckedCall<&str>,
        timeout: Duration,
    ) -> Result<Reply, Error> {
        let deadline = Instant::now() + timeout;
        loop {
            let (caller, answer) = oneshot::channel();
            let mut pending = CallGuard { handle: self, id: self.next_id(), end: CallEnd::Dropped };
            self.submit(TaskCommand::Call {
                id: pending.id,
                ask: ask.clone().into_owned(),
                deadline: deadline.into_std(),
                caller,
            })?;
            match timeout_at(deadline, answer).await {
                Ok(Ok(result)) => {
                    pending.end = CallEnd::Answered;
                    return result;
                }
                // The runtime of the task has ended. The caller's goes on, so the call is repeated
                // there, as it is when a connection breaks.
                Ok(Err(_)) => pending.end = CallEnd::Answered,
                Err(_) => {
                    pending.end = CallEnd::Overdue;
                    return Err(self.late(ask.name(), timeout));
                }
            }
        }
    }

    fn next_id(&self) -> u64 {
        // A million calls per second would take half a million years to come round.
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Hands a command to the task; starts one when there is none, or when the runtime that the
    /// last one lived in has ended.
    fn submit(&self, command: TaskCommand) -> Result<(), Error> {
        // Asked each time: the timer of the call needs the runtime as well.
        let runtime = tokio::runtime::Handle::try_current()
            .map_err(|_| self.unavailable("the client needs a tokio runtime"))?;
        let mut task = self.lock_task();
        let command = match &*task {
            Some(sender) => match sender.send(command) {
                Ok(()) => return Ok(()),
                Err(mpsc::error::SendError(command)) => command,
            },
            None => command,
        };
        let (sender, commands) = mpsc::unbounded_channel();
        runtime.spawn(
            ConnectionTask::new(Arc::clone(&self.options), Arc::clone(&self.link), commands).run(),
        );
        // The receiver is alive within the future that was just spawned, or the runtime is shutting
        // down and drops the caller's end with it, which the caller sees.
        let _ = sender.send(command);
        *task = Some(sender);
        Ok(())
    }

    fn forget(&self, id: u64, overdue: bool) {
        if let Some(sender) = &*self.lock_task() {
            let _ = sender.send(TaskCommand::Forget { id, overdue });
        }
    }

    /// The error of a call whose time is over.
    fn late(&self, call: &'static str, timeout: Duration) -> Error {
        match self.link.state() {
            LinkState::Up => Error::DeadlineExceeded { call, timeout },
            LinkState::Down(failure) => failure.error(self.options.socket_path()),
            LinkState::New => self.unavailable("it did not say hello in time"),
        }
    }

    fn lock_task(&self) -> MutexGuard<'_, Option<mpsc::UnboundedSender<TaskCommand>>> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unavailable(&self, why: &'static str) -> Error {
        ConnectionFailure::io(io::ErrorKind::TimedOut, why).error(self.options.socket_path())
    }
}

/// A call that waits. Dropped without an answer, it tells the task to forget the call.
struct CallGuard<'a> {
    handle: &'a ClientHandle,
    id: u64,
    end: CallEnd,
}

#[derive(PartialEq)]
enum CallEnd {
    /// There is nothing left to be forgotten.
    Answered,
    Overdue,
    /// The caller did not wait for any end.
    Dropped,
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        if self.end != CallEnd::Answered {
            self.handle.forget(self.id, self.end == CallEnd::Overdue);
        }
    }
}
