//! Begins a connection of leafd's protocol, on the Unix socket and on the peer port: answers the
//! hello, and bytes that are not a request. It never looks at what a call means.

use leaf_client::wire::{
    Call, ErrorCode, MAGIC, Reply, Request, RequestError, Response, UNSOLICITED, VERSION,
    WireError, decode_request, encode_response,
};

/// Whether a client has said hello, and the limits that the answer announces.
#[derive(Debug)]
pub(super) struct Greeting {
    said_hello: bool,
    max_count: u32,
    max_in_flight: u32,
}

/// The reply to one request.
#[derive(Debug)]
pub(super) struct NumberedReply {
    /// The ID of the request; [`UNSOLICITED`] if it cannot be told.
    pub(super) id: u64,
    pub(super) reply: Reply,
    /// Whether the connection stays open after it.
    pub(super) keep_open: bool,
}

impl Greeting {
    /// A connection before its hello.
    pub(super) const fn new(max_count: u32, max_in_flight: u32) -> Self {
        Self { said_hello: false, max_count, max_in_flight }
    }

    pub(super) const fn has_said_hello(&self) -> bool {
        self.said_hello
    }

    /// Decodes the request in `body`. The client must have said hello.
    ///
    /// # Errors
    /// With the reply to a hello or to anything that may not be passed on.
    #[inline]
    pub(super) fn open<'a>(&mut self, body: &'a [u8]) -> Result<Request<'a>, Box<NumberedReply>> {
        match decode_request(body) {
            Ok(request)
                if self.said_hello
                    && request.id != UNSOLICITED
                    && !matches!(request.call, Call::Hello { .. }) =>
            {
                Ok(request)
            }
            other => Err(Box::new(self.answer(other))),
        }
    }

    #[cold]
    fn answer(&mut self, decoded: Result<Request<'_>, Box<RequestError>>) -> NumberedReply {
        let (id, outcome) = match decoded {
            Ok(Request { id: UNSOLICITED, .. }) => {
                let text = "request ID 0 is reserved for the daemon; number requests from 1";
                (UNSOLICITED, Err(WireError::new(ErrorCode::Malformed, text)))
            }
            Ok(Request { id, call }) => (id, self.hello(&call)),
            Err(bad) if !self.said_hello && bad.error.code() == ErrorCode::UnknownCall => {
                (bad.id, Err(hello_expected()))
            }
            Err(bad) => {
                let keep_open = self.said_hello && bad.id != UNSOLICITED;
                return NumberedReply { id: bad.id, reply: Reply::Error(bad.error), keep_open };
            }
        };
        let keep_open = outcome.is_ok();
        NumberedReply { id, reply: outcome.unwrap_or_else(Reply::Error), keep_open }
    }

    fn hello(&mut self, call: &Call<'_>) -> Result<Reply, WireError> {
        let Call::Hello { magic, version } = *call else {
            return Err(hello_expected());
        };
        if magic != MAGIC {
            let text = format!("the magic is {magic:02x?} and not {MAGIC:02x?} (\"LEAF\")");
            return Err(WireError::new(ErrorCode::BadMagic, text));
        }
        if version == 0 {
            let text = format!("there is no version 0; this leafd speaks versions 1 to {VERSION}");
            let refused = WireError::new(ErrorCode::VersionUnsupported, text);
            return Err(refused.with_detail(u64::from(VERSION)));
        }
        self.said_hello = true;
        Ok(Reply::Hello {
            version: version.min(VERSION),
            max_count: self.max_count,
            max_in_flight: self.max_in_flight,
        })
    }
}

fn hello_expected() -> WireError {
    WireError::new(ErrorCode::HelloExpected, "say Hello before anything else")
}

/// The bytes for a connection beyond `limit`; `limited_by` names the limit. The connection is then
/// closed.
pub(super) fn too_many_connections(limit: usize, limited_by: &str) -> Vec<u8> {
    let text = format!("{limit} connections are open already ({limited_by})");
    let error = WireError::new(ErrorCode::TooManyConnections, text)
        .with_detail(limit as u64)
        .with_retry_after_ms(100);
    refusal(error)
}

/// The bytes for a connection that is refused. The connection is then closed.
pub(super) fn refusal(error: WireError) -> Vec<u8> {
    let mut out = Vec::new();
    encode_response(&Response { id: UNSOLICITED, reply: Reply::Error(error) }, &mut out);
    out
}
