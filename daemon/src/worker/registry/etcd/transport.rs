//! One connection to a member: HTTP/1.1, with or without TLS, one request at a time. What the requests
//! mean never enters here.

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, DATE, HOST, HeaderValue};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio_rustls::TlsConnector;

use crate::config::etcd::EtcdEndpoint;
use crate::secret::Secret;

/// The largest answer: more than all records of a fleet need.
const MOST_BYTES: usize = 32 << 20;

/// Without it, a member that has lost the others keeps a request until it gives up.
const NEEDS_LEADER: &str = "grpc-metadata-hasleader";

#[derive(Debug)]
pub(super) struct Connection {
    authority: String,
    sender: SendRequest<Full<Bytes>>,
    task: AbortHandle,
}

/// What an error says with its causes, of which hyper's own text has none.
fn in_full(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

#[derive(Debug)]
pub(super) struct HttpAnswer {
    pub(super) status: u16,
    /// The member's clock (ms since 1970), in whole seconds.
    pub(super) date_ms: Option<u64>,
    pub(super) body: Bytes,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) struct NoAnswer {
    pub(super) why: String,
    /// Whether the member may have got the request.
    pub(super) is_sent: bool,
}

impl NoAnswer {
    fn unsent(why: impl std::fmt::Display) -> Self {
        Self { why: why.to_string(), is_sent: false }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Connection {
    pub(super) async fn open(
        endpoint: &EtcdEndpoint,
        tls: Option<&TlsConnector>,
    ) -> Result<Self, NoAnswer> {
        let stream = TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await;
        let stream = stream.map_err(NoAnswer::unsent)?;
        stream.set_nodelay(true).map_err(NoAnswer::unsent)?;
        let authority = endpoint.authority();
        let Some(tls) = tls.filter(|_| endpoint.is_tls) else {
            return Self::over(stream, authority).await;
        };
        let name = ServerName::try_from(endpoint.host.clone()).map_err(NoAnswer::unsent)?;
        let stream = tls.connect(name, stream).await;
        Self::over(stream.map_err(|error| NoAnswer::unsent(format!("TLS: {error}")))?, authority)
            .await
    }

    async fn over<S>(stream: S, authority: String) -> Result<Self, NoAnswer>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let opened = handshake(TokioIo::new(stream)).await;
        let (sender, connection) = opened.map_err(NoAnswer::unsent)?;
        // Its errors are also those of the request.
        let task = tokio::spawn(async move { drop(connection.await) }).abort_handle();
        Ok(Self { authority, sender, task })
    }

    /// Sends a request and waits for its answer. Cancelled or failed, the connection is of no more use;
    /// `is_sent` says whether the member may have got the request.
    pub(super) async fn ask(
        &mut self,
        path: &str,
        token: Option<&Secret>,
        body: Vec<u8>,
        is_sent: &mut bool,
    ) -> Result<HttpAnswer, NoAnswer> {
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(HOST, &self.authority)
            .header(CONTENT_TYPE, "application/json")
            .header(NEEDS_LEADER, "true");
        if let Some(token) = token {
            let value = HeaderValue::try_from(token.expose());
            let mut value = value.map_err(|_| NoAnswer::unsent("its token is not a header"))?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        let request = request.body(Full::new(Bytes::from(body))).map_err(NoAnswer::unsent)?;
        // It fails if the member has closed the connection meanwhile.
        self.sender.ready().await.map_err(NoAnswer::unsent)?;
        *is_sent = true;
        let failed = |why: String| NoAnswer { why, is_sent: true };
        let answer = self.sender.send_request(request).await;
        let (head, body) = answer.map_err(|error| failed(in_full(&error)))?.into_parts();
        let date = head.headers.get(DATE).and_then(|date| date.to_str().ok());
        let date_ms =
            date.and_then(|date| httpdate::parse_http_date(date).ok()).and_then(since_1970);
        let body = Limited::new(body, MOST_BYTES).collect().await;
        let body = body.map_err(|error| failed(in_full(&*error)))?.to_bytes();
        Ok(HttpAnswer { status: head.status.as_u16(), date_ms, body })
    }
}

fn since_1970(time: std::time::SystemTime) -> Option<u64> {
    let since = time.duration_since(std::time::UNIX_EPOCH).ok()?;
    u64::try_from(since.as_millis()).ok()
}
