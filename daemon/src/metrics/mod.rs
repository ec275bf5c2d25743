//! What leafd tells a monitoring system: the list of metrics (`families`), their values at a moment
//! (`gather`, `samples`, `overview`), and the two text formats (`render`). The forecasts among them come
//! from their own room. A transport hands out the text; no HTTP gets in here.

mod families;
mod gather;
mod overview;
mod render;
mod samples;

pub use families::{FAMILIES, Family, FamilyKind};
pub(crate) use gather::{Metrics, MetricsSources};
pub(crate) use render::ExpositionFormat;
pub(crate) use samples::HttpFigures;
