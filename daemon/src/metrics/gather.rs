//! Reads what the rooms have counted, at one moment. A scrape holds up nobody: it locks a tag for as
//! long as a request does, lets other work run after each page of tags, and repeats the last answer
//! until ten times as long has passed as it took.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use leaf_client::Layout;
use tokio::time::Instant;

use super::overview::TagOverview;
use super::render::{Exposition, ExpositionFormat};
use super::samples::{self, HttpFigures};
use crate::environment::Environment;
use crate::forecast::{Growth, TagRates};
use crate::segment::service::Segments;
use crate::service::Service;
use crate::snowflake::issuer::Issuer;
use crate::state::write_tally::WriteTally;

/// What the metrics are about.
pub(crate) struct MetricsSources {
    pub(crate) service: Arc<Service>,
    pub(crate) segments: Segments,
    pub(crate) issuer: Issuer,
    pub(crate) writes: Arc<WriteTally>,
    pub(crate) environment: Environment,
    /// The layout, if there are snowflake IDs.
    pub(crate) layout: Option<Layout>,
    /// How long a worker ID may be used after a report, if a registry gives it.
    pub(crate) fence_after: Option<Duration>,
    /// How often leafd has started on its state directory.
    pub(crate) starts: u64,
}

/// The metrics of a running daemon.
pub(crate) struct Metrics {
    sources: MetricsSources,
    rates: TagRates,
    started_ms: u64,
    /// One scrape at a time; it keeps its answer.
    last: tokio::sync::Mutex<Option<LastScrape>>,
}

struct LastScrape {
    format: ExpositionFormat,
    began: Instant,
    took: Duration,
    text: Bytes,
}

impl Metrics {
    /// The metrics of a daemon that is ready now.
    pub(crate) fn new(sources: MetricsSources, rates: TagRates) -> Self {
        let started_ms = sources.environment.unix_ms();
        Self { sources, rates, started_ms, last: tokio::sync::Mutex::default() }
    }

    /// The text of a scrape. The transport that hands it out tells its own figures by `http`.
    pub(crate) async fn render(
        &self,
        format: ExpositionFormat,
        http: impl FnOnce() -> HttpFigures + Send,
    ) -> Bytes {
        let mut last = self.last.lock().await;
        let environment = &self.sources.environment;
        let began = environment.now();
        if let Some(last) = last.as_ref()
            && last.format == format
            && began < last.began + last.took * 10
        {
            return last.text.clone();
        }
        let mut exposition = Exposition::default();
        samples::add_daemon(&mut exposition, self.started_ms, self.sources.starts);
        samples::add_service(&mut exposition, &self.sources.service);
        samples::add_http(&mut exposition, &http());
        samples::add_tags(&mut exposition, &self.tags().await);
        samples::add_leases(&mut exposition, &self.sources.segments);
        samples::add_writes(&mut exposition, &self.sources.writes);
        if let Some(layout) = self.sources.layout {
            let (status, fence_after) = (self.sources.issuer.status(), self.sources.fence_after);
            samples::add_snowflake(&mut exposition, &status, layout, fence_after);
        }
        samples::add_loans(&mut exposition, &self.sources.service);
        // Writing to a String cannot fail.
        let text = Bytes::from(exposition.render(format).unwrap_or_default());
        let took = environment.since(began);
        *last = Some(LastScrape { format, began, took, text: text.clone() });
        text
    }

    async fn tags(&self) -> TagOverview {
        let patterns = self.sources.service.metrics_tags();
        let now_s = self.sources.environment.unix_ms() / 1000;
        let mut overview = TagOverview::default();
        let waiting = self.sources.segments.visit_tags(|tag| {
            let (name, mark) = (tag.name.as_str(), tag.high_water_mark);
            let growth = self.rates.growth(name, now_s, mark).map(Growth::per_second);
            overview.add(now_s, tag, growth, &patterns);
        });
        let waiting = waiting.await;
        TagOverview { waiting, ..overview }
    }
}
