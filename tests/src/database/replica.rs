//! A replica that follows a server asynchronously, and can be promoted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::server::Server;
use super::{Database, Extra, Kind, postgres, template};
use crate::instance::Home;

/// The ID of the next replica. Replication needs different ones.
static SERVER: AtomicU32 = AtomicU32::new(2);

impl Database {
    /// Starts a server for this test alone that replicas can follow, with an empty database.
    #[must_use]
    pub fn start_primary(kind: Kind) -> Self {
        match kind {
            Kind::MariaDb => {
                let arguments = &["--log-bin=bin", "--server-id=1"];
                let primary = Self::start_with(kind, Extra { arguments, ..Extra::default() });
                primary.sql("CREATE USER copy IDENTIFIED BY 'copy'");
                primary.sql("GRANT REPLICATION SLAVE ON *.* TO copy");
                primary
            }
            Kind::Postgres => {
                let primary = Self::start(kind);
                primary.sql(
                    "COPY (SELECT 'host replication all 127.0.0.1/32 trust') \
                     TO PROGRAM 'cat >> pg_hba.conf'",
                );
                primary.sql("SELECT pg_reload_conf()");
                primary
            }
        }
    }

    /// Starts a replica, which reaches this server at `port`. It is read-only, and no commit waits for it.
    #[must_use]
    pub fn start_replica(&self, port: u16) -> Self {
        let product = self.server.product();
        let server = match self.kind {
            Kind::MariaDb => {
                // Its own log has all that it gets, so that others can follow it once it is promoted.
                let id = format!("--server-id={}", SERVER.fetch_add(1, Ordering::Relaxed));
                let arguments = &[&*id, "--read-only", "--log-bin=bin", "--log-slave-updates"];
                let server = Server::start(product, Extra { arguments, ..Extra::default() });
                let mut session = server.session(product.first_database());
                session.execute(&format!(
                    "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {port}, \
                     MASTER_USER = 'copy', MASTER_PASSWORD = 'copy'"
                ));
                session.execute("START SLAVE");
                server
            }
            Kind::Postgres => {
                let home = Home::new(product.account());
                let mut copy = postgres::program("pg_basebackup");
                copy.arg("-D").arg(home.data()).args(["-p", &port.to_string()]);
                copy.args(["-h", "127.0.0.1", "-U", "postgres", "--checkpoint=fast"]);
                copy.args(["--no-sync", "--write-recovery-conf"]);
                template::run(&home, copy);
                Server::serve(product, home, &[])
            }
        };
        Self { server: Arc::new(server), kind: self.kind, name: self.name.clone() }
    }

    /// Makes a primary of a replica.
    pub fn promote(&self) {
        let statements = match self.kind {
            Kind::MariaDb => {
                &["STOP SLAVE", "RESET SLAVE ALL", "SET GLOBAL read_only = 0"] as &[&str]
            }
            Kind::Postgres => &["SELECT pg_promote()"],
        };
        statements.iter().for_each(|statement| self.sql(statement));
    }
}
