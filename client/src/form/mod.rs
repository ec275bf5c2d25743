//! Forms of an ID: short, readable, sortable, or shaped like a UUID.
//!
//! A form is a pure, reversible function of the one safe number, so every form is as unique as the number
//! is. Nothing here asks a daemon, reads a clock or needs a runtime.
//!
//! - [`TextForm`]: the number in other digits, and [`PrefixedForm`] with a prefix in front.
//! - [`Day`]: numbers that start over every day.
//! - [`Snowflakes`]: UUIDs of version 7, 8 and 1 and ObjectIDs that hold a snowflake.
//! - [`IdForm`] and [`FormCodec`]: any of these by its name, as `leafctl next --as NAME` takes it.
//! - `public`, with the feature of that name: texts that outsiders cannot count.
//! - [`recognise`]: which form a text has.
//!
//! ```
//! use leaf_client::form::TextForm;
//!
//! let mut text = String::new();
//! TextForm::Base62.encode_into(2_124_029_785_372_885_063, &mut text)?;
//! assert_eq!(text, "2Wu4tUJSwrv");
//! assert_eq!(TextForm::Base62.decode(&text), Ok(2_124_029_785_372_885_063));
//! # Ok::<(), leaf_client::form::FormError>(())
//! ```

mod bits;
mod codec;
mod day;
mod digits;
mod error;
mod fleet;
#[cfg(test)]
mod golden;
mod hex;
mod name;
mod object_id;
mod prefix;
#[cfg(feature = "public")]
pub mod public;
mod recognise;
mod snowflakes;
#[cfg(test)]
mod tests;
mod text;
mod uuid;
#[cfg(feature = "uuid5")]
mod uuid5;

pub use codec::{FormCodec, FormContext};
pub use day::{Day, Zone};
pub use error::{FormError, FormNeed};
pub use fleet::FleetId;
pub use name::{IdForm, UuidVersion};
pub use object_id::ObjectId;
pub use prefix::PrefixedForm;
pub use recognise::{FormReading, recognise};
pub use snowflakes::{Snowflakes, fleet_of};
pub use text::TextForm;
pub use uuid::Uuid;
#[cfg(feature = "uuid5")]
pub use uuid5::{NAMESPACE, TagHash};
