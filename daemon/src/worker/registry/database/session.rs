//! A session with the registry's database, over one connection. After a failure it has ended.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::AbortHandle;

use super::access::DatabaseAccess;
use super::calls::{Reply, SessionCore, lock, no_answer};
use super::commit;
use super::link::{Link, Trouble, Value};
use super::reading::Row;
use super::statements::{SqlKind, Statements};
use crate::environment::Environment;
use crate::worker::claim::name::NodeName;
use crate::worker::claim::quiet::Vantage;
use crate::worker::claim::record::{FleetRecord, FreeRecord, LeafRecord, LiveRecord};
use crate::worker::claim::view::WorkerEntry;
use crate::worker::claim::write::{Key, RegistryRecord, RegistryWrite};
use crate::worker::registry::{
    Answer, Found, FoundAt, RegistryClock, RegistryError, RegistrySession, tree,
};

/// How often leafd looks for markers of instances that have gone, which it removes.
const CLEANING: Duration = Duration::from_secs(60);

pub(crate) struct DatabaseSession {
    core: Arc<SessionCore>,
    keeper: AbortHandle,
}

impl Drop for DatabaseSession {
    fn drop(&mut self) {
        self.keeper.abort();
        let core = Arc::clone(&self.core);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let link = core.link.lock().await.take();
                if let Some(link) = link {
                    let _ = tokio::time::timeout(core.access.timeout, link.close()).await;
                }
            });
        }
    }
}

impl DatabaseSession {
    /// Opens a session. Writes nothing, unless a file may be made.
    ///
    /// # Errors
    /// When the database does not answer in time, or refuses.
    pub(crate) async fn open(
        access: &DatabaseAccess,
        environment: &Environment,
        may_create: bool,
    ) -> Result<Self, RegistryError> {
        let failed = |why: String| RegistryError::Failed(format!("{}: {why}", access.place));
        let mut id = [0; 8];
        environment.fill_random(&mut id).map_err(|error| failed(error.to_string()))?;
        let limit = access.timeout * 2;
        let before = access.file_mark();
        let link = tokio::time::timeout(limit, Link::open(access, may_create)).await;
        let link = link.map_err(|_| failed(no_answer(limit)))?.map_err(|error| {
            failed(if access.is_file() {
                format!("{error}; database.path has to be a file in a folder that leafd may write")
            } else {
                error.to_string()
            })
        })?;
        let file = access.file_mark();
        // Nobody knows which of two files was opened.
        if access.is_file() && (file.is_none() || before.is_some() && before != file) {
            return Err(failed("the file was replaced or removed (database.path)".to_owned()));
        }
        let core = SessionCore {
            statements: Statements::new(SqlKind::of(&access.place), access.timeout),
            file,
            access: access.clone(),
            environment: environment.clone(),
            id: i64::from_ne_bytes(id),
            link: tokio::sync::Mutex::new(Some(link)),
            is_open: AtomicBool::new(true),
            disturbances: AtomicU64::new(0),
            markers: Mutex::default(),
            own: Mutex::default(),
        };
        let core = Arc::new(core);
        let keeper = tokio::spawn(keep(Arc::clone(&core))).abort_handle();
        Ok(Self { core, keeper })
    }

    pub(super) fn id(&self) -> i64 {
        self.core.id
    }

    /// A call that reads.
    fn read<T: Send + 'static>(
        &self,
        work: impl for<'a> FnOnce(&'a SessionCore, &'a mut Link) -> Reply<'a, T> + Send + 'static,
    ) -> Answer<'_, T> {
        Box::pin(Arc::clone(&self.core).call(false, work))
    }

    /// A call that may write.
    fn write<T: Send + 'static>(
        &self,
        work: impl for<'a> FnOnce(&'a SessionCore, &'a mut Link) -> Reply<'a, T> + Send + 'static,
    ) -> Answer<'_, T> {
        Box::pin(Arc::clone(&self.core).call(true, work))
    }
}

/// Gives signs of life, and removes the markers of those who give none, until the session fails.
async fn keep(core: Arc<SessionCore>) {
    let pause = core.access.session_timeout / 3;
    let mut cleaned_ms = core.environment.boot_ms();
    loop {
        tokio::time::sleep(pause).await;
        let now_ms = core.environment.boot_ms();
        let mut due = lock(&core.own).clone();
        due.retain(|_, beaten_ms| {
            u128::from(now_ms.saturating_sub(*beaten_ms)) >= pause.as_millis()
        });
        let mut outcome = Ok(());
        for path in due.into_keys() {
            let beat = Arc::clone(&core).call(true, |core, link| Box::pin(core.beat(link, path)));
            outcome = outcome.and(beat.await);
        }
        if u128::from(now_ms.saturating_sub(cleaned_ms)) >= CLEANING.as_millis() {
            cleaned_ms = now_ms;
            let live = Arc::clone(&core).call(true, |core, link| Box::pin(core.live(link)));
            outcome = outcome.and(live.await.map(drop));
        }
        if outcome.is_err() && !core.is_open.load(Ordering::Relaxed) {
            return;
        }
    }
}

