//! The connection that all calls share: opened on demand, checked to lead to the right Redis, and dropped
//! after a call on it failed or timed out, or when the Sentinels name another primary. Calls that come while
//! it cannot be opened share one failure.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use super::failure::told;
use super::link::{Link, Login};
use super::place::RedisServer;
use super::scripts::identify;
use super::server::{Durability, ServerInfo};
use super::{RedisStore, sentinel};
use crate::environment::Environment;
use crate::lock::lock;
use crate::state::database::DatabaseIdentity;
use crate::store::DatabaseGuard;

/// With Sentinels, leafd asks them again after this before it leases: they may have promoted another server.
const CONFIRMED: Duration = Duration::from_secs(1);

pub(super) struct Links {
    store: RedisStore,
    guard: Arc<DatabaseGuard>,
    open: Mutex<OpenLink>,
    /// One attempt to connect at a time.
    turn: tokio::sync::Mutex<()>,
    /// The durability that was logged last.
    told: Mutex<Option<Durability>>,
}

#[derive(Default)]
struct OpenLink {
    link: Option<Arc<Link>>,
    /// When the last attempt to connect failed, and why.
    failed: Option<(Instant, String)>,
    is_closed: bool,
}

impl Links {
    /// # Errors
    /// When a certificate or key cannot be used.
    pub(super) fn new(store: RedisStore, guard: Arc<DatabaseGuard>) -> Result<Self, String> {
        let this = Self {
            store,
            guard,
            open: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            told: Mutex::default(),
        };
        // The files may change later, but a mistake should be found now.
        this.tls()?;
        let RedisStore { place, password, sentinel_password, .. } = &this.store;
        for (key, user, password) in [
            ("redis.user", &place.user, password),
            ("redis.sentinel-user", &place.sentinel_user, sentinel_password),
        ] {
            if let (Some(user), None) = (user, password) {
                return Err(format!(
                    "{key}: {user:?} has no password, and would not log in; set it"
                ));
            }
        }
        Ok(this)
    }

    pub(super) const fn environment(&self) -> &Environment {
        &self.store.environment
    }

    pub(super) const fn guard(&self) -> &Arc<DatabaseGuard> {
        &self.guard
    }

    fn tls(&self) -> Result<Option<TlsConnector>, String> {
        self.store.place.tls.as_ref().map(crate::tls::TlsFiles::connector).transpose()
    }

    /// The connection, or a new one. With Sentinels, they have said within [`CONFIRMED`] that it leads to the
    /// primary.
    ///
    /// # Errors
    /// Why there is none, for users.
    pub(super) async fn link(&self) -> Result<Arc<Link>, String> {
        let asked = self.store.environment.now();
        if let Some(link) = self.known().filter(|link| self.is_confirmed(link)) {
            return Ok(link);
        }
        let _turn = self.turn.lock().await;
        if lock(&self.open).is_closed {
            return Err("the store is closed".to_owned());
        }
        let known = self.known();
        if let Some(link) = known.as_ref().filter(|link| self.is_confirmed(link)) {
            return Ok(Arc::clone(link));
        }
        if let Some((at, why)) = &lock(&self.open).failed
            && *at >= asked
        {
            return Err(why.clone());
        }
        let limit = self.limit();
        if let Some(link) = known {
            let has_moved = tokio::time::timeout(limit, self.has_moved(&link)).await;
            match has_moved.unwrap_or_else(|_| Err(no_answer(limit))) {
                Ok(false) => return Ok(link),
                // The old primary may go on taking writes.
                Ok(true) => self.forget(&link),
                Err(why) => {
                    lock(&self.open).failed = Some((self.store.environment.now(), why.clone()));
                    return Err(why);
                }
            }
        }
        let opened = tokio::time::timeout(limit, self.open_checked()).await;
        let opened = opened.unwrap_or_else(|_| Err(no_answer(limit)));
        let now = self.store.environment.now();
        let mut open = lock(&self.open);
        match opened {
            Err(why) => {
                open.failed = Some((now, why.clone()));
                Err(why)
            }
            Ok(link) => {
                let link = Arc::new(link);
                if !open.is_closed {
                    open.link = Some(Arc::clone(&link));
                }
                Ok(link)
            }
        }
    }

    /// The open connection, unless the server has closed it.
    fn known(&self) -> Option<Arc<Link>> {
        lock(&self.open).link.clone().filter(|link| !link.has_ended())
    }

    /// Time limit for connecting, and for a call, as other stores have it.
    pub(super) fn limit(&self) -> Duration {
        self.store.limits.timeout * 5 / 4
    }

    /// A call on this connection failed, so nobody uses it again.
    pub(super) fn forget(&self, link: &Arc<Link>) {
        let mut open = lock(&self.open);
        if open.link.as_ref().is_some_and(|known| Arc::ptr_eq(known, link)) {
            open.link = None;
        }
    }

    /// Whether it is known well enough that the connection leads to the primary.
    fn is_confirmed(&self, link: &Link) -> bool {
        let confirmed = *lock(&link.confirmed);
        self.store.place.sentinel.is_none() || self.store.environment.since(confirmed) < CONFIRMED
    }

