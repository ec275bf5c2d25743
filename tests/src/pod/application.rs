//! The application in the tests' pods. It keeps asking for IDs of both schemes.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Pod;

/// The container `orders` of a pod, which runs the application.
#[derive(Debug, Clone, Copy)]
pub struct Application<'a> {
    pod: &'a Pod,
}

impl<'a> Application<'a> {
    /// The application of a pod.
    #[must_use]
    pub const fn of(pod: &'a Pod) -> Self {
        Self { pod }
    }

    /// The numbers of segment IDs and snowflake IDs that it has received.
    #[must_use]
    pub fn count(self) -> (u64, u64) {
        let report = self.report();
        let number = |key: &str| report[key].as_u64().unwrap_or_default();
        (number("orders"), number("snowflakes"))
    }

    /// The worker IDs in all its snowflakes.
    #[must_use]
    pub fn workers(self) -> BTreeSet<u64> {
        let workers = &self.report()["workers"];
        workers.as_array().into_iter().flatten().filter_map(Value::as_u64).collect()
    }

    /// Waits until it has received 100 more IDs of each scheme.
    pub fn goes_on(self, what: &str) {
        let (orders, snowflakes) = self.count();
        self.pod.wait_until("orders", what, || {
            let now = self.count();
            now.0 > orders + 100 && now.1 > snowflakes + 100
        });
    }

    /// Asserts that no call failed for good and no ID came twice. The application would have ended,
    /// and podman would have restarted it.
    pub fn noticed_nothing(self) {
        let restarts = &self.pod.state("orders")["RestartCount"];
        assert_eq!(restarts, 0, "{}", self.pod.log("orders"));
    }

    fn report(self) -> Value {
        let log = self.pod.output("orders");
        // The last line may be incomplete.
        let whole = log.rfind('\n').and_then(|end| log.get(..end)).unwrap_or_default();
        let Some(line) = whole.lines().next_back() else { return Value::Null };
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}\n{log}"))
    }
}
