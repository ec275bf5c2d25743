use super::super::wire::KeyValue;
use super::*;
use crate::worker::claim::model::{Folder, Tree};
use crate::worker::claim::name::NodeName;
use crate::worker::claim::record::{
    ClaimPhase, FleetRecord, FreeRecord, HolderRecord, LeafRecord, LiveRecord, VERSION,
};

const LEASE: i64 = 77;

fn name() -> NodeName {
    NodeName::new("a", 3)
}

fn leaf(timestamp: u64) -> RegistryRecord {
    RegistryRecord::Leaf(name(), LeafRecord { ip: "i".into(), port: "p".into(), timestamp })
}

fn holder() -> RegistryRecord {
    let (version, nonce, phase) = (VERSION, "n".to_owned(), ClaimPhase::Held);
    let (ceiling, limit, leaf_version) = (1, 2, 0);
    let holder = HolderRecord { version, nonce, phase, ceiling, limit, leaf_version };
    RegistryRecord::Holder(name(), holder)
}

fn live() -> RegistryRecord {
    let (version, nonce, ip, port) = (VERSION, "n".to_owned(), "i".to_owned(), 0);
    RegistryRecord::Live(name(), LiveRecord { version, nonce, ip, port })
}

/// etcd with some keys: executes a transaction as etcd does.
#[derive(Default)]
struct Store {
    keys: BTreeMap<String, KeyValue>,
    revision: i64,
}

impl Store {
    fn snapshot(&self) -> Snapshot {
        self.keys.iter().map(|(path, key)| (path.clone(), Stored::of(key))).collect()
    }

    fn plan(&self, lease: i64, writes: &[RegistryWrite]) -> Result<TxnRequest, Trouble> {
        // No other keys are read for it.
        let (paths, mut before) = (paths(writes), self.snapshot());
        before.retain(|path, _| paths.contains(path));
        plan(writes, &before, lease, |path| path.as_bytes().to_vec())
    }

    fn commit(&mut self, lease: i64, writes: &[RegistryWrite]) -> Result<(), Trouble> {
        let txn = self.plan(lease, writes)?;
        self.revision += 1;
        let mut written = BTreeSet::new();
        for operation in txn.success {
            let (Operation::Put(PutRequest { ref key, .. })
            | Operation::Delete(DeleteRequest { ref key })) = operation
            else {
                panic!("{operation:?}")
            };
            let path = String::from_utf8(key.0.clone()).unwrap();
            assert!(written.insert(path.clone()), "etcd refuses two writes of one key: {path}");
            match operation {
                Operation::Put(put) => {
                    let new =
                        KeyValue { create_revision: Int(self.revision), ..KeyValue::default() };
                    let key = self.keys.entry(path).or_insert(new);
                    (key.value, key.lease, key.mod_revision) =
                        (put.value, put.lease, Int(self.revision));
                    key.version.0 += 1;
                }
                _ => drop(self.keys.remove(&path)),
            }
        }
        Ok(())
    }

    fn version(&self, key: &Key) -> Option<i32> {
        self.keys.get(&tree::path(key)).map(|key| Stored::of(key).version())
    }

    fn lease(&self) -> i64 {
        self.keys[&tree::path(&Key::Live(name()))].lease.0
    }
}

fn claimed() -> Store {
    let mut store = Store::default();
    let all = [leaf(1), holder(), live()].map(RegistryWrite::Create);
    store.commit(LEASE, &all).unwrap();
    store
}

#[test]
fn a_report_counts_versions_and_needs_the_sessions_own_marker() {
    let mut store = claimed();
    for version in 0..5 {
        let report = [
            RegistryWrite::Check(Key::Live(name()), 0),
            RegistryWrite::Set(leaf(2), Some(version)),
            RegistryWrite::Set(holder(), Some(version)),
        ];
        assert_eq!(store.commit(LEASE + 1, &report), Err(Trouble::Conflict));
        store.commit(LEASE, &report).unwrap();
        assert_eq!(store.commit(LEASE, &report), Err(Trouble::Conflict), "it is written once");
        assert_eq!(store.version(&Key::Leaf(name())), Some(version + 1));
    }
}

