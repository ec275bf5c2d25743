//! The task that owns the connection. It connects once a call is queued, writes requests in
//! batches, passes answers to callers and reconnects. It ends when the last handle is dropped.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::mpsc;
use tokio::time;

use super::calls::{CallTable, PendingCall, StuckConnection};
use super::connection::{AsyncConnection, BATCH_LEN, RequestWriter};
use super::link::Link;
use crate::options::Options;
use crate::session::{Backoff, ConnectionFailure, DRAIN, DaemonEvent};

/// A message from a caller to the task.
#[derive(Debug)]
pub(super) enum TaskCommand {
    /// Makes a call.
    Call { id: u64, pending: PendingCall },
    /// Drops a call whose caller gave up; `overdue` says that its deadline passed.
    Forget { id: u64, overdue: bool },
}

/// The state of the task.
pub(super) struct ConnectionTask {
    options: Arc<Options>,
    link: Arc<Link>,
    commands: mpsc::UnboundedReceiver<TaskCommand>,
    calls: CallTable,
    backoff: Backoff,
}

/// Why the task stops what it is doing.
enum TaskExit {
    /// The last handle was dropped.
    Unused,
    /// The connection ended, or connecting failed.
    Lost(ConnectionFailure),
}

impl<E: Into<ConnectionFailure>> From<E> for TaskExit {
    fn from(error: E) -> Self {
        Self::Lost(error.into())
    }
}

// Tokio's clock, which tests can pause.
fn now() -> Instant {
    time::Instant::now().into_std()
}

/// The phase of an open connection.
enum ConnectionPhase {
    /// Requests may be sent.
    Open,
    /// The daemon is stopping, or writing failed. Nothing is sent; the last answers are read until
    /// `at`.
    Ending { at: time::Instant, why: ConnectionFailure },
}

impl ConnectionPhase {
    fn end(&mut self, why: ConnectionFailure) {
        if let Self::Open = self {
            *self = Self::Ending { at: time::Instant::now() + DRAIN, why };
        }
    }

    /// Waits for the end of the `Ending` phase.
    async fn over(&self) -> ConnectionFailure {
        match self {
            Self::Open => std::future::pending().await,
            Self::Ending { at, why } => {
                time::sleep_until(*at).await;
                why.clone()
            }
        }
    }
}

impl Drop for ConnectionTask {
    /// Runs when the runtime ends or the last handle is dropped.
    fn drop(&mut self) {
        self.link.down(ConnectionFailure::io(
            io::ErrorKind::NotConnected,
            "the runtime of the client ended",
        ));
    }
}

impl ConnectionTask {
    pub(super) fn new(
        options: Arc<Options>,
        link: Arc<Link>,
        commands: mpsc::UnboundedReceiver<TaskCommand>,
    ) -> Self {
        let backoff = Backoff::new(options.backoff_range());
        Self { options, link, commands, calls: CallTable::default(), backoff }
    }

    pub(super) async fn run(mut self) {
        loop {
            let failure = match self.connection().await {
                TaskExit::Unused => return,
                TaskExit::Lost(failure) => failure,
            };
            self.backoff.lost(now(), fastrand::f64(), failure.retry_after());
            self.link.down(failure);
        }
    }

    /// Waits for a call, connects, and serves until the connection ends.
    async fn connection(&mut self) -> TaskExit {
        let opened = match self.open().await {
            Ok(connection) => connection,
            Err(ending) => {
                if let TaskExit::Lost(failure) = &ending
                    && failure.is_fatal()
                {
                    self.calls.fail_all(&failure.error(self.options.socket_path()));
                }
                return ending;
            }
        };
        self.link.up();
        self.calls.connected(opened.max_in_flight);
        let Err(ending) = self.serve(opened).await;
        if let TaskExit::Lost(failure) = &ending
            && failure.is_fatal()
        {
            // One of the requests in flight may be the cause, so none is repeated.
            self.calls.fail_sent(&failure.error(self.options.socket_path()));
        }
        self.calls.disconnected();
        ending
    }

