//! Where a shared database is: a URL, checked in all its parts, so that a parameter with a typing
//! error is not ignored in silence. What may be told of it never holds a password.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use percent_encoding::percent_decode_str;
use sqlx::ConnectOptions as _;
use sqlx::mysql::{MySqlConnectOptions, MySqlSslMode};
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use url::Url;

use crate::secret::Secret;

/// The kinds of shared databases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerKind {
    /// MySQL and MariaDB.
    MySql,
    /// PostgreSQL.
    Postgres,
}

impl ServerKind {
    const fn schemes(self) -> &'static [&'static str] {
        match self {
            Self::MySql => &["mysql", "mariadb"],
            Self::Postgres => &["postgres", "postgresql"],
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::MySql => "mysql",
            Self::Postgres => "postgres",
        }
    }

    /// What a URL may say behind its question mark. `sqlx` ignores what it does not know.
    const fn parameters(self) -> &'static [&'static str] {
        match self {
            Self::MySql => {
                &["ssl-mode", "ssl-ca", "ssl-cert", "ssl-key", "socket", "statement-cache-capacity"]
            }
            Self::Postgres => &[
                "sslmode",
                "sslrootcert",
                "sslcert",
                "sslkey",
                "host",
                "application_name",
                "options",
            ],
        }
    }

    const fn port(self) -> u16 {
        match self {
            Self::MySql => 3306,
            Self::Postgres => 5432,
        }
    }

    /// How a URL of it looks.
    #[must_use]
    pub const fn example(self) -> &'static str {
        match self {
            Self::MySql => "mysql://leaf@db.example:3306/leaf",
            Self::Postgres => "postgres://leaf@db.example:5432/leaf",
        }
    }
}

/// A URL that cannot be meant. Never holds a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadAddress {
    /// It is none.
    #[error("it is no URL ({0}); write it as in {1}")]
    Syntax(String, &'static str),
    /// It is another database's.
    #[error("it begins with {0}:; write it as in {1}")]
    Scheme(String, &'static str),
    /// A part is missing.
    #[error("it names no {0}; write it as in {1}")]
    Missing(&'static str, &'static str),
    /// A parameter is not one.
    #[error("{0:?} is no parameter of it; these are: {1}")]
    Parameter(String, String),
    /// A value is not right.
    #[error("{0}")]
    Value(String),
}

/// A checked URL, and how the server's certificate is looked at.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreAddress {
    server: ServerKind,
    url: Url,
    verify: bool,
}

impl fmt::Debug for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What people are told: `mysql leaf@db.example:3306/leaf`.
impl fmt::Display for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}@{}", self.server.name(), self.user(), self.place())
    }
}

impl StoreAddress {
    /// Checks a URL. With `verify`, one that asks for TLS has the server's certificate and name
    /// checked, also when it asks for no more than encryption.
    ///
    /// # Errors
    /// When a part is missing, unknown or wrong.
    pub fn new(server: ServerKind, text: &str, verify: bool) -> Result<Self, BadAddress> {
        let example = server.example();
        let url = Url::parse(text).map_err(|why| BadAddress::Syntax(why.to_string(), example))?;
        if !server.schemes().contains(&url.scheme()) {
            return Err(BadAddress::Scheme(url.scheme().to_owned(), example));
        }
        for (key, _) in url.query_pairs() {
            if !server.parameters().contains(&&*key) {
                let known = server.parameters().join(", ");
                return Err(BadAddress::Parameter(key.into_owned(), known));
            }
        }
        let this = Self { server, url, verify };
        for (part, missing) in [
            ("host", this.host().is_empty()),
            ("user", this.user().is_empty()),
            ("database", this.database().is_empty()),
        ] {
            if missing {
                return Err(BadAddress::Missing(part, example));
            }
        }
        match server {
            ServerKind::MySql => this.mysql(None).map(drop)?,
            ServerKind::Postgres => this.postgres(None).map(drop)?,
        }
        this.check_tls()?;
        Ok(this)
    }

    /// Who names a certificate wants TLS, and gets it only by saying so.
    fn check_tls(&self) -> Result<(), BadAddress> {
        let asks = match self.server {
            ServerKind::MySql => matches!(
                self.mysql(None)?.get_ssl_mode(),
                MySqlSslMode::Required | MySqlSslMode::VerifyCa | MySqlSslMode::VerifyIdentity
            ),
            ServerKind::Postgres => matches!(
                self.postgres(None)?.get_ssl_mode(),
                PgSslMode::Require | PgSslMode::VerifyCa | PgSslMode::VerifyFull
            ),
        };
        match self.certificates().next() {
            Some((key, _)) if !asks => {
                let mode = match self.server {
                    ServerKind::MySql => "ssl-mode=REQUIRED",
                    ServerKind::Postgres => "sslmode=require",
                };
                Err(BadAddress::Value(format!("{key} is of no use without {mode}")))
            }
            _ => Ok(()),
        }
    }

