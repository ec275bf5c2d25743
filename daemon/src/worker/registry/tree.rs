//! Where each record is, below the name of a fleet, and its bytes: Java Leaf's tree in ZooKeeper, and the
//! same paths in every other registry.

use crate::worker::claim::record;
use crate::worker::claim::write::{Key, RegistryRecord};

/// Below it: a persistent node for each worker ID that has an owner.
pub(crate) const FOREVER: &str = "forever";

/// Below it: an ephemeral node for each instance that lives.
pub(crate) const TEMPORARY: &str = "temporary";

/// Below it: worker IDs that were given back.
pub(crate) const FREE: &str = "free";

/// What all instances agree on; and the name of leafd's record below the node of a worker ID.
pub(crate) const LEAFD: &str = "leafd";

/// Written only to learn ZooKeeper's time.
pub(crate) const CLOCK: &str = "leafd/clock";

/// The path of a record.
pub(crate) fn path(key: &Key) -> String {
    match key {
        Key::Fleet => LEAFD.to_owned(),
        Key::Leaf(name) => format!("{FOREVER}/{name}"),
        Key::Holder(name) => format!("{FOREVER}/{name}/{LEAFD}"),
        Key::Live(name) => format!("{TEMPORARY}/{name}"),
        Key::Free(name) => format!("{FREE}/{name}"),
    }
}

/// The bytes of a record.
pub(crate) fn bytes(record: &RegistryRecord) -> Vec<u8> {
    match record {
        RegistryRecord::Fleet(fleet) => record::write(fleet),
        RegistryRecord::Leaf(_, leaf) => record::write(leaf),
        RegistryRecord::Holder(_, holder) => record::write(holder),
        RegistryRecord::Live(_, live) => record::write(live),
        RegistryRecord::Free(_, free) => record::write(free),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::claim::name::NodeName;

    #[test]
    fn records_are_where_java_leaf_and_earlier_versions_have_them() {
        let name = NodeName::new("10.0.0.7:8080", 3);
        let paths = [Key::Fleet, Key::leaf(&name), Key::holder(&name), Key::live(&name)];
        let expected = [
            "leafd",
            "forever/10.0.0.7:8080-0000000003",
            "forever/10.0.0.7:8080-0000000003/leafd",
            "temporary/10.0.0.7:8080-0000000003",
        ];
        assert_eq!(paths.each_ref().map(path), expected);
        assert_eq!(path(&Key::free(&name)), "free/10.0.0.7:8080-0000000003");
    }
}
