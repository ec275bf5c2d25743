//! How a connection begins, whatever it is for: the hello, and what to say to bytes that are no
//! request. What the calls mean is none of this room's business.

use leaf_client::wire::{
    Call, ErrorCode, MAGIC, Reply, Request, RequestError, Response, UNSOLICITED, VERSION,
    WireError, decode_request, encode_response,
};

/// Whether a connection has said hello, and what it is told then.
#[derive(Debug)]
pub(super) struct Greeting {
    said_hello: bool,
    max_count: u32,
    max_in_flight: u32,
}

/// What the greeting has to say itself.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) id: u64,
    pub(super) reply: Reply,
    /// Whether the connection goes on.
    pub(super) go_on: bool,
}

impl Greeting {
    /// Before the hello. Its answer tells these limits.
    pub(super) const fn new(max_count: u32, max_in_flight: u32) -> Self {
        Self { said_hello: false, max_count, max_in_flight }
    }

    pub(super) const fn has_said_hello(&self) -> bool {
        self.said_hello
    }

    /// The request in `body`, once hello has been said.
    ///
    /// # Errors
    /// With the answer to anything else.
    #[inline]
    pub(super) fn open<'a>(&mut self, body: &'a [u8]) -> Result<Request<'a>, Box<Answer>> {
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
    fn answer(&mut self, decoded: Result<Request<'_>, Box<RequestError>>) -> Answer {
        let (id, outcome) = match decoded {
            Ok(Request { id: UNSOLICITED, .. }) => {
                let text = "request ID 0 is the daemon's own; number requests from 1";
                (UNSOLICITED, Err(WireError::new(ErrorCode::Malformed, text)))
            }
            Ok(Request { id, call }) => (id, self.hello(&call)),
            Err(bad) if !self.said_hello && bad.error.code() == ErrorCode::UnknownCall => {
                (bad.id, Err(hello_expected()))
            }
            Err(bad) => {
                let go_on = self.said_hello && bad.id != UNSOLICITED;
                return Answer { id: bad.id, reply: Reply::Error(bad.error), go_on };
            }
        };
        let go_on = outcome.is_ok();
        Answer { id, reply: outcome.unwrap_or_else(Reply::Error), go_on }
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
            let text = format!("version 0 is none; this leafd speaks 1 to {VERSION}");
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

/// What a connection beyond the `limit` gets instead of an answer; `limited_by` names the limit.
pub(super) fn no_room(limit: usize, limited_by: &str) -> Vec<u8> {
    let text = format!("{limit} connections are open already ({limited_by})");
    let error = WireError::new(ErrorCode::TooManyConnections, text)
        .with_detail(limit as u64)
        .with_retry_after_ms(100);
    not_let_in(error)
}

/// What a connection gets that is closed at once.
pub(super) fn not_let_in(error: WireError) -> Vec<u8> {
    let mut out = Vec::new();
    encode_response(&Response { id: UNSOLICITED, reply: Reply::Error(error) }, &mut out);
    out
}
