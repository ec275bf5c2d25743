//! The callers' side: passes a call to the task and waits for the result until the deadline. Each
//! call has its own timer, so a stuck task cannot block a caller.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use super::calls::PendingCall;
use super::link::{Link, LinkState};
use super::task::{ConnectionTask, TaskCommand};
use crate::error::Error;
use crate::fork::ProcessMark;
use crate::options::Options;
use crate::session::{CheckedCall, ConnectionFailure, FIRST_CALL_ID};
use crate::wire::Reply;

/// The state that all clones of a client share. The task does not own it: dropping the last clone
/// closes the channel, and that ends the task.
#[derive(Debug)]
pub(super) struct ClientHandle {
    options: Arc<Options>,
    /// The process that made the client. Its task does not exist in a child.
    process: ProcessMark,
    link: Arc<Link>,
    next_id: AtomicU64,
    task: Mutex<Option<mpsc::UnboundedSender<TaskCommand>>>,
}

impl ClientHandle {
    pub(super) fn new(options: Options) -> Self {
        Self {
            options: Arc::new(options),
            process: ProcessMark::current(),
            link: Arc::default(),
            next_id: AtomicU64::new(FIRST_CALL_ID),
            task: Mutex::new(None),
        }
    }

    /// Makes a call and waits for its reply, which may be an error from the daemon.
    pub(super) async fn call(
        &self,
        call: CheckedCall<&str>,
        timeout: Duration,
    ) -> Result<Reply, Error> {
        // Before a lock that a thread of the parent may have held.
        self.refuse_in_child()?;
        let deadline = Instant::now() + timeout;
        loop {
            let (caller, answer) = oneshot::channel();
            let mut guard = CallGuard { handle: self, id: self.next_id(), end: CallEnd::Dropped };
            let pending = PendingCall {
                call: call.clone().into_owned(),
                deadline: deadline.into_std(),
                caller,
            };
            self.submit(TaskCommand::Call { id: guard.id, pending })?;
            match timeout_at(deadline, answer).await {
                Ok(Ok(result)) => {
                    guard.end = CallEnd::Answered;
                    // If another task of this thread forked meanwhile, the parent gets the same answer.
                    self.refuse_in_child()?;
                    return result;
                }
                // The task's runtime has ended, but the caller's is alive. The call is repeated
                // there, as after a broken connection.
                Ok(Err(_)) => guard.end = CallEnd::Answered,
                Err(_) => {
                    guard.end = CallEnd::Overdue;
                    return Err(self.deadline_error(call.name(), timeout));
                }
            }
        }
    }

    fn refuse_in_child(&self) -> Result<(), Error> {
        if self.process.is_current() { Ok(()) } else { Err(Error::Forked) }
    }

    fn next_id(&self) -> u64 {
        // At a million calls per second this wraps around after half a million years.
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Sends a command to the task. Starts the task if there is none, or if the runtime of the last
    /// one has ended.
    fn submit(&self, command: TaskCommand) -> Result<(), Error> {
        // Checked for every call, because its timer needs the runtime too.
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
        // The spawned future owns the receiver. If the runtime is shutting down, it drops the
        // future and with it the sender of the result, which ends the caller's wait.
        let _ = sender.send(command);
        *task = Some(sender);
        Ok(())
    }

    fn forget(&self, id: u64, overdue: bool) {
        if let Some(sender) = &*self.lock_task() {
            let _ = sender.send(TaskCommand::Forget { id, overdue });
        }
    }

    /// The error of a call whose deadline has passed.
    fn deadline_error(&self, call: &'static str, timeout: Duration) -> Error {
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

impl Drop for ClientHandle {
    /// In a child, the task's runtime and its locks are the parent's: telling it anything could wait
    /// for a thread that does not exist here.
    fn drop(&mut self) {
        if !self.process.is_current() {
            let task = self.task.get_mut().unwrap_or_else(PoisonError::into_inner);
            std::mem::forget(task.take());
        }
    }
}

/// Makes the task forget a call whose caller gives up. It lives as long as the caller waits.
struct CallGuard<'a> {
    handle: &'a ClientHandle,
    id: u64,
    end: CallEnd,
}

#[derive(PartialEq)]
enum CallEnd {
    /// The task has dealt with the call, or is gone.
    Answered,
    /// The deadline passed.
    Overdue,
    /// The caller dropped the future.
    Dropped,
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        // A child has no task, and must not wait for a lock of its parent.
        if self.end != CallEnd::Answered && self.handle.process.is_current() {
            self.handle.forget(self.id, self.end == CallEnd::Overdue);
        }
    }
}
