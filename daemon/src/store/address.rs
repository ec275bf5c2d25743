//! Where a shared database is: a URL whose parts are all checked, so that a misspelt parameter is an
//! error and not ignored. The printed form never contains a password. What differs between kinds of
//! servers is in each one's [`SharedDatabase`].

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use percent_encoding::percent_decode_str;
use sqlx::mysql::MySqlConnectOptions;
use sqlx::postgres::PgConnectOptions;
use url::Url;

use super::guard::DatabaseGuard;
use super::several::{MemberPlace, MemberStore};
use super::{BoxFuture, Store, StoreFacts, StoreLimits};
use crate::secret::Secret;

/// A kind of server that several hosts share: how its URLs read, and how to open a store on it. Each
/// kind has one in its own folder; `open.rs` lists them.
pub(crate) struct SharedDatabase {
    /// For users, and in what leafd records of the store.
    pub(super) name: &'static str,
    pub(super) schemes: &'static [&'static str],
    /// The parameters that a URL may have. `sqlx` ignores unknown ones.
    pub(super) parameters: &'static [&'static str],
    /// The parameters that name files of certificates and keys.
    pub(super) certificates: &'static [&'static str],
    /// The parameter that names a Unix socket or its folder.
    pub(super) socket: &'static str,
    /// Whether a Unix socket has the port in its name.
    pub(super) sockets_have_ports: bool,
    /// The default port.
    pub(super) port: u16,
    pub(super) example: &'static str,
    /// The parameter that asks for TLS, for an error.
    pub(super) tls: &'static str,
    /// Checks the values of all parameters, and says whether the URL asks for TLS.
    pub(super) asks_for_tls: fn(&StoreAddress) -> Result<bool, BadAddress>,
    /// How to connect, for whoever makes connections of its own.
    pub(super) connect: ConnectShared,
    /// What besides host, port and database decides which table a session sees.
    pub(super) session: fn(&StoreAddress) -> String,
    pub(super) open: OpenShared,
    /// Opens it as one of several databases.
    pub(super) open_member: OpenMember,
    /// Reads what the database says of itself.
    pub(super) inspect: InspectShared,
}

type InspectShared = fn(&SharedStore) -> BoxFuture<'_, Result<StoreFacts, String>>;

type ConnectShared = fn(&StoreAddress, Option<&Secret>) -> Result<SharedOptions, BadAddress>;

type OpenShared = fn(&SharedStore, Arc<DatabaseGuard>) -> Result<Arc<dyn Store>, String>;

pub(super) type OpenMember = fn(
    &SharedStore,
    Arc<DatabaseGuard>,
    Option<MemberPlace>,
) -> Result<Arc<dyn MemberStore>, String>;

/// The options of a connection to a shared database.
#[derive(Debug, Clone)]
pub(crate) enum SharedOptions {
    MySql(MySqlConnectOptions),
    Postgres(PgConnectOptions),
}

/// A database server, and how leafd uses it.
#[derive(Debug, Clone)]
pub struct SharedStore {
    /// The checked URL.
    pub address: StoreAddress,
    /// The password, if the URL has none.
    pub password: Option<Secret>,
    /// The bounds of its use.
    pub limits: StoreLimits,
}

/// Why leafd refuses a URL. Never contains a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadAddress {
    /// It does not parse.
    #[error("it is not a URL ({0}); write it like {1}")]
    Syntax(String, &'static str),
    /// It belongs to another kind of database.
    #[error("it begins with {0}:; write it like {1}")]
    Scheme(String, &'static str),
    /// It lacks a host, user or database.
    #[error("it names no {0}; write it like {1}")]
    Missing(&'static str, &'static str),
    /// This kind of database has no such parameter.
    #[error("it has no parameter {0:?}; the parameters are: {1}")]
    Parameter(String, String),
    /// A character of the user or the password ends it too early.
    #[error(
        "its user or password contains {0:?}, which has another meaning in a URL: write it as {1}. \
         Or put the password into a key or a file of its own (password, password-file), where it needs \
         no encoding"
    )]
    Unencoded(char, &'static str),
    /// The end of the URL would be ignored.
    #[error("it contains a #, and what follows has no meaning here; in a name, write # as %23")]
    Fragment,
    /// A value is wrong.
    #[error("{0}")]
    Value(String),
}

