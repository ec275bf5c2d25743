//! Asks Sentinels where the primary is. A majority has to agree: one that is cut off from the others goes on
//! naming a server that they have replaced.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use super::failure::told;
use super::link::{Link, Login};
use super::place::{RedisPlace, RedisServer};
use crate::secret::Secret;

/// The primary that a majority of the Sentinels names, as soon as so many have answered. Each gets `limit`.
///
/// # Errors
/// Why there is none, for users.
pub(super) async fn primary(
    place: &RedisPlace,
    name: &str,
    tls: Option<&TlsConnector>,
    password: Option<&Secret>,
    (now, limit): (Instant, Duration),
) -> Result<RedisServer, String> {
    let questions = place.servers.iter().map(|sentinel| async move {
        let asked = timeout(limit, ask(place, sentinel, name, tls, (password, now))).await;
        let answer = asked.unwrap_or_else(|_| Err("no answer".to_owned()));
        (sentinel, answer)
    });
    let mut answers: FuturesUnordered<_> = questions.collect();
    let (mut named, mut told) = (Vec::new(), Vec::new());
    while let Some((sentinel, answer)) = answers.next().await {
        match answer {
            Ok(primary) => {
                told.push(format!("{sentinel}: {primary}"));
                named.push(primary);
            }
            Err(why) => told.push(format!("{sentinel}: {why}")),
        }
        if let Some(primary) = agreed(&named, place.servers.len()) {
            return Ok(primary.clone());
        }
    }
    Err(format!("no majority of the Sentinels names the primary {name:?} ({})", told.join("; ")))
}

/// What more than half of `count` name.
fn agreed(named: &[RedisServer], count: usize) -> Option<&RedisServer> {
    let votes = |server: &RedisServer| named.iter().filter(|other| *other == server).count();
    named.iter().find(|server| votes(server) > count / 2)
}

async fn ask(
    place: &RedisPlace,
    sentinel: &RedisServer,
    name: &str,
    tls: Option<&TlsConnector>,
    (password, now): (Option<&Secret>, Instant),
) -> Result<RedisServer, String> {
    let login = Login { user: place.sentinel_user.as_deref(), password, database: 0 };
    let link = Link::open(sentinel, tls, login, now).await?;
    let mut question = redis::cmd("SENTINEL");
    question.arg("get-master-addr-by-name").arg(name);
    let answer: Option<(String, u16)> =
        question.query_async(&mut link.connection()).await.map_err(|error| told(&error))?;
    let (host, port) = answer
        .ok_or_else(|| format!("it watches nothing called {name:?}; correct redis.sentinel"))?;
    Ok(RedisServer { host, port })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_half_of_all_have_to_agree() {
        let [a, b] = ["a", "b"].map(|host| RedisServer { host: host.to_owned(), port: 1 });
        for (named, count, primary) in [
            (vec![], 3, None),
            (vec![&a], 3, None),
            (vec![&a, &b], 3, None),
            (vec![&a, &b, &b], 3, Some(&b)),
            (vec![&a, &a], 3, Some(&a)),
            (vec![&a], 1, Some(&a)),
            (vec![&a], 2, None),
            (vec![&a, &a], 4, None),
        ] {
            let named: Vec<_> = named.into_iter().cloned().collect();
            assert_eq!(agreed(&named, count), primary, "{named:?} of {count}");
        }
    }
}
