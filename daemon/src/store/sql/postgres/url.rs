//! How a URL of PostgreSQL reads, and the connection that it describes.

use std::str::FromStr as _;

use sqlx::ConnectOptions as _;
use sqlx::postgres::{PgConnectOptions, PgSslMode};

use crate::secret::Secret;
use crate::store::{BadAddress, SharedDatabase, SharedOptions, StoreAddress};

const PORT: u16 = 5432;

/// What `open.rs` lists.
pub(in crate::store) static POSTGRES_DATABASE: SharedDatabase = SharedDatabase {
    name: "postgres",
    schemes: &["postgres", "postgresql"],
    parameters: &[
        "sslmode",
        "sslrootcert",
        "sslcert",
        "sslkey",
        "host",
        "application_name",
        "options",
    ],
    certificates: &["sslrootcert", "sslcert", "sslkey"],
    socket: "host",
    sockets_have_ports: true,
    port: PORT,
    example: "postgres://leaf@db.example:5432/leaf",
    tls: "sslmode=require",
    asks_for_tls,
    connect: |address, password| options(address, password).map(SharedOptions::Postgres),
    session,
    open: super::open,
    open_member: super::open_one_of_several,
    inspect: super::inspect,
};

fn asks_for_tls(address: &StoreAddress) -> Result<bool, BadAddress> {
    Ok(matches!(
        options(address, None)?.get_ssl_mode(),
        PgSslMode::Require | PgSslMode::VerifyCa | PgSslMode::VerifyFull
    ))
}

/// The user and the session's options decide which schema holds the table.
fn session(address: &StoreAddress) -> String {
    let mut session = format!(" user {}", address.user());
    // Options may also come from the environment.
    let options = options(address, None).ok();
    if let Some(options) = options.as_ref().and_then(PgConnectOptions::get_options) {
        session.push_str(&format!(" options {options}"));
    }
    session
}

/// # Errors
/// When a parameter has a wrong value.
pub(super) fn options(
    address: &StoreAddress,
    password: Option<&Secret>,
) -> Result<PgConnectOptions, BadAddress> {
    let url = address.url();
    let options = PgConnectOptions::from_str(url.as_str());
    let options = options.map_err(|error| BadAddress::Value(error.to_string()))?;
    // The URL decides; libpq's variables in the environment are meant for other programs.
    let options = options.port(url.port().unwrap_or(PORT));
    // sqlx keeps the brackets.
    let options = match url.host() {
        Some(url::Host::Ipv6(ip)) => options.host(&ip.to_string()),
        _ => options,
    };
    let has_mode = url.query_pairs().any(|(key, _)| key == "sslmode");
    let mode = if has_mode { options.get_ssl_mode() } else { PgSslMode::Prefer };
    let options = options.ssl_mode(match mode {
        PgSslMode::Require if address.verifies_tls() => PgSslMode::VerifyFull,
        mode => mode,
    });
    // Poolers reject some start parameters, and leafd reads no floating-point numbers.
    let options = options.extra_float_digits(None);
    let options = match password {
        Some(password) => options.password(password.expose()),
        None => options,
    };
    let named = url.query_pairs().any(|(key, _)| key == "application_name");
    let options = if named { options } else { options.application_name("leafd") };
    // leafd itself logs failures, with the tag and the remedy.
    Ok(options.disable_statement_logging())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::ServerKind;

    #[test]
    fn a_url_that_asks_for_tls_gets_a_verified_server_unless_told_otherwise() {
        let mode = |verify| {
            let url = "postgres://leaf@db/leaf?sslmode=require";
            let address = ServerKind::Postgres.address(url, verify).unwrap();
            format!("{:?}", options(&address, None).unwrap().get_ssl_mode())
        };
        assert_eq!((mode(true).as_str(), mode(false).as_str()), ("VerifyFull", "Require"));
    }
}
