//! The answer of a driver to one line, and what scenarios demand of it.

use serde_json::Value;

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// The call succeeded.
    Ok(Value),
    /// The call failed.
    Failed(Failure),
}

/// How a call failed.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// The kind, as the README of the suite lists them.
    pub kind: String,
    /// For `refused`: the number.
    pub number: Option<u64>,
    /// Whether the client says that the same call may succeed later.
    pub temporary: bool,
    /// The whole error.
    pub all: Value,
}

impl Answer {
    /// Reads the line of a driver.
    pub(super) fn read(line: &Value) -> Self {
        match (line.get("ok"), line.get("error")) {
            (Some(ok), None) => Self::Ok(ok.clone()),
            (None, Some(error)) => Self::Failed(Failure {
                kind: error["kind"].as_str().unwrap_or_default().to_owned(),
                number: error["number"].as_u64(),
                temporary: error["temporary"].as_bool().unwrap_or_default(),
                all: error.clone(),
            }),
            _ => panic!("neither ok nor error, or both: {line}"),
        }
    }

    /// The result.
    #[track_caller]
    pub fn ok(self) -> Value {
        match self {
            Self::Ok(value) => value,
            Self::Failed(failure) => panic!("the call failed: {}", failure.all),
        }
    }

    /// The IDs, as runs (first, count) in the order in which they came; runs in a row are joined.
    #[track_caller]
    #[must_use]
    pub fn runs(self) -> Vec<(u64, u64)> {
        let value = self.ok();
        let runs = value["runs"].as_array().unwrap_or_else(|| panic!("no runs: {value}"));
        let mut joined: Vec<(u64, u64)> = Vec::new();
        for run in runs {
            let (first, count) = (run[0].as_str(), run[1].as_u64());
            let first = first.and_then(|first| first.parse::<u64>().ok());
            let (Some(first), Some(count)) = (first, count) else {
                panic!("{run} is not a run: [\"first\", count]")
            };
            match joined.last_mut() {
                Some((start, length)) if *start + *length == first => *length += count,
                _ => joined.push((first, count)),
            }
        }
        joined
    }

    /// The only ID.
    #[track_caller]
    pub fn id(self) -> u64 {
        match self.runs().as_slice() {
            [(id, 1)] => *id,
            other => panic!("{other:?} is not one ID"),
        }
    }

    /// The failure.
    #[track_caller]
    #[must_use]
    pub fn failure(self) -> Failure {
        match self {
            Self::Failed(failure) => failure,
            Self::Ok(value) => panic!("the call succeeded: {value}"),
        }
    }

    /// The failure, which has to be of one of these kinds.
    #[track_caller]
    pub fn fails_with(self, kinds: &[&str]) -> Failure {
        let failure = self.failure();
        let fits = kinds.contains(&failure.kind.as_str());
        assert!(fits, "the error is not of the kind {}: {}", kinds.join(" or "), failure.all);
        failure
    }

    /// The failure, which has to be the daemon's error of this number.
    #[track_caller]
    pub fn refused(self, number: u64) -> Failure {
        let failure = self.fails_with(&["refused"]);
        assert_eq!(failure.number, Some(number), "another number: {}", failure.all);
        failure
    }

    /// The failure of a peer that breaks the protocol.
    #[track_caller]
    pub fn breaks_the_protocol(self) {
        let failure = self.fails_with(&["protocol"]);
        assert!(!failure.temporary, "a broken protocol is not temporary: {}", failure.all);
    }
}
