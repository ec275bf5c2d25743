//! What leafd tells a monitoring system: the list of metrics (`families`), their values at a moment
//! (`gather`, `samples`, `overview`), the two text formats (`render`), and the rate history behind the
//! forecasts (`history`, `forecast`, `keeper`). A transport hands out the text; no HTTP gets in here.

mod families;
mod forecast;
mod gather;
mod history;
mod keeper;
mod overview;
mod render;
mod samples;

pub use families::{FAMILIES, Family, FamilyKind};
pub(crate) use gather::{Metrics, MetricsSources};
pub(crate) use keeper::RateKeeper;
pub(crate) use render::ExpositionFormat;
pub(crate) use samples::HttpFigures;
