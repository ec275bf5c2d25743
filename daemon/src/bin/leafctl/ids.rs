//! `leafctl next` and `leafctl snowflake`: IDs on stdout, one per line and nothing else.

use std::io::Write;

use leaf_client::Error;
use leaf_client::wire::ErrorCode;

use crate::exit::Failure;
use crate::output::Output;

/// Most IDs per request, until the daemon's refusal names a lower limit.
const MAX_PER_REQUEST: u32 = 100_000;

/// Prints `count` IDs, in as many requests as it takes.
///
/// # Errors
/// The errors of `ask`, and `Output`. IDs received before the error are printed.
pub(crate) fn print<W: Write, I: IntoIterator<Item = u64>>(
    count: u64,
    out: &mut Output<W>,
    mut ask: impl FnMut(u32) -> Result<I, Error>,
) -> Result<(), Failure> {
    let mut missing = count;
    let mut limit = MAX_PER_REQUEST;
    while missing > 0 {
        let part = u32::try_from(missing).unwrap_or(u32::MAX).min(limit);
        match ask(part) {
            Ok(ids) => ids.into_iter().try_for_each(|id| out.id(id))?,
            Err(error) => {
                limit = lower_limit(&error, part).ok_or(error)?;
                continue;
            }
        }
        missing -= u64::from(part);
    }
    Ok(())
}

/// The daemon's limit, if it refused `part` IDs because of it.
fn lower_limit(error: &Error, part: u32) -> Option<u32> {
    match error {
        Error::Refused(refusal) if refusal.code() == ErrorCode::BadCount => {
            u32::try_from(refusal.detail).ok().filter(|limit| (1..part).contains(limit))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leaf_client::wire::WireError;

    /// Prints IDs from 1 on, as a daemon with this limit issues them; returns the output and the
    /// size of each request.
    fn printed(count: u64, limit: u32, fail_at: u64) -> (Result<(), Failure>, Vec<u8>, Vec<u32>) {
        let (mut bytes, mut asked, mut next) = (Vec::new(), Vec::new(), 1);
        let mut out = Output::to(&mut bytes);
        let result = print(count, &mut out, |n| {
            asked.push(n);
            if n > limit {
                let refusal = WireError::new(ErrorCode::BadCount, "").with_detail(limit.into());
                return Err(Error::Refused(refusal));
            }
            if next >= fail_at {
                return Err(Error::Refused(WireError::new(ErrorCode::StoreUnavailable, "")));
            }
            let first = next;
            next += u64::from(n);
            Ok(first..next)
        });
        out.finish().unwrap();
        drop(out);
        (result, bytes, asked)
    }

    #[test]
    fn a_large_count_is_split_into_requests_of_the_largest_size() {
        let (result, bytes, asked) = printed(250_000, 100_000, u64::MAX);
        assert!(result.is_ok());
        assert_eq!(asked, [100_000, 100_000, 50_000]);
        assert!(bytes.starts_with(b"1\n2\n") && bytes.ends_with(b"\n250000\n"));
        assert_eq!(bytes.iter().filter(|byte| **byte == b'\n').count(), 250_000);
    }

    #[test]
    fn leafctl_follows_a_daemons_lower_limit() {
        let (result, bytes, asked) = printed(5, 2, u64::MAX);
        assert!(result.is_ok());
        assert_eq!((asked, bytes), (vec![5, 2, 2, 1], b"1\n2\n3\n4\n5\n".to_vec()));
        let (result, _, asked) = printed(5, 0, u64::MAX);
        assert_eq!((result.unwrap_err().code(), asked), (64, vec![5]));
    }

    #[test]
    fn ids_received_before_an_error_are_printed() {
        let (result, bytes, _) = printed(200_001, 100_000, 100_001);
        assert_eq!(result.unwrap_err().code(), 69);
        assert!(bytes.ends_with(b"\n100000\n"));
    }
}
