//! The differences between the database servers: how they are installed, started and stopped, and
//! their SQL.

use std::path::Path;
use std::process::Command;

use nix::sys::signal::Signal;

/// A kind of database server.
pub(crate) trait Product: Sync {
    /// The name of the server in files and messages.
    fn name(&self) -> &'static str;

    /// The account that the server runs as when the tests run as root.
    fn account(&self) -> &'static str;

    /// The command that prints the server's version.
    fn version(&self) -> Command;

    /// The command that initialises a new server in the empty folder `data`.
    fn install(&self, data: &Path) -> Command;

    /// Completes the installation before the first start.
    fn configure(&self, _data: &Path) {}

    /// The command that runs the server in the foreground, with no settings but these.
    fn serve(&self, folder: &Path, port: u16) -> Command;

    /// Makes the server stop without waiting for its clients.
    fn stop_signal(&self) -> Signal;

    /// Makes the server end at once, together with its children.
    fn quit_signal(&self) -> Signal;

    /// The URL of a database for the user `leaf`.
    fn url(&self, port: u16, database: &str) -> String;

    /// The URL of a database for the superuser: through a socket in the folder, which nobody else can
    /// reach, and so without a password.
    fn superuser_url(&self, folder: &Path, port: u16, database: &str) -> String;

    /// A database that a new server has.
    fn first_database(&self) -> &'static str;

    /// Creates the user `leaf`, and closes TCP to superusers without a password.
    fn create_user(&self) -> &'static [&'static str];

    /// Creates a database.
    fn create_database(&self, name: &str) -> String;

    /// Run in a new database: gives `leaf` its rights on the tables that will be created there.
    fn prepare_database(&self) -> &'static [&'static str];

    /// Creates leafd's tables.
    fn create_table(&self) -> &'static str;

    /// A string literal in SQL.
    fn quote(&self, text: &str) -> String;
}

/// Encodes a path for a URL.
pub(crate) fn encode(path: &Path) -> String {
    path.as_os_str().as_encoded_bytes().iter().map(|byte| format!("%{byte:02X}")).collect()
}
