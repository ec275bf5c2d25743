//! What errors of Redis mean to a caller: the store is down, this call failed, or the counter cannot be used.

use redis::{ErrorKind, RedisError};

use super::Redis;
use crate::store::StoreError;

/// What a server answers to every call as long as its state lasts.
const OF_THE_SERVER: [&str; 12] = [
    "READONLY",
    "LOADING",
    "MASTERDOWN",
    "MISCONF",
    "OOM",
    "NOREPLICAS",
    "NOAUTH",
    "WRONGPASS",
    "NOPERM",
    "CLUSTERDOWN",
    "BUSY",
    "UNKILLABLE",
];

/// Whose fault an error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Every call will fail.
    Server,
    /// This one.
    Call,
}

/// The error for users, in one line.
pub(super) fn told(error: &RedisError) -> String {
    if error.kind() == ErrorKind::AuthenticationFailed {
        // The crate does not pass the server's words on.
        return "it refuses user and password (WRONGPASS, NOAUTH): correct redis.user and redis.password, or \
                those of the Sentinels"
            .to_owned();
    }
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) if detail.starts_with(code) => detail.to_owned(),
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        _ => error.to_string(),
    }
}

pub(super) fn fault(error: &RedisError) -> Fault {
    let Some(code) = error.code() else { return Fault::Server };
    if OF_THE_SERVER.contains(&code) {
        return Fault::Server;
    }
    // Before version 7, what a command in a script answers is in the middle of the text.
    let detail = error.detail().unwrap_or_default();
    let is_inside = |code: &&str| detail.contains(&format!("-{code} "));
    if OF_THE_SERVER.iter().any(is_inside) { Fault::Server } else { Fault::Call }
}

impl Redis {
    /// The error concerns every call.
    pub(super) fn down(&self, why: impl std::fmt::Display) -> StoreError {
        StoreError::Down(format!("{}: {why}", self.described))
    }

    /// A command or a script failed.
    pub(super) fn failed(&self, error: &RedisError) -> StoreError {
        match fault(error) {
            Fault::Server => self.down(told(error)),
            Fault::Call => StoreError::Busy(format!("{}: {}", self.described, told(error))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis::make_extension_error;

    #[test]
    fn what_the_server_answers_to_every_call_is_its_fault() {
        let error = |code: &str, detail: &str| {
            make_extension_error(code.to_owned(), Some(detail.to_owned()))
        };
        for (error, whose) in [
            (error("READONLY", "You can't write against a read only replica."), Fault::Server),
            (error("OOM", "command not allowed when used memory > 'maxmemory'."), Fault::Server),
            (
                error(
                    "ERR",
                    "Error running script (call to f_1): @user_script:9: -OOM command not",
                ),
                Fault::Server,
            ),
            (error("ERR", "unknown command"), Fault::Call),
            (error("WRONGTYPE", "Operation against a key"), Fault::Call),
        ] {
            assert_eq!(fault(&error), whose, "{error}");
        }
        let error = error("NOREPLICAS", "Not enough good replicas to write.");
        assert_eq!(told(&error), "NOREPLICAS Not enough good replicas to write.");
    }
}
