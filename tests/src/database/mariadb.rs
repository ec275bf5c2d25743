//! MariaDB, as Debian's package `mariadb-server` has it.

use std::path::Path;
use std::process::Command;

use nix::sys::signal::Signal;

use leafd::store::schema;

use super::product::{Product, encode};

/// Small, since many servers run at once. Without syncs, since a slow disk would delay every lease:
/// tests kill the server, not the machine, and the kernel keeps what a killed server wrote. The
/// installation needs the same options, since they determine the files.
const FILES: [&str; 7] = [
    "--innodb-log-file-size=4M",
    "--innodb-buffer-pool-size=8M",
    "--innodb-temp-data-file-path=ibtmp1:1M:autoextend",
    // The kernel has few contexts for asynchronous IO, and all containers share them.
    "--innodb-use-native-aio=0",
    "--skip-name-resolve",
    "--innodb-flush-log-at-trx-commit=2",
    "--innodb-flush-method=nosync",
];

#[derive(Debug)]
pub(crate) struct MariaDb;

impl Product for MariaDb {
    fn name(&self) -> &'static str {
        "mariadb"
    }

    fn account(&self) -> &'static str {
        "mysql"
    }

    fn version(&self) -> Command {
        let mut command = Command::new("mariadbd");
        command.args(["--no-defaults", "--version"]);
        command
    }

    fn install(&self, data: &Path) -> Command {
        let mut command = Command::new("mariadb-install-db");
        command
            .args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"])
            .args(FILES)
            .arg(format!("--datadir={}", data.display()));
        command
    }

    fn serve(&self, folder: &Path, port: u16) -> Command {
        let within = |name: &str| folder.join(name).display().to_string();
        let mut command = Command::new("mariadbd");
        command
            .arg("--no-defaults")
            .args(FILES)
            .arg(format!("--datadir={}", within("data")))
            .arg(format!("--tmpdir={}", within("tmp")))
            .arg(format!("--socket={}", within("socket")))
            .arg(format!("--pid-file={}", within("pid")))
            .arg(format!("--port={port}"))
            .args(["--bind-address=127.0.0.1", "--performance-schema=off", "--skip-log-bin"])
            .args(["--key-buffer-size=1M", "--aria-pagecache-buffer-size=1M"]);
        command
    }

    fn stop_signal(&self) -> Signal {
        Signal::SIGTERM
    }

    fn quit_signal(&self) -> Signal {
        Signal::SIGKILL
    }

    fn url(&self, port: u16, database: &str) -> String {
        format!("mysql://leaf:secret@127.0.0.1:{port}/{database}")
    }

    fn superuser_url(&self, folder: &Path, _port: u16, database: &str) -> String {
        format!("mysql://root@localhost/{database}?socket={}", encode(&folder.join("socket")))
    }

    fn first_database(&self) -> &'static str {
        "mysql"
    }

    fn create_user(&self) -> &'static [&'static str] {
        &[
            "DELETE FROM mysql.global_priv WHERE Host <> 'localhost'",
            "FLUSH PRIVILEGES",
            "CREATE USER leaf IDENTIFIED VIA mysql_native_password USING PASSWORD('secret')",
        ]
    }

    fn create_database(&self, name: &str) -> String {
        format!("CREATE DATABASE {name} CHARACTER SET utf8mb4")
    }

    fn prepare_database(&self) -> &'static [&'static str] {
        &[
            // Rights on a table that does not exist yet can only be granted together with CREATE.
            // They have to be rights on the table, since open connections do not notice a change of
            // the rights on the database.
            "GRANT SELECT, INSERT, UPDATE, CREATE ON leaf_alloc TO leaf",
            "REVOKE CREATE ON leaf_alloc FROM leaf",
            // A user without any right in a database cannot even connect to it.
            "GRANT CREATE TEMPORARY TABLES ON * TO leaf",
        ]
    }

    fn create_table(&self) -> &'static str {
        schema::MARIADB
    }

    fn quote(&self, text: &str) -> String {
        format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
    }
}
