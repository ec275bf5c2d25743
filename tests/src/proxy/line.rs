//! One connection through the proxy: two directions, each with a queue of what is in flight.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::os::fd::AsRawFd;

use nix::sys::socket::{Shutdown, shutdown};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::{Mode, Network};

/// Bytes that one direction accepts while nothing flows.
const ROOM: usize = 1024 * 1024;

/// A connection's view of the network.
#[derive(Debug, Clone)]
pub(super) struct Line {
    network: watch::Receiver<Network>,
    cuts: u64,
    losses: u64,
}

/// What is delivered at the far end when it is due. The end of a connection is queued like everything
/// else: a network that hangs does not deliver it either.
enum Item {
    Bytes(Vec<u8>),
    End,
    Reset,
}

/// What is in flight, and when it is due.
type Queue = VecDeque<(Instant, Item)>;

/// The connection is broken: both ends have to get a reset.
struct Broken;

/// Makes the other end see a reset when the stream is dropped.
pub(super) fn reset(stream: &TcpStream) {
    let _ = stream.set_zero_linger();
}

impl Line {
    pub(super) fn new(network: watch::Receiver<Network>, now: &Network) -> Self {
        Self { network, cuts: now.cuts, losses: now.losses }
    }

    fn flows(&self, now: &Network) -> bool {
        now.mode == Mode::Pass && now.losses == self.losses
    }

    /// Carries everything between `client` and the server, until the end of both
    /// directions or a cut.
    pub(super) async fn carry(self, client: TcpStream) {
        let mut network = self.network.clone();
        let cut = network.wait_for(|network| network.cuts != self.cuts);
        tokio::pin!(cut);
        let server = tokio::select! {
            _ = &mut cut => return reset(&client),
            server = self.connect() => server,
        };
        let Ok(server) = server else { return reset(&client) };
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let there = self.clone().pump(&client, &server, true);
        let back = self.clone().pump(&server, &client, false);
        let ended = tokio::select! {
            _ = cut => Err(Broken),
            ended = async { tokio::try_join!(there, back) } => ended,
        };
        if ended.is_err() {
            reset(&client);
            reset(&server);
        }
    }

    /// Connects to the server once the network lets something flow.
    async fn connect(&self) -> std::io::Result<TcpStream> {
        let mut network = self.network.clone();
        let _ = network.wait_for(|network| self.flows(network)).await;
        let port = network.borrow().target;
        TcpStream::connect(("127.0.0.1", port)).await
    }

    async fn pump(mut self, from: &TcpStream, to: &TcpStream, delayed: bool) -> Result<(), Broken> {
        let mut queue = Queue::new();
        let mut held = 0;
        let mut open = true;
        while open || !queue.is_empty() {
            let flows = self.flows(&self.network.borrow());
            let due = queue.front().map(|(due, _)| *due);
            tokio::select! {
                // Reads the state again. The sender outlives its connections, so this cannot fail.
                _ = self.network.changed() => {}
                _ = from.readable(), if open && held < ROOM => {
                    let delay = self.network.borrow().delay;
                    let due = if delayed { Instant::now() + delay } else { Instant::now() };
                    if let Some(item) = read(from) {
                        match &item {
                            Item::Bytes(bytes) => held += bytes.len(),
                            Item::End | Item::Reset => open = false,
                        }
                        queue.push_back((due, item));
                    }
                }
                () = writable(to, due), if flows => {
                    // Within the borrow, so that nothing is written after `hold` has returned.
                    let now = self.network.borrow();
                    if self.flows(&now) {
                        held -= deliver(&mut queue, to)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Returns once the next item is due and can be written; never if there is none.
async fn writable(to: &TcpStream, due: Option<Instant>) {
    match due {
        Some(due) => {
            sleep_until(due).await;
            // A broken connection becomes writable too.
            let _ = to.writable().await;
        }
        None => std::future::pending().await,
    }
}

fn read(from: &TcpStream) -> Option<Item> {
    let mut buffer = [0; 16 * 1024];
    match from.try_read(&mut buffer) {
        Ok(0) => Some(Item::End),
        Ok(count) => Some(Item::Bytes(buffer.iter().take(count).copied().collect())),
        Err(error) if error.kind() == ErrorKind::WouldBlock => None,
        Err(_) => Some(Item::Reset),
    }
}

/// Writes as much of the first item as possible, and returns the number of bytes written.
fn deliver(queue: &mut Queue, to: &TcpStream) -> Result<usize, Broken> {
    let Some((due, item)) = queue.pop_front() else { return Ok(0) };
    match item {
        Item::Bytes(mut bytes) => {
            let written = match to.try_write(&bytes) {
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
                Err(_) => return Err(Broken),
            };
            if written < bytes.len() {
                bytes.drain(..written);
                queue.push_front((due, Item::Bytes(bytes)));
            }
            Ok(written)
        }
        Item::End => {
            // The other end may be gone already.
            let _ = shutdown(to.as_raw_fd(), Shutdown::Write);
            Ok(0)
        }
        Item::Reset => Err(Broken),
    }
}
