//! What only etcd does to its clients: keys are overwritten, deleted and compacted, leases are revoked, and one
//! member of several freezes. No ID comes twice, and every instance keeps its worker ID. What it has in common
//! with every registry is in `worker_outage.rs`, `worker_data_lost.rs` and the programs beside them.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use leaf_client::Layout;
use leafd_tests::etcd::{LoadedHost, instance};
use leafd_tests::load::SNOWFLAKE;
use leafd_tests::workers::{BatchLoad, SnowflakeCaller};
use leafd_tests::{EtcdCluster, UniqueIds, with_each};
use tempfile::TempDir;

/// Instances with the default timeouts.
fn start(cluster: &EtcdCluster, numbers: RangeInclusive<u32>, seen: &UniqueIds) -> Vec<LoadedHost> {
    let home = |number| {
        let endpoints = cluster.endpoints();
        move |folder: &TempDir| {
            instance(folder.path(), &endpoints, &format!("host-{number}"))
                .with("ETCD_SESSION_TIMEOUT", "10s")
                .with("ETCD_TIMEOUT", "2s")
        }
    };
    numbers.map(|number| LoadedHost::start(home(number), seen)).collect()
}

/// An instance with short timeouts.
fn one(cluster: &EtcdCluster, seen: &UniqueIds) -> LoadedHost {
    LoadedHost::start(|folder| instance(folder.path(), &cluster.endpoints(), "host-1"), seen)
}

fn with_worker_ids(hosts: Vec<LoadedHost>) -> Vec<(LoadedHost, u64)> {
    let with_worker_id = |host: LoadedHost| {
        let worker = host.worker();
        (host, worker)
    };
    hosts.into_iter().map(with_worker_id).collect()
}

/// Asserts that each of `old` kept its worker ID throughout, that each newcomer had exactly one of its own,
/// and that etcd records all of them.
fn all_have_their_own(
    cluster: &EtcdCluster,
    old: Vec<(LoadedHost, u64)>,
    newcomers: Vec<LoadedHost>,
) {
    with_each(&old, |(host, worker)| host.keeps(*worker));
    with_each(&newcomers, |host| {
        host.worker();
        host.caller.reports();
    });
    let names = cluster.names("leaf", "forever");
    let number = |name: &String| name.rsplit('-').next().unwrap().parse::<u64>().unwrap();
    let recorded: BTreeSet<u64> = names.iter().map(number).collect();
    let mut of_each = Vec::new();
    for (host, worker) in old {
        let workers = host.stop();
        assert!(workers.iter().eq([&worker]), "{workers:?} instead of {worker}");
        of_each.push(workers);
    }
    of_each.extend(newcomers.into_iter().map(LoadedHost::stop));
    println!("worker IDs: {of_each:?}");
    let mut all = BTreeSet::new();
    for workers in &of_each {
        assert_eq!(workers.len(), 1, "{of_each:?}");
        assert!(all.is_disjoint(workers), "{of_each:?}");
        all.extend(workers);
    }
    assert!(recorded.is_superset(&all), "{recorded:?} are in etcd, {all:?} in use");
}

#[test]
fn an_instance_that_lost_its_state_takes_its_own_worker_id_over_once_its_time_is_over() {
    /// Two worker IDs, so that there is no other one to take.
    const TWO: &str = "47/1/15@1288834974657/1ms";
    let cluster = EtcdCluster::single();
    let seen = UniqueIds::default();
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let home = |number: usize| {
        instance(folders[number].path(), &cluster.endpoints(), &format!("host-{number}"))
            .with("SNOWFLAKE_LAYOUT", TWO)
            .with("WORKER_FENCE_AFTER", "10s")
            .with("WORKER_RECLAIM_AFTER", "20s")
    };
    let homes = [0, 1].map(home);
    let layout: Layout = TWO.parse().unwrap();
    let mut daemons = homes.each_ref().map(|home| Some(home.spawn()));
    let batches = homes.each_ref().map(|home| BatchLoad::of(home, layout, &seen));
    let keys = || cluster.keys("/leafd/leaf/forever/");
    for _ in 0..2 {
        homes.iter().zip(&batches).for_each(|(home, batches)| batches.are_served(home));
        drop(daemons[0].take().expect("it runs").kill());
        std::fs::remove_dir_all(homes[0].state()).unwrap();
        daemons[0] = Some(homes[0].start());
        SnowflakeCaller::of(&homes[0], &seen).is_refused("worker IDs of the layout are taken");
        batches[0].are_served(&homes[0]);
        SnowflakeCaller::of(&homes[0], &seen).reports();
    }
    // Its keys were overwritten, and count as new.
    let of_first = keys().into_iter().filter(|(key, _)| key.contains("host%2D0"));
    let records: Vec<_> = of_first.map(|(_, record)| record).collect();
    assert!(
        records.len() == 2 && records.iter().all(|it| it.contains("overwrites")),
        "{records:?}"
    );
    let workers = batches.map(|batches| batches.finish().workers);
    assert!(workers.iter().all(|workers| workers.len() == 1), "{workers:?}");
    assert!(workers[0].is_disjoint(&workers[1]), "{workers:?}");
    daemons.into_iter().flatten().for_each(|daemon| drop(daemon.stop()));
    println!("{} IDs over two losses of a state directory", seen.count(SNOWFLAKE));
}

