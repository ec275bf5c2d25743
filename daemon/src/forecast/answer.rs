//! Answers to requests for forecasts: how fast tags grow and when they reach each limit, a page of tags at
//! a time.

use leaf_client::wire::{
    ErrorCode, ForecastPage, LimitForecast, TagForecast, TagGrowth, WireError,
};

use super::history::Growth;
use super::keeper::TagRates;
use super::limit::IdLimit;
use crate::environment::Environment;
use crate::segment::messages::TagFigures;
use crate::segment::service::Segments;

/// The forecasts of a running daemon.
pub(crate) struct Forecasts {
    rates: TagRates,
    environment: Environment,
    layout_end_ms: Option<u64>,
}

impl Forecasts {
    /// `layout_end_ms` is when the layout of the snowflake IDs ends, if there are any.
    pub(crate) const fn new(
        rates: TagRates,
        environment: Environment,
        layout_end_ms: Option<u64>,
    ) -> Self {
        Self { rates, environment, layout_end_ms }
    }

    /// At most `limit` tags that this host has used, after the name `after`.
    pub(crate) async fn page(
        &self,
        segments: &Segments,
        after: &str,
        limit: usize,
    ) -> ForecastPage {
        let now_ms = self.environment.unix_ms();
        let tags = segments.figures_after(after, limit, |tag| self.of(now_ms, tag)).await;
        self.answer(now_ms, tags)
    }

    /// The tag `name` alone.
    ///
    /// # Errors
    /// If this host has not used it.
    pub(crate) fn one(&self, segments: &Segments, name: &str) -> Result<ForecastPage, WireError> {
        let now_ms = self.environment.unix_ms();
        let tag = segments.figures_of(name, |tag| self.of(now_ms, tag)).ok_or_else(|| {
            let text = format!(
                "this leafd has not used the tag {name:?}, so it knows no rate; leafctl tag show \
                 has its row, if there is one"
            );
            WireError::new(ErrorCode::UnknownTag, text)
        })?;
        Ok(self.answer(now_ms, vec![tag]))
    }

    fn answer(&self, unix_ms: u64, tags: Vec<TagForecast>) -> ForecastPage {
        ForecastPage { unix_ms, layout_end_unix_ms: self.layout_end_ms, tags }
    }

    fn of(&self, now_ms: u64, tag: &TagFigures<'_>) -> TagForecast {
        let (name, max_id, now_s) = (tag.name.as_str(), tag.high_water_mark, now_ms / 1000);
        forecast(name, max_id, now_s, self.rates.growth(name, now_s, max_id))
    }
}

fn forecast(name: &str, max_id: u64, now_s: u64, growth: Option<Growth>) -> TagForecast {
    let reached = |limit: IdLimit| {
        let at_s = limit.reached_at(now_s, max_id, growth?.per_second())?;
        // A float that is too large for the type becomes its largest value.
        Some((at_s * 1000.0).round() as u64)
    };
    let limit =
        |limit: IdLimit| LimitForecast { limit: limit.value(), reached_unix_ms: reached(limit) };
    TagForecast {
        tag: name.to_owned(),
        max_id,
        growth: growth.map(|Growth { ids, seconds }| TagGrowth { ids, seconds }),
        limits: IdLimit::ALL.map(limit).into(),
    }
}

#[cfg(test)]
mod tests {
    use leaf_client::wire::{
        MAX_RESPONSE_LEN, MAX_TAG_CHARS, MAX_TAGS_PER_PAGE, Reply, Response, decode_response,
        encode_response, split_frame,
    };

    use super::*;
    use crate::ids::BizTag;

    const T0: u64 = 1_800_000_000;

    fn reached(max_id: u64, growth: Option<Growth>) -> Vec<Option<u64>> {
        let tag = forecast("orders", max_id, T0, growth);
        assert!(tag.limits.iter().map(|limit| limit.limit).eq([1 << 31, 1 << 53, 1 << 63]));
        tag.limits.iter().map(|limit| limit.reached_unix_ms).collect()
    }

    #[test]
    fn a_tag_that_grows_reaches_limits_at_the_time_that_the_metrics_have() {
        let growth = Growth { ids: 3000, seconds: 1200 };
        let at = IdLimit::Int32.reached_at(T0, (1 << 31) - 1001, 2.5);
        assert_eq!(at, Some(T0 as f64 + 400.4));
        let times = reached((1 << 31) - 1001, Some(growth));
        assert_eq!(times, [Some(T0 * 1000 + 400_400), None, None]);
    }

    #[test]
    fn a_limit_that_is_passed_a_tag_at_rest_and_one_without_a_rate_have_no_time() {
        let fast = Growth { ids: u64::MAX, seconds: 600 };
        let times = reached(1 << 31, Some(fast));
        assert!(times[0].is_none() && times[1].is_some() && times[2].is_some());
        assert_eq!(reached(5, Some(Growth { ids: 0, seconds: 86_400 })), [None; 3]);
        assert_eq!(reached(5, None), [None; 3]);
    }

    #[test]
    fn the_rate_is_that_of_the_history_and_none_once_the_clock_has_left_it() {
        let name = BizTag::new("orders").unwrap();
        let rates = TagRates::of(vec![(name, vec![(T0, 1000)])]);
        assert_eq!(
            rates.growth("orders", T0 + 600, 7000),
            Some(Growth { ids: 6000, seconds: 600 })
        );
        // Before the reading, too soon after it, and more than a week after it.
        for now_s in [0, T0 - 1, T0 + 599, T0 + 8 * 86_400, u64::MAX] {
            assert_eq!(rates.growth("orders", now_s, 7000), None, "{now_s}");
        }
        assert_eq!(rates.growth("unknown", T0 + 600, 7000), None);
    }

    #[test]
    fn a_page_of_the_longest_tags_fits_into_an_answer() {
        let growth = Growth { ids: u64::MAX, seconds: u64::MAX };
        let mut longest = forecast(&"🦀".repeat(MAX_TAG_CHARS), u64::MAX, T0, Some(growth));
        for limit in &mut longest.limits {
            limit.reached_unix_ms = Some(u64::MAX);
        }
        let tags = vec![longest; MAX_TAGS_PER_PAGE as usize];
        let page = ForecastPage { unix_ms: u64::MAX, layout_end_unix_ms: Some(u64::MAX), tags };
        let response = Response { id: u64::MAX, reply: Reply::Forecasts(page) };
        let mut frame = Vec::new();
        encode_response(&response, &mut frame);
        let (body, _) = split_frame(&frame, MAX_RESPONSE_LEN).unwrap().unwrap();
        assert_eq!(decode_response(body).unwrap(), response);
    }
}