    async fn open(&mut self) -> Result<AsyncConnection, TaskExit> {
        while !self.calls.any_queued() {
            let command = self.commands.recv().await.ok_or(TaskExit::Unused)?;
            // Without a connection nothing can be stuck.
            let _ = self.take(command);
        }
        let pause = self.backoff.pause(now());
        if !pause.is_zero() {
            self.meanwhile(time::sleep(pause)).await?;
        }
        let options = Arc::clone(&self.options);
        Ok(self.meanwhile(AsyncConnection::open(&options)).await??)
    }

    /// Waits for `event` and handles commands meanwhile.
    async fn meanwhile<F: Future>(&mut self, event: F) -> Result<F::Output, TaskExit> {
        let mut event = pin!(event);
        loop {
            tokio::select! {
                biased;
                output = &mut event => return Ok(output),
                command = self.commands.recv() => {
                    let _ = self.take(command.ok_or(TaskExit::Unused)?);
                }
            }
        }
    }

    async fn serve(&mut self, connection: AsyncConnection) -> Result<Infallible, TaskExit> {
        let AsyncConnection { mut reader, mut writer, .. } = connection;
        let mut phase = ConnectionPhase::Open;
        loop {
            self.take_all()?;
            let mut all_written = true;
            if let ConnectionPhase::Open = phase {
                if self.calls.any_sent() && self.calls.may_send() {
                    // With calls in flight, other callers are likely to call now. Let them run, so
                    // that one write carries all their requests.
                    tokio::task::yield_now().await;
                    self.take_all()?;
                }
                match self.write(&mut writer) {
                    Ok(all) => all_written = all,
                    Err(error) => phase.end(error.into()),
                }
            }
            if let ConnectionPhase::Ending { why, .. } = &phase
                && !self.calls.any_sent()
            {
                return Err(why.clone().into());
            }
            tokio::select! {
                biased;
                event = reader.event() => {
                    self.calls.heard(now());
                    self.understand(event?, &mut phase)?;
                    while let Some(event) = reader.ready_event() {
                        self.understand(event?, &mut phase)?;
                    }
                }
                writable = writer.writable(), if !all_written => writable?,
                command = self.commands.recv() => self.take(command.ok_or(TaskExit::Unused)?)?,
                failure = phase.over() => return Err(failure.into()),
            }
        }
    }

    /// Writes queued calls, as many as the daemon's limit and the socket allow. Returns whether the
    /// socket took all bytes.
    fn write(&mut self, writer: &mut RequestWriter) -> io::Result<bool> {
        loop {
            if self.calls.may_send() {
                self.calls.send(now(), BATCH_LEN, writer.buffer());
            }
            if !writer.flush()? {
                return Ok(false);
            }
            if !self.calls.may_send() {
                return Ok(true);
            }
        }
    }

    fn understand(
        &mut self,
        event: DaemonEvent,
        phase: &mut ConnectionPhase,
    ) -> Result<(), ConnectionFailure> {
        match event {
            DaemonEvent::Answer { id, reply } => {
                self.backoff.answered();
                self.calls.answer(id, reply)?;
            }
            DaemonEvent::Repeat { id } => {
                self.calls.repeat(id)?;
                phase.end(ConnectionFailure::goodbye());
            }
            DaemonEvent::Goodbye => phase.end(ConnectionFailure::goodbye()),
            DaemonEvent::Closing(error) => return Err(ConnectionFailure::Refused(error)),
        }
        Ok(())
    }

    fn take_all(&mut self) -> Result<(), StuckConnection> {
        while let Ok(command) = self.commands.try_recv() {
            self.take(command)?;
        }
        Ok(())
    }

    fn take(&mut self, command: TaskCommand) -> Result<(), StuckConnection> {
        match command {
            TaskCommand::Call { id, pending } => {
                self.calls.add(id, pending);
                Ok(())
            }
            TaskCommand::Forget { id, overdue } => self.calls.forget(now(), id, overdue),
        }
    }
}
