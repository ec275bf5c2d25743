//! Writes samples in OpenMetrics, by the encoder of `prometheus-client`, and in Prometheus's older text
//! format, which differs from it in a few comment lines.

use std::borrow::Cow;
use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::families::{FAMILIES, Family, FamilyKind};
use crate::tally::{BOUNDS_MS, HistogramReading};

/// A format of the exposition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExpositionFormat {
    /// Prometheus's text format 0.0.4, which everything reads.
    Text,
    OpenMetrics,
}

impl ExpositionFormat {
    /// The media type.
    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

pub(super) type Labels = Vec<(&'static str, Cow<'static, str>)>;

/// The value of one sample, or all that a histogram has.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum SampleValue {
    Whole(u64),
    Number(f64),
    Histogram(Box<HistogramReading>),
    /// The labels are the value.
    Info,
}

/// The samples of one family.
#[derive(Debug)]
pub(super) struct FamilySamples {
    pub(super) family: &'static Family,
    pub(super) samples: Vec<(Labels, SampleValue)>,
}

/// All samples of one moment.
#[derive(Debug, Default)]
pub(super) struct Exposition(Vec<FamilySamples>);

impl Exposition {
    /// Adds a sample. Samples of one family come one after the other.
    pub(super) fn add(&mut self, family: &'static Family, labels: Labels, value: SampleValue) {
        let sample = (labels, value);
        match self.0.last_mut().filter(|last| last.family == family) {
            Some(last) => last.samples.push(sample),
            None => self.0.push(FamilySamples { family, samples: vec![sample] }),
        }
    }

    /// The text. Families come in the order of the list.
    pub(super) fn render(mut self, format: ExpositionFormat) -> Result<String, fmt::Error> {
        let place =
            |samples: &FamilySamples| FAMILIES.iter().position(|family| family == samples.family);
        self.0.sort_by_key(place);
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        encode(&mut text, &registry)?;
        Ok(match format {
            ExpositionFormat::OpenMetrics => text,
            ExpositionFormat::Text => older(&text),
        })
    }
}

impl Collector for Exposition {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for FamilySamples { family, samples } in &self.0 {
            let kind = match family.kind {
                FamilyKind::Counter => MetricType::Counter,
                FamilyKind::Gauge => MetricType::Gauge,
                FamilyKind::Histogram => MetricType::Histogram,
                FamilyKind::Info => MetricType::Info,
            };
            let help = format!("{}.", family.help);
            let mut family_encoder = encoder.encode_descriptor(family.stem, &help, None, kind)?;
            for (labels, value) in samples {
                if let SampleValue::Info = value {
                    family_encoder.encode_info(labels)?;
                } else if labels.is_empty() {
                    put(&mut family_encoder, family.kind, value)?;
                } else {
                    put(&mut family_encoder.encode_family(labels)?, family.kind, value)?;
                }
            }
        }
        Ok(())
    }
}

fn put(encoder: &mut MetricEncoder<'_>, kind: FamilyKind, value: &SampleValue) -> fmt::Result {
    match (kind, value) {
        (FamilyKind::Counter, SampleValue::Whole(count)) => {
            encoder.encode_counter::<NoLabelSet, u64, f64>(count, None)
        }
        (FamilyKind::Counter, SampleValue::Number(count)) => {
            encoder.encode_counter::<NoLabelSet, f64, f64>(count, None)
        }
        (_, SampleValue::Whole(number)) => encoder.encode_gauge(number),
        (_, SampleValue::Number(number)) => encoder.encode_gauge(number),
        (_, SampleValue::Histogram(reading)) => {
            let bounds = BOUNDS_MS.iter().map(|ms| ms / 1000.0).chain([f64::INFINITY]);
            let counts = reading.buckets.iter().copied().chain([reading.beyond]);
            let buckets: Vec<_> = bounds.zip(counts).collect();
            let (sum, count) = (reading.sum.as_secs_f64(), reading.count());
            encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
        }
        (_, SampleValue::Info) => Ok(()),
    }
}