/// A checked URL, and whether leafd verifies the server's certificate.
#[derive(Clone)]
pub struct StoreAddress {
    database: &'static SharedDatabase,
    url: Url,
    verify_tls: bool,
}

impl fmt::Debug for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// For users: `mysql leaf@db.example:3306/leaf`.
impl fmt::Display for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}@{}", self.database.name, self.user(), self.place())
    }
}

impl StoreAddress {
    /// Checks a URL. With `verify_tls`, a URL that asks for TLS makes leafd verify the server's
    /// certificate and name, even if it asks for encryption only.
    ///
    /// # Errors
    /// When a part is missing, unknown or wrong.
    pub(super) fn new(
        database: &'static SharedDatabase,
        text: &str,
        verify_tls: bool,
    ) -> Result<Self, BadAddress> {
        let example = database.example;
        let parsed = Url::parse(text);
        // First, because other errors would quote a part of the password.
        if parsed.as_ref().map_or(true, |url| url.username().is_empty() || url.fragment().is_some())
            && let Some((character, encoded)) = unencoded(text)
        {
            return Err(BadAddress::Unencoded(character, encoded));
        }
        let url = parsed.map_err(|why| BadAddress::Syntax(why.to_string(), example))?;
        if !database.schemes.contains(&url.scheme()) {
            return Err(BadAddress::Scheme(url.scheme().to_owned(), example));
        }
        if url.fragment().is_some() {
            return Err(BadAddress::Fragment);
        }
        for (key, _) in url.query_pairs() {
            if !database.parameters.contains(&&*key) {
                let known = database.parameters.join(", ");
                return Err(BadAddress::Parameter(key.into_owned(), known));
            }
        }
        let this = Self { database, url, verify_tls };
        for (part, missing) in [
            ("host", this.host().is_empty()),
            ("user", this.user().is_empty()),
            ("database", this.database_name().is_empty()),
        ] {
            if missing {
                return Err(BadAddress::Missing(part, example));
            }
        }
        this.check_tls()?;
        Ok(this)
    }

    /// A URL that names a certificate means TLS, but does not get it without asking.
    fn check_tls(&self) -> Result<(), BadAddress> {
        let asks_for_tls = (self.database.asks_for_tls)(self)?;
        match self.certificates().next() {
            Some((key, _)) if !asks_for_tls => {
                let tls = self.database.tls;
                Err(BadAddress::Value(format!("{key} has no effect without {tls}")))
            }
            _ => Ok(()),
        }
    }

    /// The files of certificates and keys, each with the parameter that names it.
    pub(crate) fn certificates(&self) -> impl Iterator<Item = (String, PathBuf)> {
        let names = self.database.certificates;
        let files = self.url.query_pairs().filter(move |(key, _)| names.contains(&&**key));
        files.map(|(key, path)| (key.into_owned(), PathBuf::from(path.into_owned())))
    }

    /// How to connect, with `password` unless the URL has one.
    ///
    /// # Errors
    /// When a parameter has a wrong value.
    pub(crate) fn options(&self, password: Option<&Secret>) -> Result<SharedOptions, BadAddress> {
        (self.database.connect)(self, password)
    }

    /// `HOST:PORT`; none for a Unix socket, or a folder of them.
    pub(crate) fn server(&self) -> Option<String> {
        let host = self.host();
        let port = self.url.port().unwrap_or(self.database.port);
        (!host.starts_with('/')).then(|| format!("{host}:{port}"))
    }

    pub(super) const fn database(&self) -> &'static SharedDatabase {
        self.database
    }

    pub(super) const fn url(&self) -> &Url {
        &self.url
    }

    pub(super) const fn verifies_tls(&self) -> bool {
        self.verify_tls
    }

    pub(crate) fn has_password(&self) -> bool {
        self.url.password().is_some()
    }

    /// Tells one table from another: by host, port and database; in PostgreSQL also by the user and
    /// the session's options, which choose the schema. A needless difference costs a gap, a missed
    /// one duplicates.
    #[must_use]
    pub fn identity(&self) -> String {
        format!("{} {}{}", self.database.name, self.place(), (self.database.session)(self))
    }

    pub(super) fn user(&self) -> String {
        decoded(self.url.username())
    }

    fn database_name(&self) -> String {
        decoded(self.url.path().trim_start_matches('/'))
    }

    fn host(&self) -> String {
        let given = self.url.query_pairs().find(|(key, _)| key == self.database.socket);
        given.map_or_else(
            || decoded(self.url.host_str().unwrap_or_default()),
            |(_, path)| path.into_owned(),
        )
    }

    fn place(&self) -> String {
        let port = self.url.port().unwrap_or(self.database.port);
        let (host, name) = (self.host(), self.database_name());
        if host.starts_with('/') && !self.database.sockets_have_ports {
            return format!("{host}/{name}");
        }
        format!("{host}:{port}/{name}")
    }
}