#[test]
fn what_is_removed_and_made_again_at_once_begins_with_version_0() {
    let mut store = claimed();
    for _ in 0..3 {
        for version in 0..2 {
            store.commit(LEASE, &[RegistryWrite::Set(leaf(2), Some(version))]).unwrap();
        }
        let anew = [
            RegistryWrite::Delete(Key::Holder(name()), 0),
            RegistryWrite::Delete(Key::Leaf(name()), 2),
            RegistryWrite::Create(leaf(3)),
            RegistryWrite::Create(holder()),
        ];
        store.commit(LEASE, &anew).unwrap();
        let versions = [Key::Leaf(name()), Key::Holder(name())].map(|key| store.version(&key));
        assert_eq!(versions, [Some(0), Some(0)]);
    }
}

#[test]
fn a_marker_of_an_earlier_session_becomes_the_present_ones() {
    let mut store = claimed();
    for lease in LEASE + 1..LEASE + 4 {
        let again = [RegistryWrite::Delete(Key::Live(name()), 0), RegistryWrite::Create(live())];
        store.commit(lease, &again).unwrap();
        assert_eq!((store.version(&Key::Live(name())), store.lease()), (Some(0), lease));
        store.commit(lease, &[RegistryWrite::Check(Key::Live(name()), 0)]).unwrap();
    }
}

#[test]
fn every_key_that_a_write_depends_on_is_compared() {
    let store = claimed();
    let absent = RegistryWrite::Absent(Key::Free(name()));
    let writes = [absent, RegistryWrite::Delete(Key::Holder(name()), 0)];
    let txn = store.plan(LEASE, &writes).unwrap();
    let compared: Vec<_> = writes.iter().flat_map(|it| paths(std::slice::from_ref(it))).collect();
    assert_eq!((txn.compare.len(), txn.success.len()), (2, 1));
    assert!(txn.compare.contains(&Unchanged::since(compared[0].clone().into_bytes(), 0)));
    assert!(txn.compare.contains(&Unchanged::since(compared[1].clone().into_bytes(), 1)));
    // A worker ID with the record of its holder, which somebody might make meanwhile.
    assert_eq!(paths(&[RegistryWrite::Delete(Key::Leaf(name()), 0)]).len(), 2);
    assert_eq!(paths(&[RegistryWrite::Create(holder())]).len(), 2);
}

#[test]
fn what_is_not_as_expected_is_a_conflict() {
    let (full, empty) = (claimed(), Store::default());
    for (store, write) in [
        (&full, RegistryWrite::Check(Key::Leaf(name()), 1)),
        (&empty, RegistryWrite::Check(Key::Leaf(name()), 0)),
        (&full, RegistryWrite::Absent(Key::Live(name()))),
        (&full, RegistryWrite::Create(leaf(1))),
        (&empty, RegistryWrite::Create(holder())),
        (&full, RegistryWrite::Set(leaf(1), Some(1))),
        (&empty, RegistryWrite::Set(leaf(1), None)),
        (&full, RegistryWrite::Delete(Key::Holder(name()), 1)),
        (&full, RegistryWrite::Delete(Key::Leaf(name()), 0)),
        (&empty, RegistryWrite::Delete(Key::Live(name()), 0)),
    ] {
        let outcome = store.plan(LEASE, std::slice::from_ref(&write));
        assert_eq!(outcome.err(), Some(Trouble::Conflict), "{write:?}");
    }
    full.plan(LEASE, &[RegistryWrite::Set(leaf(1), None)]).unwrap();
}

const LAYOUT: &str = "layout";

fn any_key(random: &mut fastrand::Rng) -> Key {
    let identity = random.choice(["a", "ö/-%"]).unwrap();
    let name = NodeName::new(identity, random.u64(0..2));
    let keys =
        [Key::Fleet, Key::leaf(&name), Key::holder(&name), Key::live(&name), Key::free(&name)];
    random.choice(keys).unwrap()
}

