//! placeholder until the peer port is merged
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    NobodyAnswered,
    Agrees { mean_ms: i64 },
    Differs { mean_ms: i64 },
}