impl SessionCore {
    async fn clock(&self, link: &mut Link) -> Result<RegistryClock, Trouble> {
        // A write: a server that cannot write does not tell the time.
        let name = Value::Text(&self.access.name);
        if link.change(&self.statements.count, &[name]).await? == 0 {
            return Err(Trouble::Conflict);
        }
        let rows = link.rows(&self.statements.server, &[]).await?;
        let row = rows.into_iter().next().unwrap_or_default();
        let [now_ms, server] = row.as_slice() else {
            return Err(Trouble::Failed("it does not tell the time".to_owned()));
        };
        let now_ms = now_ms.split('.').next().and_then(|text| text.parse().ok());
        let now_ms = now_ms.ok_or_else(|| Trouble::Failed("it does not tell the time".into()))?;
        Ok(RegistryClock { now_ms, epoch: i64::from(crc32fast::hash(server.as_bytes())) })
    }

    async fn commit(&self, link: &mut Link, writes: &[RegistryWrite]) -> Result<(), Trouble> {
        commit::commit(self, link, writes).await?;
        let now_ms = self.environment.boot_ms();
        let mut own = lock(&self.own);
        for write in writes {
            match write {
                RegistryWrite::Create(record @ RegistryRecord::Live(..)) => {
                    own.insert(tree::path(&record.key()), now_ms);
                }
                RegistryWrite::Delete(key @ Key::Live(_), _) => {
                    own.remove(&tree::path(key));
                }
                RegistryWrite::Check(key @ Key::Live(_), _) => {
                    if let Some(beaten_ms) = own.get_mut(&tree::path(key)) {
                        *beaten_ms = now_ms;
                    }
                }
                _ => {}
            }
        }
        drop(own);
        Ok(())
    }
}

impl RegistrySession for DatabaseSession {
    fn is_connected(&self) -> bool {
        self.core.is_open.load(Ordering::Relaxed)
    }

    fn prepare(&self) -> Answer<'_, ()> {
        self.write(|core, link| Box::pin(commit::prepare(core, link)))
    }

    fn clock(&self) -> Answer<'_, RegistryClock> {
        self.write(|core, link| Box::pin(core.clock(link)))
    }

    fn vantage(&self, epoch: i64) -> Vantage {
        Vantage {
            session: self.core.id,
            disturbances: self.core.disturbances.load(Ordering::Relaxed),
            epoch,
            session_ms: u64::try_from(self.core.lasts_ms()).unwrap_or(u64::MAX),
        }
    }

    fn fleet(&self) -> Answer<'_, Option<Found<FleetRecord>>> {
        self.read(|core, link| {
            Box::pin(async {
                let values = [Value::Text(&core.access.name), Value::Text(tree::LEAFD)];
                let rows = link.rows(&core.statements.record, &values).await?;
                let row = rows.into_iter().next().map(Row::read).transpose()?;
                Ok(row.map(|row| row.versioned()))
            })
        })
    }

    fn owned(&self) -> Answer<'_, (Vec<NodeName>, u64)> {
        self.read(|core, link| {
            Box::pin(async {
                let names = core.names(link, tree::FOREVER).await?;
                Ok((names, commit::fleet(core, link).await?.1))
            })
        })
    }

    fn live(&self) -> Answer<'_, Vec<NodeName>> {
        self.write(|core, link| Box::pin(core.live(link)))
    }

    fn free(&self) -> Answer<'_, Vec<NodeName>> {
        self.read(|core, link| Box::pin(core.names(link, tree::FREE)))
    }

    fn entries<'a>(&'a self, names: &'a [NodeName]) -> Answer<'a, Vec<WorkerEntry>> {
        let names = names.to_vec();
        self.read(|core, link| Box::pin(core.entries(link, names)))
    }

    fn live_records<'a>(&'a self, names: &'a [NodeName]) -> Answer<'a, FoundAt<LiveRecord>> {
        let names = names.to_vec();
        self.read(|core, link| Box::pin(core.each(link, tree::TEMPORARY, names, Key::live)))
    }

    fn free_records<'a>(&'a self, names: &'a [NodeName]) -> Answer<'a, FoundAt<FreeRecord>> {
        let names = names.to_vec();
        self.read(|core, link| Box::pin(core.each(link, tree::FREE, names, Key::free)))
    }

    fn create<'a>(&'a self, identity: &'a str, leaf: &'a LeafRecord) -> Answer<'a, NodeName> {
        let (identity, leaf) = (identity.to_owned(), leaf.clone());
        self.write(|core, link| {
            Box::pin(async move { commit::create(core, link, &identity, &leaf).await })
        })
    }

    fn commit<'a>(&'a self, writes: &'a [RegistryWrite]) -> Answer<'a, ()> {
        let writes = writes.to_vec();
        self.write(|core, link| Box::pin(async move { core.commit(link, &writes).await }))
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