/// The first character that ends user and password too early, and how to write it: they reach up to
/// the last `@`.
fn unencoded(text: &str) -> Option<(char, &'static str)> {
    let (_, rest) = text.split_once("://")?;
    let (user, _) = rest.rsplit_once('@')?;
    user.chars().find_map(|character| match character {
        '#' => Some(('#', "%23")),
        '/' => Some(('/', "%2F")),
        '?' => Some(('?', "%3F")),
        '[' => Some(('[', "%5B")),
        ']' => Some((']', "%5D")),
        '\\' => Some(('\\', "%5C")),
        _ => None,
    })
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::ServerKind;

    fn mysql(url: &str) -> Result<StoreAddress, BadAddress> {
        ServerKind::MySql.address(url, true)
    }

    fn postgres(url: &str) -> Result<StoreAddress, BadAddress> {
        ServerKind::Postgres.address(url, true)
    }

    #[test]
    fn an_address_is_printed_without_its_password() {
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
    fn a_wrong_url_is_refused_with_the_fault_named_and_the_password_hidden() {
        for (address, fault) in [
            (mysql("leaf:hunter2@db"), "leaf:"),
            (mysql("mysql://leaf:hunter2@d b/leaf"), "not a URL"),
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
    fn a_password_that_is_not_encoded_is_refused_with_how_to_write_it() {
        for (url, encoded) in [
            ("mysql://leaf:hun#ter2@db/leaf", "%23"),
            ("mysql://leaf:12#34@db/leaf", "%23"),
            ("mysql://leaf:#hunter2@db/leaf", "%23"),
            ("mysql://leaf:hun/ter2@db/leaf", "%2F"),
            ("mysql://leaf:12/34@db/leaf", "%2F"),
            ("mysql://leaf:12?ssl-mode=ter2@db/leaf", "%3F"),
            ("mysql://leaf:12?hunter2=1@db/leaf", "%3F"),
        ] {
            let error = mysql(url).unwrap_err().to_string();
            assert!(error.contains(encoded), "{url}: {error}");
            for part in ["hun", "ter2", "12", "34"] {
                assert!(!error.contains(part), "{url}: {error}");
            }
        }
        for (url, user) in [
            ("mysql://leaf:a%23b@db/leaf", "leaf"),
            ("mysql://leaf:a@b:c@db/leaf", "leaf"),
            ("mysql://l@db/leaf?ssl-mode=REQUIRED&ssl-ca=/a@b", "l"),
        ] {
            assert_eq!(mysql(url).unwrap().user(), user, "{url}");
        }
        let error = mysql("mysql://leaf@db/leaf?ssl-mode=REQUIRED#x").unwrap_err();
        assert_eq!(error, BadAddress::Fragment);
    }

    #[test]
    fn addresses_are_the_same_exactly_if_they_lead_to_one_table() {
        let identity = |url: &str| mysql(url).unwrap().identity();
        let same = "mysql://b@db:3306/leaf?ssl-mode=REQUIRED&ssl-ca=/x";
        assert_eq!(identity("mysql://a:x@db/leaf"), identity(same));
        assert_ne!(identity("mysql://a@db/leaf"), identity("mysql://a@db/leaf2"));
        let identity = |url: &str| postgres(url).unwrap().identity();
        let url = "postgres://a:x@db/leaf";
        assert_eq!(identity(url), identity("postgres://a@db:5432/leaf?sslmode=require"));
        // Each of these may lead to another table.
        for other in ["postgres://b@db/leaf", "postgres://a@db/leaf?options=-csearch_path%3Dids"] {
            assert_ne!(identity(url), identity(other));
        }
    }
}
