//! PostgreSQL, as Debian's package `postgresql` has it.

use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::Signal;

use leafd::store::schema;

use super::product::{Product, encode};

/// Lets clients in through the socket in the folder, or by TCP with a password.
const ACCESS: &str = "\
local all all trust
host  all all 127.0.0.1/32 scram-sha-256
";

#[derive(Debug)]
pub(crate) struct Postgres;

/// A program of the newest installed version. Debian keeps them out of the PATH.
pub(super) fn program(name: &str) -> Command {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let number = |path: &PathBuf| -> Option<u32> { path.file_name()?.to_str()?.parse().ok() };
    let newest = versions.map(|version| version.path()).max_by_key(number);
    let installed = newest.map(|version| version.join("bin").join(name));
    Command::new(installed.filter(|path| path.exists()).unwrap_or_else(|| name.into()))
}

impl Product for Postgres {
    fn name(&self) -> &'static str {
        "postgres"
    }

    fn account(&self) -> &'static str {
        "postgres"
    }

    fn version(&self) -> Command {
        let mut command = program("postgres");
        command.arg("--version");
        command
    }

    fn install(&self, data: &Path) -> Command {
        let mut command = program("initdb");
        command
            .arg("--pgdata")
            .arg(data)
            .args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-locale"])
            .args(["--wal-segsize=1", "--no-sync"]);
        command
    }

    fn configure(&self, data: &Path) {
        std::fs::write(data.join("pg_hba.conf"), ACCESS).expect("pg_hba.conf");
    }

    fn serve(&self, folder: &Path, port: u16) -> Command {
        let mut command = program("postgres");
        command.arg("-D").arg(folder.join("data")).arg("-k").arg(folder);
        command.args(["-h", "127.0.0.1", "-p", &port.to_string()]);
        // Small, since many servers run at once. Without syncs, since a slow disk would delay every
        // lease: tests kill the server, not the machine, and the kernel keeps what a killed server
        // wrote. Shared memory is in the folder, so that removing that removes it too.
        for setting in [
            "fsync=off",
            "shared_buffers=2MB",
            "max_connections=100",
            "dynamic_shared_memory_type=mmap",
            "min_wal_size=4MB",
            "max_wal_size=16MB",
            "autovacuum=off",
        ] {
            command.args(["-c", setting]);
        }
        command
    }

    fn stop_signal(&self) -> Signal {
        Signal::SIGINT
    }

    fn quit_signal(&self) -> Signal {
        Signal::SIGQUIT
    }

    fn url(&self, port: u16, database: &str) -> String {
        format!("postgres://leaf:secret@127.0.0.1:{port}/{database}")
    }

    fn superuser_url(&self, folder: &Path, port: u16, database: &str) -> String {
        format!("postgres://postgres@localhost:{port}/{database}?host={}", encode(folder))
    }

    fn first_database(&self) -> &'static str {
        "postgres"
    }

    fn create_user(&self) -> &'static [&'static str] {
        &["CREATE ROLE leaf LOGIN PASSWORD 'secret'"]
    }

    fn create_database(&self, name: &str) -> String {
        format!("CREATE DATABASE {name}")
    }

    fn prepare_database(&self) -> &'static [&'static str] {
        &["ALTER DEFAULT PRIVILEGES GRANT SELECT, INSERT, UPDATE ON TABLES TO leaf"]
    }

    fn create_table(&self) -> &'static str {
        schema::POSTGRES
    }

    fn quote(&self, text: &str) -> String {
        format!("'{}'", text.replace('\'', "''"))
    }
}
