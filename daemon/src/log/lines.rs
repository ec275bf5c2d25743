//! How a line of the log looks on a terminal and in a pipe.

use std::fmt;

use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::fmt::format::{Format, Full, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::actor::AUDIT;

/// Whether a line shows its target, such as `leafd::segment::lease`. Who debugs copies it into
/// `log.level`, and a line of the audit is known by it. To everybody else it says nothing.
pub(super) fn shows_target(metadata: &Metadata<'_>) -> bool {
    metadata.target() == AUDIT || *metadata.level() > Level::INFO
}

/// Formats a line, with its target where [`shows_target`].
pub(super) struct LineFormat {
    plain: Format<Full>,
    with_target: Format<Full>,
}

impl Default for LineFormat {
    fn default() -> Self {
        Self { plain: Format::default().with_target(false), with_target: Format::default() }
    }
}

impl<S, N> FormatEvent<S, N> for LineFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let format = if shows_target(event.metadata()) { &self.with_target } else { &self.plain };
        format.format_event(context, writer, event)
    }
}
