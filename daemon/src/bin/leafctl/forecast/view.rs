//! The JSON of forecasts.

use std::collections::BTreeMap;

use leaf_client::wire::{LimitForecast, TagForecast};
use leafd::rfc3339::rfc3339;
use serde::Serialize;

use super::gather::FirstTags;
use super::reach::{Reach, name, per_second};

/// All of `leafctl forecast --json`.
#[derive(Debug, Serialize)]
pub(super) struct ForecastView<'a> {
    /// leafd's clock.
    now: String,
    now_unix_s: u64,
    /// `None` without snowflake IDs.
    layout_end: Option<String>,
    layout_end_unix_s: Option<u64>,
    /// In the order of the text.
    tags: Vec<TagForecastView<'a>>,
    tags_left_out: usize,
}

#[derive(Debug, Serialize)]
struct TagForecastView<'a> {
    tag: &'a str,
    max_id: u64,
    /// `None` if leafd knows no rate.
    ids_per_second: Option<f64>,
    /// How long the rate was measured.
    measured_s: Option<u64>,
    /// By the limit's name.
    limits: BTreeMap<String, LimitView>,
}

#[derive(Debug, Serialize)]
struct LimitView {
    passed: bool,
    at: Option<String>,
    at_unix_s: Option<u64>,
}

impl<'a> ForecastView<'a> {
    pub(super) fn new(found: &'a FirstTags) -> Self {
        let FirstTags { now_ms, layout_end_ms, tags, left_out } = found;
        Self {
            now: rfc3339(*now_ms),
            now_unix_s: now_ms / 1000,
            layout_end: layout_end_ms.map(rfc3339),
            layout_end_unix_s: layout_end_ms.map(|ms| ms / 1000),
            tags: tags.iter().map(TagForecastView::from).collect(),
            tags_left_out: *left_out,
        }
    }
}

impl<'a> From<&'a TagForecast> for TagForecastView<'a> {
    fn from(forecast: &'a TagForecast) -> Self {
        let TagForecast { tag, max_id, growth, limits } = forecast;
        let view = |limit: &LimitForecast| {
            let reach = Reach::of(forecast, *limit);
            let at_ms = match reach {
                Reach::At(at_ms) => Some(at_ms),
                _ => None,
            };
            let passed = reach == Reach::Passed;
            let (at, at_unix_s) = (at_ms.map(rfc3339), at_ms.map(|ms| ms / 1000));
            (name(limit.limit), LimitView { passed, at, at_unix_s })
        };
        Self {
            tag,
            max_id: *max_id,
            ids_per_second: growth.map(per_second),
            measured_s: growth.map(|growth| growth.seconds),
            limits: limits.iter().map(view).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{NOW_MS, growing, page};
    use super::*;

    #[test]
    fn a_tag_has_its_rate_and_of_each_limit_whether_it_is_passed_and_when_it_is_reached() {
        let mut passed = growing("orders", None, Some(NOW_MS + 86_400_500));
        passed.max_id = 1 << 31;
        let silent = TagForecast { growth: None, ..growing("silent\x1b", None, None) };
        let found = FirstTags::of(page(vec![passed, silent]));
        let view = serde_json::to_value(ForecastView::new(&found)).unwrap();
        let far = json!({ "passed": false, "at": null, "at_unix_s": null });
        let limits = json!({ "int32": far, "2^53": far, "int64": far });
        let expected = json!({
            "now": "2026-01-01T00:00:00.000Z", "now_unix_s": 1_767_225_600,
            "layout_end": "1970-01-01T00:00:00.001Z", "layout_end_unix_s": 0,
            "tags": [
                {
                    "tag": "orders", "max_id": 1_u64 << 31,
                    "ids_per_second": 2.5, "measured_s": 86_400,
                    "limits": {
                        "int32": { "passed": true, "at": null, "at_unix_s": null },
                        "2^53": {
                            "passed": false, "at": "2026-01-02T00:00:00.500Z",
                            "at_unix_s": 1_767_312_000
                        },
                        "int64": far,
                    },
                },
                {
                    "tag": "silent\x1b", "max_id": 1000,
                    "ids_per_second": null, "measured_s": null, "limits": limits,
                },
            ],
            "tags_left_out": 0,
        });
        assert_eq!(view, expected);
    }

    #[test]
    fn without_snowflake_ids_no_layout_ends() {
        let found = FirstTags { layout_end_ms: None, ..FirstTags::of(page(Vec::new())) };
        let view = serde_json::to_value(ForecastView::new(&found)).unwrap();
        assert!(view["layout_end"].is_null() && view["layout_end_unix_s"].is_null());
        assert_eq!(view["tags"], json!([]));
    }
}
