//! The list of metrics. `docs/operations/metrics.md` explains it, and a test compares the two.

/// What the values of a family mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FamilyKind {
    /// Only grows, until leafd restarts.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts in buckets.
    Histogram,
    /// Always 1; the labels say something.
    Info,
}

impl FamilyKind {
    /// The type's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Info => "info",
        }
    }
}

/// Metrics of one name that differ by their labels.
#[derive(Debug, PartialEq, Eq)]
pub struct Family {
    /// The name in OpenMetrics, without the suffix that the type adds.
    pub(crate) stem: &'static str,
    /// The type.
    pub kind: FamilyKind,
    /// The labels that every sample has.
    pub labels: &'static [&'static str],
    /// The sentence that the exposition shows.
    pub help: &'static str,
}

impl Family {
    /// The name as queries write it, with `_total` or `_info`.
    #[must_use]
    pub fn name(&self) -> String {
        let suffix = match self.kind {
            FamilyKind::Counter => "_total",
            FamilyKind::Info => "_info",
            FamilyKind::Gauge | FamilyKind::Histogram => "",
        };
        format!("{}{suffix}", self.stem)
    }
}

macro_rules! families {
    ($($constant:ident: $kind:ident $stem:literal [$($label:literal),*] $help:literal)*) => {
        $(pub(crate) const $constant: Family = Family {
            stem: $stem,
            kind: FamilyKind::$kind,
            labels: &[$($label),*],
            help: $help,
        };)*

        /// Every family, in the order of the exposition.
        pub const FAMILIES: &[Family] = &[$($constant),*];
    };
}

