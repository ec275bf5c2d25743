//! What is to be seen of leafd from the side of the database: its connections, and what they wait for
//! or hold.

use leafd::store::ServerKind;

use super::{Bench, Place};

impl Bench {
    /// How many connections leafd has, as the server sees it; or whether this process has the file
    /// open. SQLite closes it for all handles of a process at once, to keep their locks.
    #[must_use]
    pub fn connections(&self) -> usize {
        match &self.0 {
            Place::File(_) => usize::from(self.is_open()),
            Place::Server(_) => self.sessions().len(),
        }
    }

    /// What the server calls the connections of leafd.
    ///
    /// # Panics
    /// When the store is embedded.
    #[must_use]
    pub fn sessions(&self) -> Vec<String> {
        let sessions = self.by_kind(
            "",
            "SELECT id FROM information_schema.processlist WHERE user = 'leaf' AND db",
            "SELECT pid FROM pg_stat_activity WHERE usename = 'leaf' AND datname",
        );
        let rows = self.query(&format!("{sessions} = '{}'", self.database().name()));
        rows.into_iter().flatten().flatten().collect()
    }

    /// How many of them wait for a lock.
    ///
    /// # Panics
    /// When the store is embedded.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.busy("LOCK WAIT", "wait_event_type = 'Lock'")
    }

    /// How many of them are within a transaction.
    ///
    /// # Panics
    /// When the store is embedded.
    #[must_use]
    pub fn transactions(&self) -> usize {
        self.busy(", ACTIVE", "xact_start IS NOT NULL")
    }

    fn busy(&self, mariadb: &str, postgres: &str) -> usize {
        let sessions = self.sessions();
        match self.speaks() {
            // Its table innodb_trx shows old news for as long as somebody looks often.
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
