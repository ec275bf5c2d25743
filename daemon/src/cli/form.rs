//! The options that say which form of an ID leafctl prints.

use std::path::PathBuf;

use clap::Args;
use leaf_client::form::{FleetId, IdForm};

/// The form of the IDs.
#[derive(Debug, Clone, Args)]
pub struct FormArgs {
    /// Print IDs in this form.
    // Not from the comment, in which the brackets would be links.
    #[arg(
        long = "as",
        value_name = "FORM",
        help = "Print IDs in this form: decimal, base62, base36, crockford32, padded[N], each with an \
                optional prefix such as ord_base62; for a tag dated@ZONE, such as dated@UTC or \
                dated@+08:00, and uuid5; for snowflake IDs uuid7, uuid8, uuid1 and objectid; public \
                with an optional prefix [default: decimal]"
    )]
    pub form: Option<IdForm>,

    /// Put this fleet ID into UUIDs and ObjectIDs: 10 hexadecimal digits, the installation's own
    #[arg(long, value_name = "HEX", env = "LEAFD_FLEET")]
    pub fleet: Option<FleetId>,

    /// Make public IDs by the keys in FILE, of which the first one encodes; without it, by leafd's
    #[arg(long, value_name = "FILE", env = "LEAFD_PUBLIC_KEYS")]
    pub keys: Option<PathBuf>,
}
