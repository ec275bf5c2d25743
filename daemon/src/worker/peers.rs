//! Asks the other daemons of the fleet for their time, over their peer ports, and says whether this
//! host's clock agrees with theirs. Leaf's published rule: the arithmetic mean of those that answer.
//!
//! An answer is off by at most half of its round trip, since nobody knows how the two ways shared
//! that time. An answer that took longer than [`MAX_ROUND_TRIP`] does not count: it says more about
//! the network, or about an overloaded host, than about a clock. All other answers count. To tell an
//! absurd answer from a right one, a host needs a notion of the right time, and a host whose own clock
//! is wrong would reject exactly the right answers. So one peer with an absurd clock can move the mean
//! far enough that leafd refuses IDs, or that it misses a difference. It cannot make leafd issue an ID
//! twice: the ceilings prevent that, whatever the peers say.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;
use leaf_client::wire::{
    Call, MAGIC, Reply, Request, Response, VERSION, decode_response, encode_request,
};
use tokio::io::{self, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{timeout, timeout_at};

use crate::environment::Environment;
use crate::frame::{ReadError, read_frame};

/// Connections that are open at once, each of which holds a descriptor.
pub(crate) const MAX_AT_ONCE: usize = 256;

/// An answer that took longer does not count. Half of it, by which an answer may be off, is a tenth of
/// the default threshold.
pub(crate) const MAX_ROUND_TRIP: Duration = Duration::from_secs(1);

/// Bytes of one answer: `Time` has 20, and an error has a text.
const MAX_RESPONSE: usize = 1024;

/// What a peer answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PeerTime {
    /// Its address, as it was given.
    pub(crate) peer: String,
    /// How far its clock is ahead of this host's, in ms; negative when it is behind. Half of the round
    /// trip is subtracted.
    pub(crate) offset_ms: i64,
    /// How long the answer took.
    pub(crate) round_trip: Duration,
}

/// What the fleet says about this host's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// There is no answer that counts.
    NobodyAnswered,
    /// The mean differs by no more than the threshold.
    Agrees {
        /// How far the others are ahead, in ms.
        mean_ms: i64,
    },
    /// The mean differs by more than the threshold.
    Differs {
        /// How far the others are ahead, in ms.
        mean_ms: i64,
    },
}

/// The verdict of `times`, when up to `threshold_ms` of difference is allowed either way.
pub(crate) fn verdict(times: &[PeerTime], threshold_ms: u64) -> Verdict {
    match mean_offset_ms(times) {
        None => Verdict::NobodyAnswered,
        Some(mean_ms) if mean_ms.unsigned_abs() <= threshold_ms => Verdict::Agrees { mean_ms },
        Some(mean_ms) => Verdict::Differs { mean_ms },
    }
}

/// The mean of the offsets that count, in ms and towards 0; none when there are none.
pub(crate) fn mean_offset_ms(times: &[PeerTime]) -> Option<i64> {
    let counting = || times.iter().filter(|time| time.round_trip <= MAX_ROUND_TRIP);
    let sum: i128 = counting().map(|time| i128::from(time.offset_ms)).sum();
    let mean = sum.checked_div(i128::try_from(counting().count()).ok()?)?;
    i64::try_from(mean).ok()
}

/// How far `theirs_ms` is ahead of this host's clock, which read `sent_ms` when they were asked.
fn offset_ms(theirs_ms: u64, sent_ms: u64, round_trip: Duration) -> i64 {
    let half = i128::try_from(round_trip.as_micros() / 2000).unwrap_or(i128::MAX);
    let offset = (i128::from(theirs_ms) - i128::from(sent_ms)).saturating_sub(half);
    let least_or_most = if offset < 0 { i64::MIN } else { i64::MAX };
    i64::try_from(offset).unwrap_or(least_or_most)
}

/// Asks all `peers` (`ip:port`, with brackets around an IPv6 address) for their time, within `limit`.
/// This host's own address must not be among them. A peer that gives no answer, or one that makes no
/// sense, is missing from the outcome, which has no order.
pub(crate) async fn ask_all(
    peers: Vec<String>,
    environment: Environment,
    limit: Duration,
) -> Vec<PeerTime> {
    ask_some_at_once(peers, &environment, limit, MAX_AT_ONCE).await
}

async fn ask_some_at_once(
    peers: Vec<String>,
    environment: &Environment,
    limit: Duration,
    at_once: usize,
) -> Vec<PeerTime> {
    let due = environment.now() + limit;
    // Every peer gets its turn, even if all are silent.
    let turns = u32::try_from(peers.len().div_ceil(at_once)).unwrap_or(u32::MAX).max(1);
    let turn = limit / turns;
    let asked =
        peers.into_iter().map(async |peer| match timeout(turn, ask(&peer, environment)).await {
            Ok(Ok((offset_ms, round_trip))) => Some(PeerTime { peer, offset_ms, round_trip }),
            Ok(Err(error)) => {
                tracing::debug!(peer, "no time from a peer: {error}");
                None
            }
            Err(_) => {
                tracing::debug!(peer, "no time from a peer within {turn:?}");
                None
            }
        });
    let mut answers = stream::iter(asked).buffer_unordered(at_once);
    let mut times = Vec::new();
    while let Ok(Some(answer)) = timeout_at(due, answers.next()).await {
        times.extend(answer);
    }
    times
}

/// Why a peer told no time.
#[derive(Debug, thiserror::Error)]
enum AskError {
    #[error("{0} is not an address of the form ip:port")]
    NoAddress(String),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("it does not speak as leafd does: {0}")]
    Decode(#[from] leaf_client::wire::ResponseError),
    #[error("it answered {0:?}")]
    Unexpected(Response),
}

/// The offset in ms and the round trip of one peer.
async fn ask(peer: &str, environment: &Environment) -> Result<(i64, Duration), AskError> {
    let address: SocketAddr = peer.parse().map_err(|_| AskError::NoAddress(peer.to_owned()))?;
    let mut stream = TcpStream::connect(address).await?;
    // Without it the answer may be a little late, nothing worse.
    let _ = stream.set_nodelay(true);
    let hello = Request { id: 1, call: Call::Hello { magic: MAGIC, version: VERSION } };
    match call(&mut stream, &hello).await? {
        Response { id: 1, reply: Reply::Hello { version: 1..=VERSION, .. } } => {}
        other => return Err(AskError::Unexpected(other)),
    }
    let sent_ms = environment.unix_ms();
    let sent = environment.now();
    let answer = call(&mut stream, &Request { id: 2, call: Call::Time }).await?;
    let round_trip = environment.since(sent);
    match answer {
        Response { id: 2, reply: Reply::Time { unix_ms } } => {
            Ok((offset_ms(unix_ms, sent_ms, round_trip), round_trip))
        }
        other => Err(AskError::Unexpected(other)),
    }
}

async fn call(stream: &mut TcpStream, request: &Request<'_>) -> Result<Response, AskError> {
    let mut out = Vec::new();
    encode_request(request, &mut out);
    stream.write_all(&out).await?;
    Ok(decode_response(&read_frame(stream, MAX_RESPONSE).await?)?)
}

#[cfg(test)]
#[path = "peers_tests.rs"]
mod tests;