/// The same exposition in the older text format: there the comments name a counter with its suffix,
/// there is no type `info`, and nothing marks the end.
fn older(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.lines().filter(|line| *line != "# EOF") {
        let comment = ["# HELP ", "# TYPE "].iter().find_map(|start| {
            let (stem, rest) = line.strip_prefix(start)?.split_once(' ')?;
            let family = FAMILIES.iter().find(|family| family.stem == stem)?;
            Some((start, family, rest))
        });
        match comment {
            Some((start, family, rest)) => {
                let rest = if *start == "# TYPE " && rest == "info" { "gauge" } else { rest };
                out.push_str(start);
                out.push_str(&family.name());
                out.push(' ');
                out.push_str(rest);
            }
            None => out.push_str(line),
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::families;
    use super::*;
    use crate::tally::DurationHistogram;

    fn exposition() -> Exposition {
        let histogram = DurationHistogram::default();
        [1, 3, 20_000].into_iter().for_each(|ms| histogram.record(Duration::from_millis(ms)));
        let mut exposition = Exposition::default();
        let tag = |name: &'static str| vec![("tag", name.into())];
        exposition.add(&families::TAG_IDS, tag("a\"b\\c"), SampleValue::Whole(u64::MAX));
        exposition.add(&families::TAG_IDS, tag("订单"), SampleValue::Whole(0));
        exposition.add(
            &families::LEASE_DURATION,
            vec![],
            SampleValue::Histogram(Box::new(histogram.read())),
        );
        exposition.add(&families::BUILD, vec![("version", "1".into())], SampleValue::Info);
        exposition.add(&families::CEILING, vec![], SampleValue::Number(-0.5));
        exposition
    }

    #[test]
    fn open_metrics_has_its_types_in_the_order_of_the_list_and_an_end() {
        let text = exposition().render(ExpositionFormat::OpenMetrics).unwrap();
        assert!(text.starts_with("# HELP leafd_build The version of leafd.\n"), "{text}");
        assert!(text.contains("# TYPE leafd_build info\nleafd_build_info{version=\"1\"} 1\n"));
        assert!(text.contains("# TYPE leafd_tag_ids counter\n"), "{text}");
        let max = format!("leafd_tag_ids_total{{tag=\"a\\\"b\\\\c\"}} {}\n", u64::MAX);
        assert!(text.contains(&max), "{text}");
        assert!(text.contains("leafd_tag_ids_total{tag=\"订单\"} 0\n"), "{text}");
        assert!(text.contains("\nleafd_ceiling_distance_seconds -0.5\n"), "{text}");
        assert!(text.ends_with("# EOF\n"), "{text}");
    }

    #[test]
    fn a_histogram_has_cumulative_buckets_in_seconds() {
        let text = exposition().render(ExpositionFormat::OpenMetrics).unwrap();
        for line in [
            "leafd_lease_duration_seconds_bucket{le=\"0.001\"} 1",
            "leafd_lease_duration_seconds_bucket{le=\"0.005\"} 2",
            "leafd_lease_duration_seconds_bucket{le=\"10.0\"} 2",
            "leafd_lease_duration_seconds_bucket{le=\"+Inf\"} 3",
            "leafd_lease_duration_seconds_count 3",
            "leafd_lease_duration_seconds_sum 20.004",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }

    #[test]
    fn the_older_format_names_counters_with_their_suffix_and_has_no_info() {
        let text = exposition().render(ExpositionFormat::Text).unwrap();
        assert!(text.contains("# TYPE leafd_tag_ids_total counter\n"), "{text}");
        assert!(text.contains("# HELP leafd_tag_ids_total IDs of the tag"), "{text}");
        assert!(text.contains("# TYPE leafd_build_info gauge\nleafd_build_info{"), "{text}");
        assert!(!text.contains("EOF") && !text.contains(" info\n"), "{text}");
    }
}
