//! The database, the fleet in it, and the times of a session: what a session is opened with.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::config::{Config, RegistryDatabase};
use crate::state::mark::FileMark;
use crate::store::SharedOptions;

/// The way to this address tells the address of a daemon whose fleet is on this host alone. Nothing is sent.
const THIS_HOST: &str = "127.0.0.1:9";

#[derive(Debug, Clone)]
pub(crate) struct DatabaseAccess {
    pub(super) place: DatabasePlace,
    /// `HOST:PORT` of the server; none for a Unix socket.
    pub(super) servers: Vec<String>,
    /// The fleet.
    pub(super) name: String,
    /// An instance that has not refreshed its live marker for this long counts as gone.
    pub(crate) session_timeout: Duration,
    /// A call fails after this.
    pub(crate) timeout: Duration,
    /// What the fleet has to agree on, as configuration writes it.
    pub(crate) layout: String,
}

/// Where the table is. Prints without a password.
#[derive(Debug, Clone)]
pub(super) enum DatabasePlace {
    File(PathBuf),
    Server { described: String, options: Box<SharedOptions> },
}

impl fmt::Display for DatabasePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "sqlite {}", path.display()),
            Self::Server { described, .. } => f.write_str(described),
        }
    }
}

impl DatabaseAccess {
    /// As configured; `credentials` is the folder in which the service manager puts secrets.
    ///
    /// # Errors
    /// What is wrong with the configuration, or with the file of the password.
    pub(crate) fn new(config: &Config, credentials: Option<&Path>) -> Result<Self, String> {
        let database = config.registry_database().map_err(|problem| problem.to_string())?;
        let (place, servers) = match database {
            RegistryDatabase::File(path) => (DatabasePlace::File(path), vec![THIS_HOST.to_owned()]),
            RegistryDatabase::Server(address) => {
                let password = config.database_password(credentials);
                let password = password.map_err(|error| error.to_string())?;
                let options = address.options(password.as_ref());
                let options = Box::new(options.map_err(|error| error.to_string())?);
                let described = address.to_string();
                let servers = address.server().into_iter().collect();
                (DatabasePlace::Server { described, options }, servers)
            }
        };
        Ok(Self {
            place,
            servers,
            name: config.database.name.clone(),
            session_timeout: config.database.session_timeout,
            timeout: config.database.timeout,
            layout: config.snowflake.layout.to_string(),
        })
    }

    /// What the worker file calls this fleet. Each file has fleets of its own.
    pub(super) fn registry_name(&self) -> String {
        match &self.place {
            DatabasePlace::File(path) => format!("database {} in {}", self.name, path.display()),
            DatabasePlace::Server { .. } => format!("database {}", self.name),
        }
    }

    pub(super) const fn is_file(&self) -> bool {
        matches!(self.place, DatabasePlace::File(_))
    }
}

impl DatabaseAccess {
    /// The mark of the file, which another file at its place does not have. None for a server.
    pub(super) fn file_mark(&self) -> Option<FileMark> {
        match &self.place {
            DatabasePlace::File(path) => std::fs::metadata(path).ok().map(|it| FileMark::of(&it)),
            DatabasePlace::Server { .. } => None,
        }
    }
}
