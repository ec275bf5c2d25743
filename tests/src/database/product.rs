//! What is different between the servers: how they are installed, started and stopped, and their
//! SQL.

use std::path::Path;
use std::process::Command;

use nix::sys::signal::Signal;

/// A database server as a program.
pub(crate) trait Product: Sync {
    /// Its name, for files and messages.
    fn name(&self) -> &'static str;

    /// The account that it runs with when the tests run as root.
    fn account(&self) -> &'static str;

    /// A program that says its version.
    fn version(&self) -> Command;

    /// A program that makes a new instance in the empty folder `data`.
    fn install(&self, data: &Path) -> Command;

    /// What the installation needs beyond that, before the first start.
    fn configure(&self, _data: &Path) {}

    /// The server. It stays in the foreground, and takes only what it is told here.
    fn serve(&self, folder: &Path, port: u16) -> Command;

    /// Asks it to stop, without waiting for its clients.
    fn stop_signal(&self) -> Signal;

    /// Ends it at once, together with its children.
    fn quit_signal(&self) -> Signal;

    /// Where the user `leaf` finds a database.
    fn url(&self, port: u16, database: &str) -> String;

    /// Where the superuser finds it: by a socket in the folder, which nobody else can reach, and
    /// so without a password.
    fn superuser_url(&self, folder: &Path, port: u16, database: &str) -> String;

    /// A database that the superuser finds in a new instance.
    fn first_database(&self) -> &'static str;

    /// Makes the user `leaf`, and leaves no superuser who may come without a password by TCP.
    fn create_user(&self) -> &'static [&'static str];

    /// Makes a database…
    fn create_database(&self, name: &str) -> String;

    /// …and, within it, gives `leaf` its rights on a table that may come later.
    fn prepare_database(&self) -> &'static [&'static str];

    /// Makes Leaf's table.
    fn create_table(&self) -> &'static str;

    /// A string in SQL.
    fn quote(&self, text: &str) -> String;
}

/// A path in a URL.
pub(crate) fn encode(path: &Path) -> String {
    path.as_os_str().as_encoded_bytes().iter().map(|byte| format!("%{byte:02X}")).collect()
}
