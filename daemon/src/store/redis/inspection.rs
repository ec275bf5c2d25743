//! What a Redis server says of itself, for `leafctl doctor`. Changes nothing.

use super::RedisStore;
use super::links::Links;
use crate::store::inspection::{ColumnFacts, LooseSetting, OwnTable, ReplicationFacts};
use crate::store::{DatabaseGuard, StoreFacts};

/// Reads what the server says. Nothing bounds the time of this.
///
/// # Errors
/// When there is no connection, or leafd may not use the server.
pub(crate) async fn inspect(store: RedisStore) -> Result<StoreFacts, String> {
    let links = Links::new(store, DatabaseGuard::unrecorded())?;
    let (link, info) = links.open_and_look().await?;
    let durability = link.durability().await;
    // leafd skips more than two seconds of leases by itself.
    let loss = durability.loss().filter(|_| !durability.is_every_second());
    let loose = loss.map(|(_, should_be)| LooseSetting {
        is: durability.settings(),
        should_be,
        loses_leases: true,
    });
    let replication = match info.replicas() {
        0 => ReplicationFacts::Alone,
        replicas => ReplicationFacts::Behind(replicas),
    };
    Ok(StoreFacts {
        server: info.product(),
        read_only: None,
        has_tags: true,
        tombstones: OwnTable::There,
        // leafd makes it when it connects for the first time.
        identity: OwnTable::There,
        missing_rights: Vec::new(),
        columns: ColumnFacts { is_unique: true, ..ColumnFacts::default() },
        loose: loose.into_iter().collect(),
        replication,
        waits_with: "min-replicas-to-write 1 and min-replicas-max-lag 1",
    })
}
