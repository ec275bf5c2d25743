//! The scripts, and what they answer. Redis executes each as a whole.

use redis::aio::MultiplexedConnection;
use redis::{RedisResult, Script};

use super::keys::KeyPattern;
use crate::state::database::DatabaseIdentity;
use crate::store::StoreError;

macro_rules! script {
    ($name:literal) => {
        Script::new(concat!(include_str!("scripts/common.lua"), include_str!($name)))
    };
}

pub(super) struct Scripts {
    pub(super) lease: Script,
    pub(super) repair: Script,
    pub(super) create: Script,
    pub(super) delete: Script,
    pub(super) step: Script,
}

/// Gives a Redis that has never been used its identity, and returns the one that it has.
pub(super) async fn identify(
    connection: &mut MultiplexedConnection,
    keys: &KeyPattern,
    identity: DatabaseIdentity,
) -> RedisResult<String> {
    let script = Script::new(include_str!("scripts/identify.lua"));
    let mut call = script.key(keys.identity());
    call.key(keys.replication()).arg(identity.to_string());
    call.invoke_async(connection).await
}

impl Default for Scripts {
    fn default() -> Self {
        Self {
            lease: script!("scripts/lease.lua"),
            repair: script!("scripts/repair.lua"),
            create: script!("scripts/create.lua"),
            delete: script!("scripts/delete.lua"),
            step: script!("scripts/step.lua"),
        }
    }
}

/// What a script has answered: a word, and what belongs to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reply(Vec<String>);

impl Reply {
    /// Runs a script for one counter.
    pub(super) async fn of(
        script: &Script,
        connection: &mut MultiplexedConnection,
        (keys, counter): (&KeyPattern, &str),
        identity: Option<DatabaseIdentity>,
        arguments: &[&str],
    ) -> RedisResult<Self> {
        let mut call = script.prepare_invoke();
        call.key(counter).key(keys.identity()).key(keys.leases()).key(keys.steps());
        call.key(keys.descriptions()).key(keys.replication());
        call.arg(identity.map(|it| it.to_string()).unwrap_or_default());
        for argument in arguments {
            call.arg(*argument);
        }
        let parts: Vec<Vec<u8>> = call.invoke_async(connection).await?;
        let text = |part: Vec<u8>| String::from_utf8_lossy(&part).into_owned();
        Ok(Self(parts.into_iter().map(text).collect()))
    }

    pub(super) fn word(&self) -> &str {
        self.part(0)
    }

    pub(super) fn part(&self, at: usize) -> &str {
        self.0.get(at).map_or("", String::as_str)
    }

    pub(super) fn number(&self, at: usize) -> Result<u64, StoreError> {
        self.part(at).parse().map_err(|_| self.unexpected())
    }

    pub(super) fn unexpected(&self) -> StoreError {
        StoreError::Busy(format!("a script answered {:?}, which leafd does not know", self.0))
    }

    /// Why a counter cannot be used, if that is the answer.
    pub(super) fn refusal(&self, counter: &str) -> Option<StoreError> {
        let what = self.part(1);
        let bad = |text: String| Some(StoreError::BadRow(text));
        match self.word() {
            "missing" => Some(StoreError::NoSuchTag),
            "type" => bad(format!(
                "the key {counter} is a {what}, not a counter; set redis.key to the counters' keys"
            )),
            "expires" => bad(format!(
                "the key {counter} would be gone in {what} ms, and its IDs would begin again; remove its \
                 time to live: PERSIST {counter}"
            )),
            "value" => bad(format!(
                "{counter} is {:?}, not a whole number from 0 to 2^63 - 1; set it to the highest ID ever \
                 issued: SET {counter} N",
                what.chars().take(40).collect::<String>()
            )),
            "step" => {
                bad(format!("the step is {what:?}; set it to 1 or more: leafctl tag set-step"))
            }
            "end" => bad(format!(
                "{counter} is {what} and its step {}: a lease passes the highest ID, 2^63 - 1",
                self.part(2)
            )),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_names_the_key_the_value_and_the_remedy() {
        let reply = |parts: &[&str]| Reply(parts.iter().map(|part| (*part).to_owned()).collect());
        assert_eq!(reply(&["missing"]).refusal("id:a"), Some(StoreError::NoSuchTag));
        assert_eq!(reply(&["leased", "1"]).refusal("id:a"), None);
        for (parts, told) in [
            (&["type", "hash"][..], ["id:a", "hash", "redis.key"]),
            (&["expires", "500"], ["id:a", "500 ms", "PERSIST id:a"]),
            (&["value", "many"], ["id:a", "\"many\"", "SET id:a N"]),
            (&["step", "0"], ["step", "\"0\"", "set-step"]),
            (&["end", "9", "7"], ["id:a", "9", "7"]),
        ] {
            let Some(StoreError::BadRow(error)) = reply(parts).refusal("id:a") else { panic!() };
            assert!(told.iter().all(|part| error.contains(part)), "{error}");
        }
        assert!(reply(&["what"]).unexpected().to_string().contains("what"));
    }
}
