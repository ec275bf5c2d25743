//! A network between a daemon and a server that a test makes hang, break, slow down or lose
//! connections. A mode is in force once the call that sets it has returned.

mod line;
mod proxies;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use line::{Line, reset};
pub use proxies::Proxies;

use crate::PATIENCE;

/// A proxy in front of a port of this host. Dropping it closes its connections.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    network: watch::Sender<Network>,
    connections: Arc<AtomicUsize>,
    accepted: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

/// The state of the network, which all connections watch.
#[derive(Debug, Clone, Copy)]
struct Network {
    mode: Mode,
    /// The port to which new connections lead.
    target: u16,
    delay: Duration,
    /// How often all connections were cut. A connection compares this with the count when it began.
    cuts: u64,
    /// How often all connections were lost, for the same comparison.
    losses: u64,
    ended: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Pass,
    Hold,
    Cut,
}

impl Proxy {
    /// Starts a proxy that forwards everything to `port`, at first.
    #[must_use]
    pub fn to(port: u16) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0))).expect("a port");
        let own_port = listener.local_addr().expect("its number").port();
        let (network, seen) = watch::channel(Network {
            mode: Mode::Pass,
            target: port,
            delay: Duration::ZERO,
            cuts: 0,
            losses: 0,
            ended: false,
        });
        let connections = Arc::new(AtomicUsize::new(0));
        let accepted = Arc::new(AtomicUsize::new(0));
        let counts = (Arc::clone(&connections), Arc::clone(&accepted));
        let accepting = accept(listener, seen, counts);
        let thread = std::thread::spawn(move || runtime.block_on(accepting));
        Self { port: own_port, network, connections, accepted, thread: Some(thread) }
    }

    /// The port on which clients reach the proxy.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Number of open connections, including lost ones.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Number of connections ever made, including those that were reset at once.
    #[must_use]
    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    /// Forwards everything, including what was held.
    pub fn pass(&self) {
        self.network.send_modify(|network| network.mode = Mode::Pass);
    }

    /// Simulates a hang: connections are accepted and stay open, but nothing flows until `pass`.
    pub fn hold(&self) {
        self.network.send_modify(|network| network.mode = Mode::Hold);
    }

    /// Resets all connections, and new ones until `pass`. Returns once all are reset.
    pub fn cut(&self) {
        self.network.send_modify(|network| {
            network.mode = Mode::Cut;
            network.cuts += 1;
        });
        let began = Instant::now();
        while self.connections() > 0 {
            assert!(began.elapsed() < PATIENCE, "{} connections are left", self.connections());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Simulates a firewall that lost its state: connections stay open at both ends, but nothing ever
    /// arrives on them, not even their end. New ones hang until `pass`.
    pub fn lose(&self) {
        self.network.send_modify(|network| {
            network.mode = Mode::Hold;
            network.losses += 1;
        });
    }

    /// Makes new connections lead to another port, as a virtual address does after a failover. Open ones
    /// stay.
    pub fn lead_to(&self, port: u16) {
        self.network.send_modify(|network| network.target = port);
    }

    /// Delays what clients send from now on. Answers are not delayed, so a round trip takes `delay`
    /// longer.
    pub fn delay(&self, delay: Duration) {
        self.network.send_modify(|network| network.delay = delay);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.network.send_modify(|network| network.ended = true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Accepts connections until the proxy is dropped, which also ends them.
async fn accept(
    listener: TcpListener,
    mut network: watch::Receiver<Network>,
    (count, ever): (Arc<AtomicUsize>, Arc<AtomicUsize>),
) {
    let mut connections = JoinSet::new();
    loop {
        let client = tokio::select! {
            _ = network.wait_for(|network| network.ended) => return,
            _ = connections.join_next(), if !connections.is_empty() => continue,
            accepted = listener.accept() => accepted,
        };
        let Ok((client, _)) = client else {
            // This process is out of descriptors until another connection ends.
            tokio::time::sleep(Duration::from_millis(1)).await;
            continue;
        };
        ever.fetch_add(1, Ordering::SeqCst);
        let line = {
            let now = network.borrow();
            if now.mode == Mode::Cut {
                reset(&client);
                continue;
            }
            // Within the borrow, so that `cut` either waits for this connection or is seen here.
            count.fetch_add(1, Ordering::SeqCst);
            Line::new(network.clone(), &now)
        };
        let count = Arc::clone(&count);
        connections.spawn(async move {
            line.carry(client).await;
            count.fetch_sub(1, Ordering::SeqCst);
        });
    }
}