    /// The files of certificates and keys, by the parameter that names each.
    pub fn certificates(&self) -> impl Iterator<Item = (String, PathBuf)> {
        let names = ["ssl-ca", "ssl-cert", "ssl-key", "sslrootcert", "sslcert", "sslkey"];
        let files = self.url.query_pairs().filter(move |(key, _)| names.contains(&&**key));
        files.map(|(key, path)| (key.into_owned(), PathBuf::from(path.into_owned())))
    }

    /// What it speaks.
    #[must_use]
    pub const fn server(&self) -> ServerKind {
        self.server
    }

    /// Whether the URL holds a password.
    #[must_use]
    pub fn has_password(&self) -> bool {
        self.url.password().is_some()
    }

    /// Which table it is: host, port, database; in PostgreSQL also what says in which schema, the
    /// user and the session's options. A needless difference costs a gap, a missed one duplicates.
    #[must_use]
    pub fn identity(&self) -> String {
        let mut identity = format!("{} {}", self.server.name(), self.place());
        if self.server == ServerKind::Postgres {
            identity.push_str(&format!(" user {}", self.user()));
            // They may also come from the environment.
            let options = self.postgres(None).ok();
            if let Some(options) = options.as_ref().and_then(PgConnectOptions::get_options) {
                identity.push_str(&format!(" options {options}"));
            }
        }
        identity
    }

    fn user(&self) -> String {
        decoded(self.url.username())
    }

    fn database(&self) -> String {
        decoded(self.url.path().trim_start_matches('/'))
    }

    fn host(&self) -> String {
        let socket = ["socket", "host"];
        let given = self.url.query_pairs().find(|(key, _)| socket.contains(&&**key));
        given.map_or_else(
            || decoded(self.url.host_str().unwrap_or_default()),
            |(_, path)| path.into_owned(),
        )
    }

    fn place(&self) -> String {
        let port = self.url.port().unwrap_or(self.server.port());
        let host = self.host();
        // A socket of MySQL has no port in its name.
        if self.server == ServerKind::MySql && host.starts_with('/') {
            return format!("{host}/{}", self.database());
        }
        format!("{host}:{port}/{}", self.database())
    }

    /// For a connection to MySQL or MariaDB.
    ///
    /// # Errors
    /// When a parameter has a wrong value.
    pub fn mysql(&self, password: Option<&Secret>) -> Result<MySqlConnectOptions, BadAddress> {
        let options = MySqlConnectOptions::from_url(&self.url).map_err(|error| value(&error))?;
        let options = match options.get_ssl_mode() {
            MySqlSslMode::Required if self.verify => options.ssl_mode(MySqlSslMode::VerifyIdentity),
            _ => options,
        };
        let options = match password {
            Some(password) => options.password(password.expose()),
            None => options,
        };
        // Whoever reads the log is told of failures by leafd, with the tag and the remedy.
        Ok(options.disable_statement_logging())
    }

