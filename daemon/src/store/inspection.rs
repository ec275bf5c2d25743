//! What a shared database says of itself, for `leafctl doctor`. It is read on a connection of its own,
//! in a transaction that may not write. What is wrong with it is judged elsewhere.

use super::StoreSource;

/// A right that leafd's user lacks, and what fails without it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MissingRight {
    /// As in `UPDATE on leaf_alloc`.
    pub(crate) right: &'static str,
    pub(crate) needed_for: RightUse,
}

/// What needs a right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RightUse {
    /// Every lease.
    Lease,
    /// Knowing another database at the same address.
    Identity,
    /// `leafctl tag create` and `segment.auto-create`.
    Create,
    /// `leafctl tag delete`.
    Delete,
}

/// A table of leafd's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OwnTable {
    /// It is there, with what leafd needs in it.
    There,
    Missing,
    /// It has no row. Only the identity needs one.
    Empty,
}

/// The columns of `leaf_alloc`, as far as they can be too small.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ColumnFacts {
    /// The type of `max_id`, as the database calls it.
    pub(crate) max_id: String,
    /// The highest `max_id` of any tag, read only if the type is narrow.
    pub(crate) highest: Option<u64>,
    /// How many characters `biz_tag` holds; none if there is no limit.
    pub(crate) tag_chars: Option<u64>,
    /// Whether two rows of one tag are impossible.
    pub(crate) is_unique: bool,
    /// Why the table loses rows or locks, such as `ENGINE=MyISAM`; empty if it does not.
    pub(crate) unsafe_table: String,
}

/// A setting of the server with which a crash loses committed leases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LooseSetting {
    /// As in `sync_binlog = 0`.
    pub(crate) is: String,
    /// As in `sync_binlog = 1`.
    pub(crate) should_be: &'static str,
    /// Whether this server's crash loses leases; else only its replicas differ from it.
    pub(crate) loses_leases: bool,
}

/// How the server's writes reach others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReplicationFacts {
    /// Nobody copies the server's writes.
    Alone,
    /// So many do, and a commit waits for one of them.
    Waits(u64),
    /// So many do, and no commit waits.
    Behind(u64),
    /// No commit waits; leafd's user may not see whether anybody copies them.
    Unseen,
}

/// What a database says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoreFacts {
    /// Product and version.
    pub(crate) server: String,
    /// The setting that refuses writes, as in `read_only = ON`.
    pub(crate) read_only: Option<String>,
    pub(crate) has_tags: bool,
    pub(crate) tombstones: OwnTable,
    pub(crate) identity: OwnTable,
    pub(crate) missing_rights: Vec<MissingRight>,
    pub(crate) columns: ColumnFacts,
    pub(crate) loose: Vec<LooseSetting>,
    pub(crate) replication: ReplicationFacts,
    /// What to set so that commits wait for a replica.
    pub(crate) waits_with: &'static str,
}

/// The highest value of an integer type; none if the type is as wide as leafd's numbers, or no
/// integer.
pub(crate) fn narrow(type_name: &str) -> Option<u64> {
    let name = type_name.to_ascii_lowercase();
    let base = name.split(['(', ' ']).next().unwrap_or_default();
    let signed: u64 = match base {
        "tinyint" => 0x7f,
        "smallint" | "int2" => 0x7fff,
        "mediumint" => 0x7f_ffff,
        "int" | "integer" | "int4" => 0x7fff_ffff,
        _ => return None,
    };
    Some(if name.contains("unsigned") { signed * 2 + 1 } else { signed })
}

/// Reads what a store that hosts share says of itself; nothing of another. Nothing bounds the time of this.
///
/// # Errors
/// When the database does not answer, or refuses.
pub(crate) async fn inspect(source: StoreSource) -> Result<Option<StoreFacts>, String> {
    match source {
        StoreSource::Embedded(_) => Ok(None),
        StoreSource::Shared(shared) => (shared.address.database().inspect)(&shared).await.map(Some),
        #[cfg(feature = "redis")]
        StoreSource::Redis(store) => super::redis::inspect(*store).await.map(Some),
        StoreSource::Several(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_narrower_than_64_bits_are_known() {
        for (name, most) in [
            ("int(11)", Some(2_147_483_647)),
            ("int(10) unsigned", Some(4_294_967_295)),
            ("INT UNSIGNED", Some(4_294_967_295)),
            ("integer", Some(2_147_483_647)),
            ("smallint", Some(32_767)),
            ("mediumint(8) unsigned", Some(16_777_215)),
            ("bigint(20)", None),
            ("bigint", None),
            ("numeric(20,0)", None),
        ] {
            assert_eq!(narrow(name), most, "{name}");
        }
    }
}
