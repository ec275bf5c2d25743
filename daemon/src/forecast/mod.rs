//! How fast tags grow, and when their IDs outgrow a type: the rate history (`history`, `keeper`), the
//! limits (`limit`), and the answers to requests (`answer`). Metrics and answers take their figures
//! from the same place, so that they never disagree. No transport gets in here.

mod answer;
mod history;
mod keeper;
mod limit;

pub(crate) use answer::Forecasts;
pub(crate) use history::Growth;
pub(crate) use keeper::{RateKeeper, TagRates};
pub(crate) use limit::IdLimit;