#[test]
fn running_instances_put_back_what_an_operator_deletes() {
    let cluster = EtcdCluster::of(3);
    let seen = UniqueIds::default();
    let old = with_worker_ids(start(&cluster, 1..=3, &seen));
    let newcomers = start(&cluster, 4..=5, &seen);
    cluster.ctl(&["del", "--prefix", "/leafd/leaf/"]);
    all_have_their_own(&cluster, old, newcomers);
    println!("{} IDs over a deletion of all keys", seen.count(SNOWFLAKE));
}

#[test]
fn an_instance_whose_lease_is_revoked_registers_anew_and_goes_on() {
    let cluster = EtcdCluster::of(3);
    let seen = UniqueIds::default();
    let host = one(&cluster, &seen);
    let worker = host.worker();
    // Each report comes after the instance has registered, unless its lease has just ended.
    let lease = |not: &str| {
        let lease = || {
            host.caller.reports();
            cluster.leases("leaf").into_iter().find(|lease| lease != not)
        };
        (0..20).find_map(|_| lease()).unwrap_or_else(|| panic!("no lease\n{}", host.home.log()))
    };
    let mut present = lease("");
    for _ in 0..3 {
        cluster.ctl(&["lease", "revoke", &present]);
        present = lease(&present);
        host.keeps(worker);
    }
    let (workers, ended) = host.stop_with_log();
    assert!(workers.iter().eq([&worker]), "{workers:?}");
    assert!(ended.count("INFO session in etcd at") > 3, "{ended}");
    println!("{} IDs over three revoked leases", seen.count(SNOWFLAKE));
}

#[test]
fn compaction_and_defragmentation_disturb_no_instance() {
    let cluster = EtcdCluster::of(3);
    let seen = UniqueIds::default();
    let host = one(&cluster, &seen);
    let worker = host.worker();
    for _ in 0..3 {
        host.caller.reports();
        let text = cluster.ctl(&["get", "nothing", "--write-out=json"]);
        let status: serde_json::Value = serde_json::from_str(&text).unwrap();
        let revision = status["header"]["revision"].to_string();
        cluster.ctl(&["compact", &revision]);
        for member in 0..3 {
            cluster.ctl_at(member, &["defrag"]);
        }
        host.keeps(worker);
    }
    assert!(host.stop().iter().eq([&worker]));
    println!("{} IDs over three compactions", seen.count(SNOWFLAKE));
}

#[test]
fn every_instance_goes_on_while_each_member_freezes_in_turn() {
    let cluster = EtcdCluster::of(3);
    let seen = UniqueIds::default();
    let hosts = with_worker_ids(start(&cluster, 1..=6, &seen));
    for member in 0..3 {
        cluster.freeze(member);
        with_each(&hosts, |(host, worker)| host.keeps(*worker));
        cluster.thaw(member);
        std::thread::sleep(Duration::from_millis(fastrand::u64(..500)));
        with_each(&hosts, |(host, worker)| host.keeps(*worker));
    }
    for (host, worker) in hosts {
        assert!(host.stop().iter().eq([&worker]));
    }
    println!("{} IDs of 6 instances while each member froze in turn", seen.count(SNOWFLAKE));
}
