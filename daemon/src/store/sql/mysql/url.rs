//! How a URL of MySQL or MariaDB reads, and the connection that it describes.

use sqlx::ConnectOptions as _;
use sqlx::mysql::{MySqlConnectOptions, MySqlSslMode};

use crate::secret::Secret;
use crate::store::{BadAddress, SharedDatabase, SharedOptions, StoreAddress};

/// What `open.rs` lists.
pub(in crate::store) static MYSQL_DATABASE: SharedDatabase = SharedDatabase {
    name: "mysql",
    schemes: &["mysql", "mariadb"],
    parameters: &[
        "ssl-mode",
        "ssl-ca",
        "ssl-cert",
        "ssl-key",
        "socket",
        "statement-cache-capacity",
    ],
    certificates: &["ssl-ca", "ssl-cert", "ssl-key"],
    socket: "socket",
    sockets_have_ports: false,
    port: 3306,
    example: "mysql://leaf@db.example:3306/leaf",
    tls: "ssl-mode=REQUIRED",
    asks_for_tls,
    connect: |address, password| options(address, password).map(SharedOptions::MySql),
    session: |_| String::new(),
    open: super::open,
    open_member: super::open_one_of_several,
    inspect: super::inspect,
};

fn asks_for_tls(address: &StoreAddress) -> Result<bool, BadAddress> {
    Ok(matches!(
        options(address, None)?.get_ssl_mode(),
        MySqlSslMode::Required | MySqlSslMode::VerifyCa | MySqlSslMode::VerifyIdentity
    ))
}

/// # Errors
/// When a parameter has a wrong value.
pub(super) fn options(
    address: &StoreAddress,
    password: Option<&Secret>,
) -> Result<MySqlConnectOptions, BadAddress> {
    let options = MySqlConnectOptions::from_url(address.url());
    let options = options.map_err(|error| BadAddress::Value(error.to_string()))?;
    // sqlx keeps the brackets.
    let options = match address.url().host() {
        Some(url::Host::Ipv6(ip)) => options.host(&ip.to_string()),
        _ => options,
    };
    let options = match options.get_ssl_mode() {
        MySqlSslMode::Required if address.verifies_tls() => {
            options.ssl_mode(MySqlSslMode::VerifyIdentity)
        }
        _ => options,
    };
    let options = match password {
        Some(password) => options.password(password.expose()),
        None => options,
    };
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
            let url = "mysql://leaf@db/leaf?ssl-mode=REQUIRED";
            let address = ServerKind::MySql.address(url, verify).unwrap();
            format!("{:?}", options(&address, None).unwrap().get_ssl_mode())
        };
        assert_eq!((mode(true).as_str(), mode(false).as_str()), ("VerifyIdentity", "Required"));
    }
}