    /// For a connection to PostgreSQL.
    ///
    /// # Errors
    /// When a parameter has a wrong value.
    pub fn postgres(&self, password: Option<&Secret>) -> Result<PgConnectOptions, BadAddress> {
        let options = PgConnectOptions::from_str(self.url.as_str());
        let options = options.map_err(|error| value(&error))?;
        // The URL says it all; libpq's variables in the environment are somebody else's.
        let options = options.port(self.url.port().unwrap_or(ServerKind::Postgres.port()));
        let says_mode = self.url.query_pairs().any(|(key, _)| key == "sslmode");
        let mode = if says_mode { options.get_ssl_mode() } else { PgSslMode::Prefer };
        let options = options.ssl_mode(match mode {
            PgSslMode::Require if self.verify => PgSslMode::VerifyFull,
            mode => mode,
        });
        // Poolers do not take every parameter at the start, and leafd reads no such number.
        let options = options.extra_float_digits(None);
        let options = match password {
            Some(password) => options.password(password.expose()),
            None => options,
        };
        let named = self.url.query_pairs().any(|(key, _)| key == "application_name");
        let options = if named { options } else { options.application_name("leafd") };
        Ok(options.disable_statement_logging())
    }
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

fn value(error: &sqlx::Error) -> BadAddress {
    BadAddress::Value(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mysql(url: &str) -> Result<StoreAddress, BadAddress> {
        StoreAddress::new(ServerKind::MySql, url, true)
    }

    fn postgres(url: &str) -> Result<StoreAddress, BadAddress> {
        StoreAddress::new(ServerKind::Postgres, url, true)
    }

    #[test]
    fn people_are_told_where_the_database_is_and_never_the_password() {
        for (address, told) in [
            (mysql("mysql://leaf:hunter2@db/leaf"), "mysql leaf@db:3306/leaf"),
            (mysql("mariadb://leaf:hunter2@db:33/leaf"), "mysql leaf@db:33/leaf"),
            (mysql("mysql://l:hunter2@localhost/db?socket=/run/m.sock"), "mysql l@/run/m.sock/db"),
            (postgres("postgres://leaf:hunter2@[::1]/leaf"), "postgres leaf@[::1]:5432/leaf"),
            (postgres("postgresql://l:hunter2@%2Frun%2Fpg/db"), "postgres l@/run/pg:5432/db"),
            (postgres("postgres://l:hunter2@x/db?host=/run/pg"), "postgres l@/run/pg:5432/db"),
        ] {
            let address = address.unwrap();
            assert_eq!(address.to_string(), told);
            assert!(!format!("{address:?}{}", address.identity()).contains("hunter2"));
            assert!(address.has_password());
        }
    }

    #[test]
    fn a_wrong_url_is_refused_with_its_fault_and_without_its_password() {
        for (address, fault) in [
            (mysql("leaf:hunter2@db"), "leaf:"),
            (mysql("mysql://leaf:hunter2@d b/leaf"), "no URL"),
            (mysql("postgres://leaf:hunter2@db/leaf"), "postgres:"),
            (mysql("mysql://:hunter2@db/leaf"), "no user"),
            (mysql("mysql://leaf:hunter2@db"), "no database"),
            (mysql("mysql://leaf:hunter2@db/leaf?sslmoed=required"), "sslmoed"),
            (mysql("mysql://leaf:hunter2@db/leaf?ssl-mode=maybe"), "maybe"),
            (mysql("mysql://leaf:hunter2@db/leaf?ssl-ca=/ca"), "without ssl-mode=REQUIRED"),
            (postgres("postgres://l:hunter2@d/l?sslrootcert=/ca"), "without sslmode=require"),
            (postgres("postgres://leaf:hunter2@db/leaf?sslmode=maybe"), "maybe"),
            (postgres("postgres://leaf@db/leaf?password=hunter2"), "\"password\""),
        ] {
            let error = address.unwrap_err().to_string();
            assert!(error.contains(fault) && !error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn who_asks_for_tls_gets_a_verified_server_unless_told_otherwise() {
        let url = "mysql://leaf@db/leaf?ssl-mode=REQUIRED";
        let mode = |verify| {
            let address = StoreAddress::new(ServerKind::MySql, url, verify).unwrap();
            format!("{:?}", address.mysql(None).unwrap().get_ssl_mode())
        };
        assert_eq!((mode(true).as_str(), mode(false).as_str()), ("VerifyIdentity", "Required"));
        let url = "postgres://leaf@db/leaf?sslmode=require";
        let mode = |verify| {
            let address = StoreAddress::new(ServerKind::Postgres, url, verify).unwrap();
            format!("{:?}", address.postgres(None).unwrap().get_ssl_mode())
        };
        assert_eq!((mode(true).as_str(), mode(false).as_str()), ("VerifyFull", "Require"));
    }

    #[test]
    fn two_addresses_of_one_table_are_the_same_and_those_of_two_are_not() {
        let identity = |url: &str| mysql(url).unwrap().identity();
        let same = "mysql://b@db:3306/leaf?ssl-mode=REQUIRED&ssl-ca=/x";
        assert_eq!(identity("mysql://a:x@db/leaf"), identity(same));
        assert_ne!(identity("mysql://a@db/leaf"), identity("mysql://a@db/leaf2"));
        let identity = |url: &str| postgres(url).unwrap().identity();
        let url = "postgres://a:x@db/leaf";
        assert_eq!(identity(url), identity("postgres://a@db:5432/leaf?sslmode=require"));
        // Each may lead to a table of its own.
        for other in ["postgres://b@db/leaf", "postgres://a@db/leaf?options=-csearch_path%3Dids"] {
            assert_ne!(identity(url), identity(other));
        }
    }
}
