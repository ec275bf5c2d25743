//! leafd's connections as the database server sees them, and the locks that they hold or wait for.

use leafd::store::ServerKind;

use super::{Place, TestStore};
use crate::store_server::StoreServer;

impl TestStore {
    /// The number of leafd's connections to the server. For an embedded store, 1 if this process has the
    /// file open: SQLite closes it for all handles of a process at once, to keep their locks.
    #[must_use]
    pub fn connections(&self) -> usize {
        match &self.0 {
            Place::File(_) => usize::from(self.is_open()),
            Place::Server(_) => self.sessions().len(),
        }
    }

    /// The server's IDs of leafd's connections.
    #[must_use]
    pub fn sessions(&self) -> Vec<String> {
        if let Some(redis) = self.as_redis() {
            return redis.sessions();
        }
        let sessions = self.by_kind(
            "",
            "SELECT id FROM information_schema.processlist WHERE user = 'leaf' AND db",
            "SELECT pid FROM pg_stat_activity WHERE usename = 'leaf' AND datname",
        );
        let rows = self.query(&format!("{sessions} = '{}'", self.database().name()));
        rows.into_iter().flatten().flatten().collect()
    }

    /// Ends one of leafd's connections at the server.
    pub fn end_session(&self, session: &str) {
        match self.server() {
            StoreServer::Sql(_) | StoreServer::Several(_) => drop(self.query(&self.by_kind(
                String::new(),
                format!("KILL {session}"),
                format!("SELECT pg_terminate_backend({session})"),
            ))),
            StoreServer::Redis(redis) => {
                redis.run(&["CLIENT", "KILL", "ID", session]);
            }
        }
    }

    /// How many of leafd's connections wait for a lock.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.busy("LOCK WAIT", "wait_event_type = 'Lock'")
    }

    /// How many of leafd's connections are inside a transaction.
    #[must_use]
    pub fn transactions(&self) -> usize {
        self.busy(", ACTIVE", "xact_start IS NOT NULL")
    }

    fn busy(&self, mariadb: &str, postgres: &str) -> usize {
        let sessions = self.sessions();
        match self.speaks() {
            // The table innodb_trx is outdated for as long as it is queried often.
            ServerKind::MySql => {
                let status = self.query("SHOW ENGINE INNODB STATUS");
                let status = status.into_iter().flatten().flatten().next_back().expect("a text");
                let transactions = status.split("---TRANSACTION").filter(|of| of.contains(mariadb));
                let of_leafd = |of: &&str| {
                    let id = of.split_once("thread id ").and_then(|(_, rest)| rest.split_once(','));
                    id.is_some_and(|(id, _)| sessions.iter().any(|session| session == id))
                };
                transactions.filter(of_leafd).count()
            }
            ServerKind::Postgres => {
                let busy = format!("SELECT pid FROM pg_stat_activity WHERE {postgres}");
                let busy = self.query(&busy).into_iter().flatten().flatten();
                busy.filter(|pid| sessions.contains(pid)).count()
            }
        }
    }

    fn is_open(&self) -> bool {
        let path = self.path().canonicalize().expect("the file");
        let mut files = std::fs::read_dir("/proc/self/fd").expect("/proc").flatten();
        files.any(|file| file.path().read_link().is_ok_and(|open| open == path))
    }
}
