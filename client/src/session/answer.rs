//! Turns a reply into the result of a call. A reply of the wrong kind is a protocol error.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::error::{Error, ProtocolError};
use crate::ids::Ids;
use crate::wire::{DaemonStatus, ForecastPage, Reply, TagStatus, WorkerLoan, WorkerStatus};

/// Expects exactly `asked` IDs.
pub(crate) fn ids(reply: Reply, asked: u32) -> Result<Ids, Error> {
    match reply {
        Reply::Ids { first, more } => Ok(Ids::check(first, more, asked)?),
        other => Err(unexpected("Ids", other)),
    }
}

/// Expects exactly one ID.
pub(crate) fn only_id(reply: Reply) -> Result<u64, Error> {
    ids(reply, 1).map(|ids| ids.first())
}

/// Expects the time of the daemon's clock.
pub(crate) fn time(reply: Reply) -> Result<SystemTime, Error> {
    match reply {
        Reply::Time { unix_ms } => Ok(UNIX_EPOCH
            .checked_add(Duration::from_millis(unix_ms))
            .ok_or(ProtocolError::Time(unix_ms))?),
        other => Err(unexpected("Time", other)),
    }
}

/// Expects the daemon's status.
pub(crate) fn status(reply: Reply) -> Result<DaemonStatus, Error> {
    match reply {
        Reply::Status(status) => Ok(*status),
        other => Err(unexpected("Status", other)),
    }
}

/// Expects a page of tags, which may be empty.
pub(crate) fn tags(reply: Reply) -> Result<Vec<TagStatus>, Error> {
    match reply {
        Reply::Tags(tags) => Ok(tags),
        other => Err(unexpected("Tags", other)),
    }
}

/// Expects exactly one tag.
pub(crate) fn tag(reply: Reply) -> Result<TagStatus, Error> {
    one(
        tags(reply)?,
        "Tags with one element",
        "Tags without elements",
        "Tags with several elements",
    )
}

/// Expects a page of worker IDs, which may be empty.
pub(crate) fn workers(reply: Reply) -> Result<Vec<WorkerStatus>, Error> {
    match reply {
        Reply::Workers(workers) => Ok(workers),
        other => Err(unexpected("Workers", other)),
    }
}

/// Expects exactly one worker ID.
pub(crate) fn worker(reply: Reply) -> Result<WorkerStatus, Error> {
    one(
        workers(reply)?,
        "Workers with one element",
        "Workers without elements",
        "Workers with several elements",
    )
}

/// Expects a loan.
pub(crate) fn loan(reply: Reply) -> Result<WorkerLoan, Error> {
    match reply {
        Reply::Loan(loan) => Ok(loan),
        other => Err(unexpected("Loan", other)),
    }
}

/// Expects a page of forecasts, which may be without tags.
pub(crate) fn forecasts(reply: Reply) -> Result<ForecastPage, Error> {
    match reply {
        Reply::Forecasts(page) => Ok(page),
        other => Err(unexpected("Forecasts", other)),
    }
}

/// Expects exactly `asked` public IDs.
pub(crate) fn public_ids(reply: Reply, asked: usize) -> Result<Vec<String>, Error> {
    match reply {
        Reply::PublicIds(public_ids) if public_ids.len() == asked => Ok(public_ids),
        Reply::PublicIds(_) => Err(wrong_length("PublicIds of another length")),
        other => Err(unexpected("PublicIds", other)),
    }
}

/// Expects exactly `asked` numbers, none of them too large for an ID.
pub(crate) fn public_numbers(reply: Reply, asked: usize) -> Result<Vec<u64>, Error> {
    match reply {
        Reply::PublicNumbers(ids) if ids.len() != asked => {
            Err(wrong_length("PublicNumbers of another length"))
        }
        Reply::PublicNumbers(ids) if ids.iter().any(|id| i64::try_from(*id).is_err()) => {
            Err(wrong_length("PublicNumbers with one that is no ID"))
        }
        Reply::PublicNumbers(ids) => Ok(ids),
        other => Err(unexpected("PublicNumbers", other)),
    }
}

#[cold]
fn wrong_length(got: &'static str) -> Error {
    let expected = "as many as were asked for";
    ProtocolError::UnexpectedReply { expected, got }.into()
}

/// Expects exactly one element. The error names what was expected and whether `none` or `more`
/// came.
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

/// The error for a reply that is not the expected one: the daemon's own error if it sent one.
#[cold]
fn unexpected(expected: &'static str, reply: Reply) -> Error {
    match reply {
        Reply::Error(error) => Error::Refused(error),
        other => ProtocolError::UnexpectedReply { expected, got: reply_name(&other) }.into(),
    }
}

/// The name of a reply, as `docs/protocol.md` gives it.
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
        Reply::Loan(_) => "Loan",
        Reply::Forecasts(_) => "Forecasts",
        Reply::PublicIds(_) => "PublicIds",
        Reply::PublicNumbers(_) => "PublicNumbers",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{ErrorCode, Run, WireError};

    #[test]
    fn an_error_keeps_its_number_whatever_the_call() {
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
            forecasts(reply()).unwrap_err(),
            public_ids(reply(), 1).unwrap_err(),
            public_numbers(reply(), 1).unwrap_err(),
        ] {
            assert_eq!(error.code(), Some(ErrorCode::Other(4242)));
        }
    }

    #[test]
    fn a_reply_of_the_wrong_kind_is_a_protocol_error() {
        let error = time(Reply::Tags(vec![])).unwrap_err();
        assert!(matches!(error, Error::Protocol(ProtocolError::UnexpectedReply { .. })), "{error}");
        assert!(matches!(tag(Reply::Tags(vec![])), Err(Error::Protocol(_))));
        assert!(matches!(worker(Reply::Workers(vec![])), Err(Error::Protocol(_))));
        assert!(matches!(workers(Reply::Tags(vec![])), Err(Error::Protocol(_))));
        assert!(matches!(only_id(Reply::Goodbye), Err(Error::Protocol(_))));
        for reply in [Reply::Goodbye, Reply::PublicNumbers(vec![1])] {
            assert!(matches!(public_ids(reply, 1), Err(Error::Protocol(_))));
        }
        for ids in [vec![], vec![1, 2], vec![1 << 63]] {
            assert!(matches!(
                public_numbers(Reply::PublicNumbers(ids), 1),
                Err(Error::Protocol(_))
            ));
        }
        let two = Reply::Ids { first: Run { first: 5, count: 2 }, more: vec![] };
        assert!(matches!(
            only_id(two),
            Err(Error::Protocol(ProtocolError::WrongTotal { asked: 1, got: 2 }))
        ));
    }

    #[test]
    fn the_highest_time_does_not_panic() {
        assert!(time(Reply::Time { unix_ms: 0 }).is_ok());
        // Some platforms can represent it and others cannot.
        let _ = time(Reply::Time { unix_ms: u64::MAX });
    }
}
