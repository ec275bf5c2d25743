//! Asks Sentinels where the primary is.

use std::time::Duration;

use tokio_rustls::TlsConnector;

use super::failure::told;
use super::link::{Link, Login};
use super::place::{RedisPlace, RedisServer};
use crate::secret::Secret;

/// The primary that the first Sentinel to answer names. Each gets an equal share of `limit`.
///
/// # Errors
/// Why none names one, for users.
pub(super) async fn primary(
    place: &RedisPlace,
    name: &str,
    tls: Option<&TlsConnector>,
    password: Option<&Secret>,
    limit: Duration,
) -> Result<RedisServer, String> {
    let count = u32::try_from(place.servers.len()).unwrap_or(u32::MAX).max(1);
    let mut failures = Vec::new();
    for sentinel in &place.servers {
        let asked = tokio::time::timeout(limit / count, ask(place, sentinel, name, tls, password));
        match asked.await {
            Ok(Ok(primary)) => return Ok(primary),
            Ok(Err(why)) => failures.push(format!("{sentinel}: {why}")),
            Err(_) => failures.push(format!("{sentinel}: no answer")),
        }
    }
    Err(format!("no Sentinel says where {name:?} is ({})", failures.join("; ")))
}

async fn ask(
    place: &RedisPlace,
    sentinel: &RedisServer,
    name: &str,
    tls: Option<&TlsConnector>,
    password: Option<&Secret>,
) -> Result<RedisServer, String> {
    let login = Login { user: place.sentinel_user.as_deref(), password, database: 0 };
    let link = Link::open(sentinel, tls, login).await?;
    let mut question = redis::cmd("SENTINEL");
    question.arg("get-master-addr-by-name").arg(name);
    let answer: Option<(String, u16)> =
        question.query_async(&mut link.connection()).await.map_err(|error| told(&error))?;
    let (host, port) = answer
        .ok_or_else(|| format!("it watches nothing called {name:?}; correct redis.sentinel"))?;
    Ok(RedisServer { host, port })
}
