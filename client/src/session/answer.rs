//! From a reply to the result of a call. An answer of the wrong kind is a protocol error.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::error::{Error, ProtocolError};
use crate::ids::Ids;
use crate::wire::{DaemonStatus, Reply, TagStatus, WorkerStatus};

/// Exactly `asked` IDs.
pub(crate) fn ids(reply: Reply, asked: u32) -> Result<Ids, Error> {
    match reply {
        Reply::Ids { first, more } => Ok(Ids::check(first, more, asked)?),
        other => Err(not("Ids", other)),
    }
}

/// The one ID that was asked for.
pub(crate) fn only_id(reply: Reply) -> Result<u64, Error> {
    ids(reply, 1).map(|ids| ids.first())
}

/// The daemon's clock.
pub(crate) fn time(reply: Reply) -> Result<SystemTime, Error> {
    match reply {
        Reply::Time { unix_ms } => Ok(UNIX_EPOCH
            .checked_add(Duration::from_millis(unix_ms))
            .ok_or(ProtocolError::Time(unix_ms))?),
        other => Err(not("Time", other)),
    }
}

/// How the daemon is.
pub(crate) fn status(reply: Reply) -> Result<DaemonStatus, Error> {
    match reply {
        Reply::Status(status) => Ok(*status),
        other => Err(not("Status", other)),
    }
}

/// A page of tags.
pub(crate) fn tags(reply: Reply) -> Result<Vec<TagStatus>, Error> {
    match reply {
        Reply::Tags(tags) => Ok(tags),
        other => Err(not("Tags", other)),
    }
}

/// The one tag that was asked for.
pub(crate) fn tag(reply: Reply) -> Result<TagStatus, Error> {
    one(tags(reply)?, "Tags with one element", "Tags without one", "Tags with more")
}

/// A page of worker IDs.
pub(crate) fn workers(reply: Reply) -> Result<Vec<WorkerStatus>, Error> {
    match reply {
        Reply::Workers(workers) => Ok(workers),
        other => Err(not("Workers", other)),
    }
}

/// The one worker ID that was asked for.
pub(crate) fn worker(reply: Reply) -> Result<WorkerStatus, Error> {
    one(workers(reply)?, "Workers with one element", "Workers without one", "Workers with more")
}

/// The only element; otherwise a protocol error that names what was expected, and what came.
fn one<T>(
    all: Vec<T>,
    expected: &'static str,
    none: &'static str,
    more: &'static str,
) -> Result<T, Error> {
    let mut all = all.into_iter();
    match (all.next(), all.next()) {
        (Some(only), None) => Ok(only),
        (None, _) => Err(ProtocolError::UnexpectedReply { expected, got: none }.into()),
        (Some(_), Some(_)) => Err(ProtocolError::UnexpectedReply { expected, got: more }.into()),
    }
}

/// The daemon's refusal, or else a reply of the wrong kind.
#[cold]
fn not(expected: &'static str, reply: Reply) -> Error {
    match reply {
        Reply::Error(error) => Error::Refused(error),
        other => ProtocolError::UnexpectedReply { expected, got: reply_name(&other) }.into(),
    }
}

/// A reply's name in the protocol.
pub(super) const fn reply_name(reply: &Reply) -> &'static str {
    match reply {
        Reply::Error(_) => "Error",
        Reply::Hello { .. } => "Hello",
        Reply::Ids { .. } => "Ids",
        Reply::Time { .. } => "Time",
        Reply::Status(_) => "Status",
        Reply::Tags(_) => "Tags",
        Reply::Goodbye => "Goodbye",
        Reply::Workers(_) => "Workers",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{ErrorCode, Run, WireError};

    #[test]
    fn a_refusal_stays_typed_whatever_was_asked() {
        let refusal = WireError { code: 4242, ..WireError::new(ErrorCode::BadTag, "odd") };
        let reply = || Reply::Error(refusal.clone());
        for error in [
            ids(reply(), 1).unwrap_err(),
            time(reply()).unwrap_err(),
            status(reply()).unwrap_err(),
            tags(reply()).unwrap_err(),
            tag(reply()).unwrap_err(),
            workers(reply()).unwrap_err(),
            worker(reply()).unwrap_err(),
        ] {
            assert_eq!(error.code(), Some(ErrorCode::Other(4242)));
        }
    }

    #[test]
    fn an_answer_to_another_question_is_a_protocol_error() {
        let error = time(Reply::Tags(vec![])).unwrap_err();
        assert!(matches!(error, Error::Protocol(ProtocolError::UnexpectedReply { .. })), "{error}");
        assert!(matches!(tag(Reply::Tags(vec![])), Err(Error::Protocol(_))));
        assert!(matches!(worker(Reply::Workers(vec![])), Err(Error::Protocol(_))));
        assert!(matches!(workers(Reply::Tags(vec![])), Err(Error::Protocol(_))));
        assert!(matches!(only_id(Reply::Goodbye), Err(Error::Protocol(_))));
        let two = Reply::Ids { first: Run { first: 5, count: 2 }, more: vec![] };
        assert!(matches!(
            only_id(two),
            Err(Error::Protocol(ProtocolError::WrongTotal { asked: 1, got: 2 }))
        ));
    }

    #[test]
    fn a_time_beyond_all_clocks_is_no_panic() {
        assert!(time(Reply::Time { unix_ms: 0 }).is_ok());
        // Whether the platform can hold it or not: a result, either way.
        let _ = time(Reply::Time { unix_ms: u64::MAX });
    }
}
