//! `leafctl forecast`: when tags outgrow `int32`, 2^53 and `int64`, and when the snowflake layout ends, by
//! the rates that leafd itself knows.

mod gather;
mod reach;
mod text;
mod view;

use std::io::Write;

use leafd::cli::leafctl::{DaemonArgs, ForecastArgs};

use self::gather::FirstTags;
use self::view::ForecastView;
use crate::connect;
use crate::exit::Failure;
use crate::output::Output;
use crate::screen::{self, Screen};

/// Prints the forecasts. Any forecast is a success, even one of tomorrow.
///
/// # Errors
/// The daemon's refusals, `Protocol` if its pages do not advance, and `Output`.
pub(crate) fn run<W: Write>(
    daemon: &DaemonArgs,
    args: &ForecastArgs,
    out: &mut Output<W>,
) -> Result<(), Failure> {
    let mut client = connect::prompt(daemon)?;
    let found = match &args.tag {
        Some(tag) => FirstTags::of(client.tag_forecast(tag)?),
        None => gather::all(|after, limit| client.tag_forecasts(after, limit))?,
    };
    if args.json {
        return out.json(&ForecastView::new(&found));
    }
    let screen = Screen::of_stdout();
    let lines = match (&args.tag, found.tags.as_slice()) {
        (Some(_), [tag]) => text::of_tag(tag, &found),
        _ => text::of_all(&found, screen.as_ref()),
    };
    screen::print(&lines, screen.as_ref(), out)
}

#[cfg(test)]
mod tests {
    use leaf_client::wire::{ForecastPage, LimitForecast, TagForecast, TagGrowth};

    use super::reach::{DOUBLE, INT32, INT64};

    /// 2026-01-01.
    pub(super) const NOW_MS: u64 = 1_767_225_600_000;

    /// A tag that reaches `int32` and 2^53 at these times.
    pub(super) fn growing(name: &str, int32: Option<u64>, double: Option<u64>) -> TagForecast {
        let limits = [(INT32, int32), (DOUBLE, double), (INT64, None)];
        let limit = |(limit, reached_unix_ms)| LimitForecast { limit, reached_unix_ms };
        TagForecast {
            tag: name.to_owned(),
            max_id: 1000,
            growth: Some(TagGrowth { ids: 216_000, seconds: 86_400 }),
            limits: limits.map(limit).into(),
        }
    }

    pub(super) fn page(tags: Vec<TagForecast>) -> ForecastPage {
        ForecastPage { unix_ms: NOW_MS, layout_end_unix_ms: Some(1), tags }
    }
}
