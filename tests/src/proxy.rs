//! A network between a daemon and a server that hangs, breaks, is slow and forgets, at a word of
//! the test. Modes hold from the moment that the call returns.

mod line;
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

/// How long anything may take before a test gives up. No test measures time by it.
const PATIENCE: Duration = Duration::from_secs(60);

/// A proxy of this host in front of a port of this host. Dropping it closes its connections.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    network: watch::Sender<Network>,
    connections: Arc<AtomicUsize>,
    accepted: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

/// What everybody sees of the network.
#[derive(Debug, Clone, Copy)]
struct Network {
    mode: Mode,
    delay: Duration,
    /// How often all connections were cut, and lost: each has to know whether it was there.
    cuts: u64,
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
    /// Starts a proxy that passes everything on to `port`.
    ///
    /// # Panics
    /// When it finds no port.
    #[must_use]
    pub fn to(port: u16) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0))).expect("a port");
        let own_port = listener.local_addr().expect("its number").port();
        let (network, seen) = watch::channel(Network {
            mode: Mode::Pass,
            delay: Duration::ZERO,
            cuts: 0,
            losses: 0,
            ended: false,
        });
        let connections = Arc::new(AtomicUsize::new(0));
        let accepted = Arc::new(AtomicUsize::new(0));
        let counts = (Arc::clone(&connections), Arc::clone(&accepted));
        let accepting = accept(listener, port, seen, counts);
        let thread = std::thread::spawn(move || runtime.block_on(accepting));
        Self { port: own_port, network, connections, accepted, thread: Some(thread) }
    }

    /// Where clients find it.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// How many connections are open through it, lost ones as well.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// How many connections were ever made to it, also those that were reset at once.
    #[must_use]
    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    /// Everything flows, also what was held.
    pub fn pass(&self) {
        self.network.send_modify(|network| network.mode = Mode::Pass);
    }

    /// Connections are accepted and stay, and nothing flows until `pass`: a hang.
    pub fn hold(&self) {
        self.network.send_modify(|network| network.mode = Mode::Hold);
    }

    /// All connections are reset, and new ones are until `pass`. Returns when they are.
    ///
    /// # Panics
    /// When one is not reset.
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

    /// All connections are lost, like those of a firewall that lost its state: both ends believe
    /// in them, and nothing ever arrives, not even their end. New ones hang until `pass`.
    pub fn lose(&self) {
        self.network.send_modify(|network| {
            network.mode = Mode::Hold;
            network.losses += 1;
        });
    }

    /// What a client sends arrives so much later: once for each request that waits for an answer.
    /// It goes for what is sent from now on.
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

/// Accepts connections until the proxy is dropped; they end with it.
async fn accept(
    listener: TcpListener,
    port: u16,
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
            // This process has no descriptor left; another connection will give one back.
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
            // Within the borrow, so that `cut` either waits for this one or is seen here.
            count.fetch_add(1, Ordering::SeqCst);
            Line::new(network.clone(), &now)
        };
        let count = Arc::clone(&count);
        connections.spawn(async move {
            line.carry(client, port).await;
            count.fetch_sub(1, Ordering::SeqCst);
        });
    }
}
