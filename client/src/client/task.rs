//! The task that keeps the connection: connects when a call waits, writes requests in batches,
//! passes answers on, and connects again. It ends with the last handle.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::mpsc;
use tokio::time;

use super::calls::{CallTable, PendingCall, ReplySender, StuckConnection};
use super::connection::{AsyncConnection, BATCH_LEN, RequestWriter};
use super::link::Link;
use crate::options::Options;
use crate::session::{Backoff, CheckedCall, ConnectionFailure, DRAIN, DaemonEvent};

/// What callers send to the task.
#[derive(Debug)]
pub(super) enum TaskCommand {
    Call { id: u64, ask: CheckedCall<Box<str>>, deadline: Instant, caller: ReplySender },
    Forget { id: u64, overdue: bool },
}

pub(super) struct ConnectionTask {
    options: Arc<Options>,
    link: Arc<Link>,
    commands: mpsc::UnboundedReceiver<TaskCommand>,
    calls: CallTable,
    backoff: Backoff,
}

/// Why the task leaves what it does.
enum TaskExit {
    /// The last handle is gone.
    Unused,
    /// The connection is gone, or could not be made.
    Lost(ConnectionFailure),
}

impl<E: Into<ConnectionFailure>> From<E> for TaskExit {
    fn from(error: E) -> Self {
        Self::Lost(error.into())
    }
}

// The time of tokio, which tests can stop, as the plain state knows it.
fn now() -> Instant {
    time::Instant::now().into_std()
}

/// How far a connection has come.
enum ConnectionPhase {
    /// Requests may be sent.
    Open,
    /// The daemon stops, or takes no more: only its last answers are waited for, and not for long.
    Ending { at: time::Instant, why: ConnectionFailure },
}

impl ConnectionPhase {
    fn end(&mut self, why: ConnectionFailure) {
        if let Self::Open = self {
            *self = Self::Ending { at: time::Instant::now() + DRAIN, why };
        }
    }

    /// Waits until there is nothing more to wait for.
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
    /// The runtime has ended, or the last handle is gone.
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
            self.backoff.lost(now(), fastrand::f64());
            self.link.down(failure);
        }
    }

    /// The life of one connection, from the first call that needs it.
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
            // One of these requests may be what broke it, so they are not tried again.
            self.calls.fail_sent(&failure.error(self.options.socket_path()));
        }
        self.calls.disconnected();
        ending
    }

    async fn open(&mut self) -> Result<AsyncConnection, TaskExit> {
        while !self.calls.any_waiting() {
            let command = self.commands.recv().await.ok_or(TaskExit::Unused)?;
            // Without a connection there is nothing that could be stuck.
            let _ = self.take(command);
        }
        let pause = self.backoff.pause(now());
        if !pause.is_zero() {
            self.meanwhile(time::sleep(pause)).await?;
        }
        let options = Arc::clone(&self.options);
        Ok(self.meanwhile(AsyncConnection::open(&options)).await??)
    }

    /// Waits for `event` and takes commands meanwhile.
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
                    // Where some wait, more are about to call: let them, and write once for all.
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

    /// Writes what waits, as far as daemon and socket take it; whether the socket took all.
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
            TaskCommand::Call { id, ask, deadline, caller } => {
                self.calls.add(id, PendingCall { ask, deadline, caller });
                Ok(())
            }
            TaskCommand::Forget { id, overdue } => self.calls.forget(id, overdue),
        }
    }
}
