//! Answers requests with a wrong token, a few per second with 401 and the rest with 429. A right
//! token is never refused for what others tried: a token is too long to be guessed, and whoever
//! floods leafd with wrong ones must lock nobody out. Each answer closes its connection, so that a
//! try costs a connection as well.

use std::sync::Mutex;

use hyper::StatusCode;
use tokio::time::Instant;

use super::problem::HttpProblem;
use crate::access::bucket::{Bucket, RateLimit};
use crate::lock::lock;
use crate::tally::Count;
use crate::transport::throttle::LogThrottle;

/// Wrong tokens in a second that get 401.
const PER_SECOND: u64 = 10;

#[derive(Debug)]
pub(super) struct WrongTokens {
    started: Instant,
    tried: Bucket,
    log: Mutex<LogThrottle>,
    /// Requests that got 401, and 429.
    pub(super) unknown: Count,
    pub(super) throttled: Count,
}

impl WrongTokens {
    pub(super) fn new(started: Instant) -> Self {
        let (unknown, throttled) = (Count::default(), Count::default());
        Self { started, tried: Bucket::default(), log: Mutex::default(), unknown, throttled }
    }

    /// The answer to a request with a wrong token.
    pub(super) fn refuse(&self, now: Instant) -> HttpProblem {
        if lock(&self.log).may_log(now) {
            tracing::warn!("refusing HTTP requests whose tokens are not in http.tokens");
        }
        let since = now.saturating_duration_since(self.started);
        let Some(rate) = RateLimit::new(PER_SECOND) else { return self.unknown() };
        if self.tried.check(1, rate, since).is_err() {
            self.throttled.add(1);
            let text = "too many wrong tokens";
            let refused = HttpProblem::new(StatusCode::TOO_MANY_REQUESTS, text);
            return refused.retry_after_ms(1000).closing();
        }
        self.tried.spend(1, rate, since);
        self.unknown()
    }

    fn unknown(&self) -> HttpProblem {
        self.unknown.add(1);
        let text = "the header Authorization has no token that leafd knows (http.tokens)";
        HttpProblem::new(StatusCode::UNAUTHORIZED, text).closing()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn wrong_tokens_get_401_a_few_times_per_second_and_429_beyond() {
        let began = Instant::now();
        let wrong = WrongTokens::new(began);
        let status = |ms| {
            let problem = wrong.refuse(began + Duration::from_millis(ms));
            problem.into_response().status().as_u16()
        };
        let first: Vec<_> = (0..1000).map(|_| status(1000)).collect();
        let known = first.iter().filter(|status| **status == 401).count();
        assert!((1..=20).contains(&known), "{known}");
        assert_eq!(first.last(), Some(&429));
        let counted = (wrong.unknown.get(), wrong.throttled.get());
        assert_eq!(counted, (known as u64, 1000 - known as u64));
        assert_eq!(status(5000), 401);
    }
}
