//! The state that the threads of the fake daemon share: switches, memory, counters and connections.

use std::collections::HashMap;
use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::fault::Fault;
use super::model::FakeModel;
use crate::wire::{Reply, Response, UNSOLICITED, WorkerStatus, encode_response};

/// How the test wants the daemon to behave.
#[derive(Debug)]
pub(super) struct Switches {
    pub(super) max_count: u32,
    pub(super) max_in_flight: u32,
    /// Faults to inject once, each with the number of requests that come before it.
    pub(super) faults: Vec<(u64, Fault)>,
    pub(super) always: Option<Fault>,
    pub(super) on_hello: Option<Fault>,
    /// How many answers to hold back and send in reverse order.
    pub(super) reverse: usize,
}

impl Switches {
    /// The fault to inject into the request that has just arrived.
    pub(super) fn next_fault(&mut self) -> Option<Fault> {
        let due = self.faults.iter().position(|(requests, _)| *requests == 0);
        let due = due.map(|at| self.faults.remove(at).1);
        for (requests, _) in &mut self.faults {
            *requests = requests.saturating_sub(1);
        }
        due.or_else(|| self.always.clone())
    }
}

/// What the daemon has counted since its start.
#[derive(Debug, Default, Clone)]
pub(super) struct Counters {
    pub(super) connections: u64,
    pub(super) requests: u64,
    pub(super) peak_in_flight: usize,
    pub(super) open: usize,
    pub(super) last_timeout_ms: Option<u32>,
}

/// The shared state, behind one lock.
#[derive(Debug, Default)]
pub(super) struct SharedState {
    state: Mutex<DaemonState>,
}

#[derive(Debug, Default)]
struct DaemonState {
    stopping: bool,
    switches: Switches,
    model: FakeModel,
    counts: Counters,
    streams: HashMap<u64, Arc<UnixStream>>,
}

impl Default for Switches {
    fn default() -> Self {
        Self {
            max_count: 100_000,
            max_in_flight: 1024,
            faults: Vec::new(),
            always: None,
            on_hello: None,
            reverse: 0,
        }
    }
}

impl SharedState {
    fn state(&self) -> MutexGuard<'_, DaemonState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn switches<T>(&self, change: impl FnOnce(&mut Switches) -> T) -> T {
        change(&mut self.state().switches)
    }

    pub(super) fn count<T>(&self, change: impl FnOnce(&mut Counters) -> T) -> T {
        change(&mut self.state().counts)
    }

    pub(super) fn counts(&self) -> Counters {
        self.state().counts.clone()
    }

    pub(super) fn put_worker(&self, status: WorkerStatus) {
        self.state().model.put_worker(status);
    }

    pub(super) fn reply(&self, call: &crate::wire::Call<'_>) -> Reply {
        let state = &mut *self.state();
        let connections = u32::try_from(state.counts.open).unwrap_or(u32::MAX);
        state.model.reply(call, state.switches.max_count, state.counts.requests, connections)
    }

    /// Notes a connection and returns its number; `None` if the daemon is stopping.
    pub(super) fn opened(&self, stream: &Arc<UnixStream>) -> Option<u64> {
        let state = &mut *self.state();
        if state.stopping {
            return None;
        }
        state.counts.connections += 1;
        state.counts.open += 1;
        let number = state.counts.connections;
        state.streams.insert(number, Arc::clone(stream));
        Some(number)
    }

    pub(super) fn closed(&self, number: u64) {
        let state = &mut *self.state();
        if state.streams.remove(&number).is_some() {
            state.counts.open -= 1;
        }
    }

    /// Allows connections again.
    pub(super) fn start_listening(&self) {
        self.state().stopping = false;
    }

    /// Stops listening. Connects once to wake the accepting thread.
    pub(super) fn stop_listening(&self, path: &Path) {
        self.state().stopping = true;
        let _ = UnixStream::connect(path);
    }

    pub(super) fn close_all(&self) {
        for stream in self.take_streams() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    pub(super) fn goodbye_all(&self) {
        let mut out = Vec::new();
        encode_response(&Response { id: UNSOLICITED, reply: Reply::Goodbye }, &mut out);
        for stream in self.take_streams() {
            let _ = (&*stream).write_all(&out);
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn take_streams(&self) -> Vec<Arc<UnixStream>> {
        let state = &mut *self.state();
        state.counts.open = 0;
        state.streams.drain().map(|(_, stream)| stream).collect()
    }
}
