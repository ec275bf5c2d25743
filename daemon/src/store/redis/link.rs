//! One connection to a Redis server or a Sentinel. It carries many calls at the same time.

use std::future::Future;
use std::sync::Mutex;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisConnectionInfo, RedisResult};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use super::failure::told;
use super::place::RedisServer;
use super::server::{Durability, ServerInfo};
use crate::secret::Secret;

/// Who connects.
pub(super) struct Login<'a> {
    pub(super) user: Option<&'a str>,
    pub(super) password: Option<&'a Secret>,
    pub(super) database: u32,
}

pub(super) struct Link {
    pub(super) server: RedisServer,
    /// When the Sentinels were asked that named the server last.
    pub(super) confirmed: Mutex<Instant>,
    connection: MultiplexedConnection,
    /// Reads the answers.
    task: AbortHandle,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Link {
    /// Opens a connection. Nothing bounds the time of this.
    ///
    /// # Errors
    /// Why there is none, for users.
    pub(super) async fn open(
        server: &RedisServer,
        tls: Option<&TlsConnector>,
        login: Login<'_>,
        asked: Instant,
    ) -> Result<Self, String> {
        let stream = TcpStream::connect((server.host.as_str(), server.port)).await;
        let stream = stream.map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let mut info = RedisConnectionInfo::default()
            .set_db(i64::from(login.database))
            // A user may not have the right to tell the server its name.
            .set_skip_set_lib_name();
        if let Some(user) = login.user {
            info = info.set_username(user);
        }
        if let Some(password) = login.password {
            info = info.set_password(password.expose());
        }
        // Whoever calls has a time limit.
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let opened = match tls {
            None => {
                let opened = MultiplexedConnection::new_with_config(&info, stream, config).await;
                drive(server, opened, asked)
            }
            Some(tls) => {
                let name = ServerName::try_from(server.host.clone());
                let name = name.map_err(|error| error.to_string())?;
                let stream = tls.connect(name, stream).await;
                let stream = stream.map_err(|error| format!("TLS: {error}"))?;
                let opened = MultiplexedConnection::new_with_config(&info, stream, config).await;
                drive(server, opened, asked)
            }
        };
        opened.map_err(|error| told(&error))
    }

    /// Whether the server has closed it.
    pub(super) fn has_ended(&self) -> bool {
        self.task.is_finished()
    }

    /// What the server says of itself.
    ///
    /// # Errors
    /// When it does not answer, or refuses.
    pub(super) async fn info(&self) -> RedisResult<ServerInfo> {
        let text: String = redis::cmd("INFO").query_async(&mut self.connection()).await?;
        Ok(ServerInfo::parse(&text))
    }

    /// How the server keeps what it writes, as far as the user may ask.
    pub(super) async fn durability(&self) -> Durability {
        Durability {
            appendonly: self.setting("appendonly").await.map(|value| value == "yes"),
            appendfsync: self.setting("appendfsync").await,
            save: self.setting("save").await,
        }
    }

    async fn setting(&self, name: &str) -> Option<String> {
        let mut get = redis::cmd("CONFIG");
        get.arg("GET").arg(name);
        let answer: RedisResult<Vec<String>> = get.query_async(&mut self.connection()).await;
        answer.ok()?.into_iter().nth(1)
    }

    /// A handle for one call.
    pub(super) fn connection(&self) -> MultiplexedConnection {
        self.connection.clone()
    }
}

fn drive<F>(
    server: &RedisServer,
    opened: RedisResult<(MultiplexedConnection, F)>,
    asked: Instant,
) -> RedisResult<Link>
where
    F: Future<Output = ()> + Send + 'static,
{
    let (connection, answers) = opened?;
    let task = tokio::spawn(answers).abort_handle();
    Ok(Link { server: server.clone(), confirmed: Mutex::new(asked), connection, task })
}