    /// Whether the Sentinels name another primary than the one at the other end.
    async fn has_moved(&self, link: &Link) -> Result<bool, String> {
        let now = self.store.environment.now();
        let has_moved = self.primary(self.connector().await?.as_ref()).await? != link.server;
        // Other calls use a connection that is confirmed without waiting for their turn.
        if !has_moved {
            *lock(&link.confirmed) = now;
        }
        Ok(has_moved)
    }

    /// The server, or the primary that the Sentinels name.
    async fn primary(&self, tls: Option<&TlsConnector>) -> Result<RedisServer, String> {
        let RedisStore { place, sentinel_password, limits, .. } = &self.store;
        match (&place.sentinel, place.servers.first()) {
            (Some(name), _) => {
                let password = sentinel_password.as_ref();
                let limits = (self.store.environment.now(), limits.timeout);
                sentinel::primary(place, name, tls, password, limits).await
            }
            (None, Some(server)) => Ok(server.clone()),
            (None, None) => Err("redis.servers is empty".to_owned()),
        }
    }

    /// How to encrypt. Reading certificates may take a while.
    async fn connector(&self) -> Result<Option<TlsConnector>, String> {
        let Some(files) = self.store.place.tls.clone() else { return Ok(None) };
        let read = tokio::task::spawn_blocking(move || files.connector()).await;
        read.map_err(|error| error.to_string())?.map(Some)
    }

    pub(super) fn close(&self) {
        let mut open = lock(&self.open);
        (open.link, open.is_closed) = (None, true);
    }

    /// A new connection to the right server, which may be used.
    ///
    /// # Errors
    /// Why there is none, for users.
    pub(super) async fn open_checked(&self) -> Result<Link, String> {
        let (link, _) = self.open_and_look().await?;
        let identity = self.identity_on(&link).await?;
        self.guard.check(identity, None).await.map_err(|unusable| unusable.to_string())?;
        self.tell(link.durability().await);
        Ok(link)
    }

    /// A new connection to a server that may be used as a store.
    ///
    /// # Errors
    /// Why there is none, for users.
    pub(super) async fn open_and_look(&self) -> Result<(Link, ServerInfo), String> {
        let (link, info) = self.open_unjudged().await?;
        match info.refusal() {
            Some(refusal) => Err(refusal),
            None => Ok((link, info)),
        }
    }

    /// A new connection to whatever is there.
    async fn open_unjudged(&self) -> Result<(Link, ServerInfo), String> {
        let RedisStore { place, password, environment, .. } = &self.store;
        let tls = self.connector().await?;
        let asked = environment.now();
        let found = self.primary(tls.as_ref()).await?;
        let login = Login {
            user: place.user.as_deref(),
            password: password.as_ref(),
            database: place.database,
        };
        let of = |why: String| match &place.sentinel {
            Some(_) => format!("{found}: {why}"),
            None => why,
        };
        let link = Link::open(&found, tls.as_ref(), login, asked).await.map_err(of)?;
        let info = link.info().await.map_err(|error| of(told(&error)))?;
        Ok((link, info))
    }

    /// Which Redis this is. One that has never been used gets its identity now.
    pub(super) async fn identity_on(
        &self,
        link: &Link,
    ) -> Result<Option<DatabaseIdentity>, String> {
        let keys = &self.store.place.keys;
        let parsed = |text: String| {
            let identity = text.trim().parse::<DatabaseIdentity>();
            identity.map_err(|error| format!("the key {}: {error}", keys.identity()))
        };
        let mut get = redis::cmd("GET");
        get.arg(keys.identity());
        let found: Option<String> =
            get.query_async(&mut link.connection()).await.map_err(|error| told(&error))?;
        match found {
            None if !self.guard.expects_identity() => {
                let made = DatabaseIdentity::random(&self.store.environment);
                let made = made.map_err(|error| format!("no random bytes: {error}"))?;
                // Another host may have been faster.
                let found = identify(&mut link.connection(), keys, made).await;
                parsed(found.map_err(|error| told(&error))?).map(Some)
            }
            None => Ok(None),
            Some(text) => parsed(text).map(Some),
        }
    }

    /// Logs what a crash of the server can lose, once.
    fn tell(&self, durability: Durability) {
        let mut told = lock(&self.told);
        if told.as_ref() == Some(&durability) {
            return;
        }
        if let Some((lost, remedy)) = durability.loss() {
            let store = self.store.place.to_string();
            let (settings, margin) = (durability.settings(), self.store.place.margin);
            let text = format!(
                "{settings}: a crash of Redis loses {lost}. leafd then skips {margin} minutes' use of each \
                 counter (redis.margin); if more is lost, IDs come twice. Set {remedy}"
            );
            if durability.is_every_second() && margin > 0 {
                tracing::info!(store, "{text}");
            } else {
                tracing::warn!(store, "{text}");
            }
        }
        *told = Some(durability);
    }
}

pub(super) fn no_answer(within: Duration) -> String {
    format!("no answer within {} ms (store.timeout)", within.as_millis())
}
