//! The application of the tests, which asks for IDs of both schemes without a pause.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Pod;

/// The container `orders` of a pod.
#[derive(Debug, Clone, Copy)]
pub struct Application<'a> {
    pod: &'a Pod,
}

impl<'a> Application<'a> {
    /// That of this pod.
    #[must_use]
    pub const fn of(pod: &'a Pod) -> Self {
        Self { pod }
    }

    /// How many IDs of each scheme it has got.
    ///
    /// # Panics
    /// When it says something else.
    #[must_use]
    pub fn count(self) -> (u64, u64) {
        let report = self.report();
        let number = |key: &str| report[key].as_u64().unwrap_or_default();
        (number("orders"), number("snowflakes"))
    }

    /// The worker IDs of all its snowflakes.
    ///
    /// # Panics
    /// When it says something else.
    #[must_use]
    pub fn workers(self) -> BTreeSet<u64> {
        let workers = &self.report()["workers"];
        workers.as_array().into_iter().flatten().filter_map(Value::as_u64).collect()
    }

    /// It gets IDs of both schemes from now on.
    ///
    /// # Panics
    /// When it does not.
    pub fn goes_on(self, what: &str) {
        let (orders, snowflakes) = self.count();
        self.pod.wait_until("orders", what, || {
            let now = self.count();
            now.0 > orders + 100 && now.1 > snowflakes + 100
        });
    }

    /// No call has failed for good, and no ID has come twice: it ends at either, and podman starts
    /// it again.
    ///
    /// # Panics
    /// When one has.
    pub fn noticed_nothing(self) {
        let restarts = &self.pod.state("orders")["RestartCount"];
        assert_eq!(restarts, 0, "{}", self.pod.log("orders"));
    }

    fn report(self) -> Value {
        let log = self.pod.output("orders");
        // The last line may be half there.
        let whole = log.rfind('\n').and_then(|end| log.get(..end)).unwrap_or_default();
        let Some(line) = whole.lines().next_back() else { return Value::Null };
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}\n{log}"))
    }
}
