//! The lease, and the calls that ask whether a lease would succeed: look, probe and prove.

use std::future::Future;
use std::sync::Arc;

use redis::{RedisResult, Script};

use super::Redis;
use super::failure::{Fault, fault};
use super::link::Link;
use super::links::no_answer;
use super::scripts::Reply;
use super::server::HIDES;
use crate::ids::{BizTag, Range};
use crate::lock::lock;
use crate::state::database::DatabaseIdentity;
use crate::store::{Lease, LeaseAsk, Leased, StoreError};

/// How often a call begins again because others changed the counter meanwhile.
pub(super) const ATTEMPTS: usize = 20;

/// What came of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Done,
    /// Somebody else changed the counter meanwhile, so nothing happened.
    Overtaken,
}

impl Redis {
    pub(super) async fn link(&self) -> Result<Arc<Link>, StoreError> {
        self.links.link().await.map_err(|why| self.down(why))
    }

    /// Bounds a part of a call: a server that hangs counts as down, and its connection is not used again.
    pub(super) async fn on<T>(
        &self,
        link: &Arc<Link>,
        part: impl Future<Output = RedisResult<T>>,
    ) -> Result<T, StoreError> {
        let limit = self.links.limit();
        match tokio::time::timeout(limit, part).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => {
                if fault(&error) == Fault::Server {
                    self.links.forget(link);
                }
                Err(self.failed(&error))
            }
            Err(_) => {
                self.links.forget(link);
                Err(self.down(no_answer(limit)))
            }
        }
    }

    pub(super) fn counter(&self, tag: &BizTag) -> Result<String, StoreError> {
        self.place.keys.counter(tag).ok_or_else(|| {
            let text =
                format!("a tag of the name {:?} would be one of leafd's own keys", tag.as_str());
            StoreError::BadRow(text)
        })
    }

    /// Runs a script for one counter. Nothing is done in another Redis than this host's.
    pub(super) async fn script(
        &self,
        link: &Arc<Link>,
        script: &Script,
        counter: &str,
        arguments: &[&str],
    ) -> Result<Reply, StoreError> {
        let identity = self.links.guard().recorded().identity;
        let mut connection = link.connection();
        let place = (&self.place.keys, counter);
        let call = Reply::of(script, &mut connection, place, identity, arguments);
        let reply = self.on(link, call).await?;
        if reply.word() == "identity" {
            return Err(self.is_another(link, reply.part(1)).await);
        }
        let unusable = match reply.word() {
            "replica" => Some("the server has become a replica"),
            "hidden" => Some(HIDES),
            _ => None,
        };
        if let Some(why) = unusable {
            self.links.forget(link);
            return Err(self.down(why));
        }
        reply.refusal(counter).map_or(Ok(reply), Err)
    }

    /// The Redis was replaced or emptied while leafd was connected.
    pub(super) async fn is_another(&self, link: &Arc<Link>, found: &str) -> StoreError {
        self.links.forget(link);
        let found: Option<DatabaseIdentity> = match found {
            "" => None,
            text => match text.parse() {
                Ok(identity) => Some(identity),
                Err(error) => {
                    return self.down(format!("the key {}: {error}", self.place.keys.identity()));
                }
            },
        };
        match self.links.guard().check(found, None).await {
            Err(unusable) => self.down(unusable),
            Ok(()) => StoreError::Busy(format!("{}: it has changed just now", self.described)),
        }
    }

    /// Others got in the way [`ATTEMPTS`] times.
    pub(super) fn disturbed(&self, tag: &BizTag) -> StoreError {
        StoreError::Busy(format!(
            "{}: others keep changing the counter of tag {:?}",
            self.described,
            tag.as_str()
        ))
    }

    pub(super) async fn lease_counter(
        &self,
        tag: &BizTag,
        ask: LeaseAsk,
    ) -> Result<Leased, StoreError> {
        let counter = self.counter(tag)?;
        let link = self.link().await?;
        let mut moved_from = None;
        // A counter that is one below the start of a lease is where it should be.
        let floor = ask.floor.saturating_sub(1).to_string();
        let (step, at_least) = (self.default_step.to_string(), ask.at_least.to_string());
        let margin = self.place.margin.to_string();
        let arguments = [floor.as_str(), &step, &at_least, &margin, "0"];
        for _ in 0..ATTEMPTS {
            let reply = self.script(&link, &self.scripts.lease, &counter, &arguments).await?;
            match reply.word() {
                "leased" => return self.leased(tag, &reply, moved_from),
                "below" => {
                    let at = reply.number(1)?;
                    self.raise_to(&link, &counter, at, reply.number(2)?).await?;
                    moved_from = moved_from.or(Some(at.saturating_add(1)));
                }
                _ => return Err(reply.unexpected()),
            }
        }
        Err(self.disturbed(tag))
    }

    /// The range that a script has leased.
    fn leased(
        &self,
        tag: &BizTag,
        reply: &Reply,
        moved_from: Option<u64>,
    ) -> Result<Leased, StoreError> {
        let (end, size, row_step) = (reply.number(2)?, reply.number(3)?, reply.number(5)?);
        let skipped = reply.number(4)?;
        if skipped > 0 {
            self.tell_of_margin(tag, skipped, reply.part(6));
        }
        let range = end
            .checked_sub(size)
            .and_then(|below| Range::new(below.checked_add(1)?, end.checked_add(1)?));
        let range = range.ok_or_else(|| {
            let text = format!("the counter is {end}: a lease passes the highest ID, 2^63 - 1");
            StoreError::BadRow(text)
        })?;
        Ok(Leased { lease: Lease { range, row_step }, moved_from })
    }

    /// Logs that leases were skipped, once for each restart or failover, whatever the number of tags.
    fn tell_of_margin(&self, tag: &BizTag, skipped: u64, replication_id: &str) {
        let mut told = lock(&self.told);
        if *told == replication_id {
            return;
        }
        replication_id.clone_into(&mut told);
        tracing::warn!(
            tag = tag.as_str(),
            skipped,
            "Redis has restarted or failed over, and may have lost leases: each counter skips \
             redis.margin times what a minute took of it, this one first"
        );
    }

    /// Moves a counter forward. If somebody else has moved it meanwhile, nothing happens.
    pub(super) async fn raise_to(
        &self,
        link: &Arc<Link>,
        counter: &str,
        from: u64,
        to: u64,
    ) -> Result<Change, StoreError> {
        let more = to.saturating_sub(from).to_string();
        let reply =
            self.script(link, &self.scripts.repair, counter, &[&from.to_string(), &more]).await?;
        match reply.word() {
            "done" => Ok(Change::Done),
            "changed" => Ok(Change::Overtaken),
            _ => Err(reply.unexpected()),
        }
    }

    pub(super) async fn prove_counter(&self, tag: &BizTag) -> Result<(), StoreError> {
        let counter = self.counter(tag)?;
        let link = self.link().await?;
        let step = self.default_step.to_string();
        let reply =
            self.script(&link, &self.scripts.lease, &counter, &["0", &step, "0", "0", "1"]).await?;
        match reply.word() {
            // A lease would move a counter that is behind.
            "proved" | "below" => Ok(()),
            _ => Err(reply.unexpected()),
        }
    }

    pub(super) async fn look_at_server(&self) -> Result<(), StoreError> {
        let link = self.link().await?;
        let info = self.on(&link, link.info()).await?;
        if let Some(refusal) = info.refusal() {
            self.links.forget(&link);
            return Err(self.down(refusal));
        }
        let limit = self.links.limit();
        let identity = tokio::time::timeout(limit, self.links.identity_on(&link)).await;
        let identity = identity.unwrap_or_else(|_| Err(no_answer(limit)));
        let identity = identity.map_err(|why| {
            self.links.forget(&link);
            self.down(why)
        })?;
        if let Err(unusable) = self.links.guard().check(identity, None).await {
            self.links.forget(&link);
            return Err(self.down(unusable));
        }
        self.write_probe(&link).await
    }

    pub(super) async fn probe_on_new_link(&self) -> Result<(), StoreError> {
        let limit = self.links.limit();
        let opened = tokio::time::timeout(limit, self.links.open_checked()).await;
        let opened = opened.unwrap_or_else(|_| Err(no_answer(limit)));
        let link = Arc::new(opened.map_err(|why| self.down(why))?);
        self.write_probe(&link).await
    }

    /// Whether Redis takes writes.
    async fn write_probe(&self, link: &Arc<Link>) -> Result<(), StoreError> {
        let mut write = redis::cmd("PSETEX");
        write.arg(self.place.keys.probe()).arg(1000).arg("");
        let mut connection = link.connection();
        let written = self.on(link, write.query_async::<()>(&mut connection)).await;
        // What one call is refused, such as for want of a right, every lease is refused.
        written.map_err(|error| StoreError::Down(error.to_string()))
    }
}