families! {
    BUILD: Info "leafd_build" ["version"]
        "The version of leafd"
    START: Gauge "leafd_start_timestamp_seconds" []
        "When leafd became ready"
    STARTS: Counter "leafd_starts" []
        "Starts on this state directory, counted over restarts"
    CONNECTIONS: Gauge "leafd_connections" []
        "Sessions of callers, of all transports"
    HTTP_CONNECTIONS: Gauge "leafd_http_connections" []
        "Open HTTP connections, silent and slow ones included"
    HTTP_MAX_CONNECTIONS: Gauge "leafd_http_max_connections" []
        "HTTP connections beyond which slow and idle ones make room"
    REQUESTS: Counter "leafd_requests" ["call", "outcome", "code"]
        "Answered requests by call and outcome: ok, or the name and number of the error"
    ERRORS: Counter "leafd_errors" ["name", "code"]
        "Errors that were answered, of all calls"
    IN_FLIGHT: Gauge "leafd_requests_in_flight" []
        "Requests that wait for their answers"
    IDS: Counter "leafd_ids" ["scheme"]
        "IDs that callers got"
    WAITS: Histogram "leafd_request_wait_seconds" ["scheme"]
        "How long requests waited that memory could not answer at once"
    QUOTA_REFUSALS: Counter "leafd_quota_refusals" ["quota"]
        "Requests and connections that were over a quota"
    HTTP_REFUSED: Counter "leafd_http_refused" ["reason"]
        "Requests that the HTTP server refused for their token, or while all connections were busy"
    STORE: Info "leafd_store" ["store"]
        "Where ranges come from"
    STORE_UP: Gauge "leafd_store_up" []
        "1 if the store works as far as leafd knows, else 0"
    STORE_DATABASES: Gauge "leafd_store_databases" ["state"]
        "Databases of a store of several, by whether they work"
    STORE_EPOCH: Gauge "leafd_store_epoch" []
        "The epoch of the witness table"
    STORE_EPOCH_OPEN: Gauge "leafd_store_epoch_open" []
        "1 while leases wait until every host has confirmed the epoch, else 0"
    STORE_EPOCH_HOSTS: Gauge "leafd_store_epoch_hosts" ["state"]
        "Hosts that an epoch waits for, by whether they have confirmed it"
    LEASES: Counter "leafd_leases" ["outcome"]
        "Calls to the store that leased a range, or failed to"
    LEASE_DURATION: Histogram "leafd_lease_duration_seconds" []
        "How long these calls took"
    TAGS: Gauge "leafd_tags" []
        "Tags in memory"
    WAITING: Gauge "leafd_waiting_requests" []
        "Requests that wait for IDs of a tag"
    SECONDS_LEFT: Gauge "leafd_lowest_seconds_left" []
        "How long memory lasts for the tag that runs out first, at the present rate"
    OVERDUE: Gauge "leafd_tags_lease_overdue" []
        "Tags whose leases fail and whose last one is longer ago than memory lasts"
    FAILING: Gauge "leafd_tags_failing" []
        "Tags whose last lease failed, while somebody needs another"
    NEAR_LIMIT: Gauge "leafd_tags_near_limit" ["limit"]
        "Tags between 80 and 100 percent of a limit of the type that holds their IDs"
    EARLIEST_LIMIT: Gauge "leafd_earliest_limit_timestamp_seconds" ["limit"]
        "When the first tag reaches a limit, at its rate of up to a week"
    STATE_WRITES: Histogram "leafd_state_write_duration_seconds" ["file"]
        "How long writes to the state directory took, with their sync"
    STATE_FAILURES: Counter "leafd_state_write_failures" ["file"]
        "Writes to the state directory that failed"
    SNOWFLAKE_STATE: Gauge "leafd_snowflake_state" ["state"]
        "1 for the state that snowflake IDs are in, else 0"
    CLOCK_BEHIND: Gauge "leafd_clock_behind_seconds" []
        "How far the clock is behind the times already used"
    CEILING: Gauge "leafd_ceiling_distance_seconds" []
        "The durable ceiling of snowflake times minus the clock; negative while nobody asks"
    LAYOUT_END: Gauge "leafd_layout_end_timestamp_seconds" []
        "When the time field of the layout ends"
    WORKER: Gauge "leafd_worker_id" []
        "The worker ID, while there is one"
    WORKER_AGE: Gauge "leafd_worker_report_age_seconds" []
        "The time since the registry last confirmed the worker ID"
    FENCE_LEFT: Gauge "leafd_worker_fence_remaining_seconds" []
        "How long leafd may use the worker ID without another report, by its own clock"
    FENCE_AFTER: Gauge "leafd_worker_fence_after_seconds" []
        "How long that is right after a report: worker.fence-after"
    REGISTRY_UP: Gauge "leafd_registry_up" []
        "1 if the last call to the registry of worker IDs worked, else 0"
    CLOCK_OFFSET: Gauge "leafd_clock_offset_seconds" []
        "The mean of the other daemons' clocks minus this one's, at the last check"
    PEERS: Gauge "leafd_clock_peers" []
        "How many other daemons told their time at the last check"
    LOANS: Gauge "leafd_loans" ["pool", "state"]
        "Worker IDs of the pool that this host has claimed"
    LOANS_BEGUN: Counter "leafd_loans_begun" ["pool"]
        "Worker IDs of the pool that were lent"
    LOANS_LOST: Counter "leafd_loans_lost" ["pool"]
        "Borrowers that were told that their worker ID is another's"
    TAG_IDS: Counter "leafd_tag_ids" ["tag"]
        "IDs of the tag that callers got"
    TAG_LEASES: Counter "leafd_tag_leases" ["tag"]
        "Leases of the tag"
    TAG_MAX_ID: Gauge "leafd_tag_max_id" ["tag"]
        "The highest end of a range of the tag that this host has seen"
    TAG_REMAINING: Gauge "leafd_tag_remaining_ids" ["tag"]
        "IDs of the tag in memory"
    TAG_SECONDS_LEFT: Gauge "leafd_tag_seconds_left" ["tag"]
        "How long memory lasts for the tag, at the present rate"
    TAG_LEASE_AGE: Gauge "leafd_tag_lease_age_seconds" ["tag"]
        "The time since the last lease of the tag, or since the start"
    TAG_WAITING: Gauge "leafd_tag_waiting_requests" ["tag"]
        "Requests that wait for IDs of the tag"
    TAG_STEP: Gauge "leafd_tag_step_ids" ["tag"]
        "The size of the next lease of the tag"
    TAG_FAILING: Gauge "leafd_tag_lease_failing" ["tag"]
        "1 if the last lease of the tag failed and somebody needs another, else 0"
    TAG_GROWTH: Gauge "leafd_tag_growth_ids_per_second" ["tag"]
        "How fast max_id of the tag has grown, by all hosts, over up to a week"
    TAG_LIMIT: Gauge "leafd_tag_limit_timestamp_seconds" ["tag", "limit"]
        "When the tag reaches a limit of the type that holds its IDs, at that rate"
    LEFT_OUT: Gauge "leafd_metrics_tags_left_out" []
        "Tags that metrics.tags matches beyond the first 1000, which have no series"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_conventions_of_prometheus() {
        let mut names = std::collections::BTreeSet::new();
        for family in FAMILIES {
            let name = family.name();
            let is_word =
                |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase());
            assert!(name.starts_with("leafd_") && name.split('_').all(is_word), "{name}");
            assert!(!["_ms", "_millis", "_minutes"].iter().any(|unit| name.ends_with(unit)));
            assert!(!family.stem.ends_with("_total") && !family.help.ends_with('.'), "{name}");
            assert!(names.insert(name), "{} is there twice", family.stem);
        }
    }
}