fn any_record(random: &mut fastrand::Rng) -> RegistryRecord {
    let (number, nonce, version) = (random.u64(0..1000), "n".to_owned(), VERSION);
    match any_key(random) {
        Key::Fleet => RegistryRecord::Fleet(FleetRecord { version, layout: LAYOUT.to_owned() }),
        Key::Leaf(name) => {
            let (ip, port) = ("i".to_owned(), "p".to_owned());
            RegistryRecord::Leaf(name, LeafRecord { ip, port, timestamp: number })
        }
        Key::Holder(name) => {
            let (phase, ceiling, limit, leaf_version) = (ClaimPhase::Held, number, number + 1, 0);
            let holder = HolderRecord { version, nonce, phase, ceiling, limit, leaf_version };
            RegistryRecord::Holder(name, holder)
        }
        Key::Live(name) => {
            let (ip, port) = ("i".to_owned(), 1);
            RegistryRecord::Live(name, LiveRecord { version, nonce, ip, port })
        }
        Key::Free(name) => RegistryRecord::Free(name, FreeRecord { version, not_before: number }),
    }
}

fn any_write(random: &mut fastrand::Rng) -> RegistryWrite {
    let version = random.i32(0..3);
    match random.u32(0..10) {
        0 => RegistryWrite::Check(any_key(random), version),
        1 => RegistryWrite::Absent(any_key(random)),
        2..6 => RegistryWrite::Create(any_record(random)),
        6..8 => RegistryWrite::Set(any_record(random), random.bool().then_some(version)),
        _ => RegistryWrite::Delete(any_key(random), version),
    }
}

/// Which records there are, and what those of worker IDs say, with their versions.
fn assert_alike(store: &Store, tree: &Tree, writes: &[RegistryWrite]) {
    let [owned, live, free] =
        [Folder::Owned, Folder::Live, Folder::Free].map(|folder| tree.names(folder));
    let keys = |names: &[NodeName], key: fn(&NodeName) -> Key| names.iter().map(key).collect();
    let holders: Vec<_> = owned.iter().filter(|name| tree.holder(name).is_some()).collect();
    let all: [Vec<Key>; 3] =
        [keys(&owned, Key::leaf), keys(&live, Key::live), keys(&free, Key::free)];
    let mut all: BTreeSet<_> = all.concat().iter().map(tree::path).collect();
    all.extend(holders.iter().map(|name| tree::path(&Key::holder(name))));
    all.insert(tree::path(&Key::Fleet));
    assert!(all.iter().eq(store.keys.keys()), "{writes:?}: {all:?}, {:?}", store.keys.keys());
    for name in &owned {
        let stored = |key: Key| Stored::of(&store.keys[&tree::path(&key)]);
        let (leaf, modelled) = (stored(Key::leaf(name)).versioned(), tree.leaf(name).unwrap());
        assert_eq!((leaf.value, leaf.version), (modelled.value, modelled.version), "{writes:?}");
        if let Some(modelled) = tree.holder(name) {
            let holder = stored(Key::holder(name)).versioned();
            let expected = (modelled.value, modelled.version);
            assert_eq!((holder.value, holder.version), expected, "{writes:?}");
        }
    }
}

/// The claim was tested with the model, so whatever holds there holds here.
#[test]
fn any_writes_have_the_outcome_that_they_have_in_the_model_of_the_claims_tests() {
    let (mut done, mut refused, mut overwritten) = (0, 0, 0);
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut store, mut tree) = (Store::default(), Tree::new(LAYOUT));
        let layout = LAYOUT.to_owned();
        let fleet = RegistryRecord::Fleet(FleetRecord { version: VERSION, layout });
        store.commit(LEASE, &[RegistryWrite::Create(fleet)]).unwrap();
        for _ in 0..100 {
            let writes: Vec<_> = (0..random.usize(1..5)).map(|_| any_write(&mut random)).collect();
            // The fleet's record is never deleted.
            if writes.iter().any(|it| matches!(it, RegistryWrite::Delete(Key::Fleet, _))) {
                continue;
            }
            let is_done = tree.execute(&writes, 1, 0);
            let expected = if is_done { Ok(()) } else { Err(Trouble::Conflict) };
            assert_eq!(store.commit(LEASE, &writes), expected, "seed {seed}: {writes:?}");
            (done, refused) = (done + u32::from(is_done), refused + u32::from(!is_done));
            assert_alike(&store, &tree, &writes);
        }
        let is_over =
            |key: &&KeyValue| String::from_utf8_lossy(&key.value.0).contains("overwrites");
        overwritten += store.keys.values().filter(is_over).count();
    }
    println!("{done} commits, {refused} conflicts, {overwritten} keys overwritten");
    assert!(done > 1000 && refused > 1000 && overwritten > 10, "{done}, {refused}, {overwritten}");
}
