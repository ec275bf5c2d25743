//! Facts for the tests of the checks: a host with nothing wrong, and hosts with everything wrong.

use leaf_client::Layout;
use leaf_client::wire::{DaemonStatus, SegmentTotals, SnowflakeState, SnowflakeStatus, TagStatus};

use crate::config::Config;
use crate::doctor::facts::{
    ClockFacts, ConfigurationFacts, DaemonFacts, DiskFacts, Facts, HostFacts, ProcessFacts, Seen,
    SocketFacts, StateFacts,
};
use crate::doctor::finding::{Check, Finding};
use crate::doctor::mounts::{Mount, StorageKind};
use crate::store::StoreFacts;
use crate::store::inspection::{ColumnFacts, OwnTable, ReplicationFacts};

const NOW_MS: u64 = 1_800_000_000_000;

/// A configuration that leafd would start with.
pub(super) fn config(toml: &str) -> ConfigurationFacts {
    let config: Config = toml::from_str(toml).unwrap();
    assert_eq!(config.check(), vec![]);
    ConfigurationFacts::Right {
        config: Box::new(config),
        from: "/etc/leafd/leafd.toml".to_owned(),
        modified_ms: Some(1),
        warnings: Vec::new(),
    }
}

/// A tag that nobody asks for.
pub(super) fn tag(name: &str) -> TagStatus {
    TagStatus {
        tag: name.to_owned(),
        row_step: 1000,
        step: 1000,
        max_id: 1001,
        description: String::new(),
        current: None,
        next: None,
        position: 0,
        remaining: 0,
        issued: 0,
        leases: 0,
        last_lease_ms_ago: None,
        last_lease_size: 0,
        waiting: 0,
        lease_error: String::new(),
        seconds_left: None,
    }
}

fn status() -> DaemonStatus {
    DaemonStatus {
        version: "0.1.0".to_owned(),
        pid: 1,
        uptime_ms: 60_000,
        connections: 1,
        requests: 1,
        state_dir: "/var/lib/leafd".to_owned(),
        segments: SegmentTotals {
            store: "postgres leaf@db:5432/leaf".to_owned(),
            store_error: String::new(),
            tags: 1,
            waiting: 0,
            issued: 0,
            leases: 0,
        },
        snowflake: SnowflakeStatus {
            state: SnowflakeState::Serving,
            worker: Some(7),
            registry: "fixed".to_owned(),
            layout: Layout::LEAF.to_string(),
            ceiling_unix_ms: NOW_MS,
            last_unix_ms: 0,
            clock_unix_ms: NOW_MS,
            issued: 0,
            identity: String::new(),
            last_report_ms_ago: None,
            registry_error: String::new(),
            limit_unix_ms: None,
            clock_offset_ms: None,
            peers: 0,
        },
    }
}

/// A host with a shared store and a worker ID of its own, and nothing wrong.
pub(super) fn healthy() -> Facts {
    Facts {
        now_ms: NOW_MS,
        version: "0.1.0",
        configuration: config(
            "[worker]\nid = 7\n[store]\nkind = \"postgres\"\nurl = \"postgres://leaf@db/leaf\"",
        ),
        daemon: DaemonFacts::Up { status: Box::new(status()), tags: Ok(vec![tag("orders")]) },
        socket: SocketFacts {
            path: "/run/leafd/leafd.sock".into(),
            clients_look_at: "/run/leafd/leafd.sock".into(),
            mode: Some(0o140_660),
            group: "apps".to_owned(),
            owner: "leafd".to_owned(),
        },
        host: HostFacts {
            clock: Seen::As(ClockFacts::Synchronised),
            all_files: Some((1000, 1_000_000)),
            process: Some(ProcessFacts {
                uid: 998,
                most_files: Some(65_536),
                open_files: Some(20),
            }),
        },
        other_descriptors: 320,
        state: Seen::As(StateFacts {
            path: "/var/lib/leafd".into(),
            uid: 998,
            mode: 0o40_700,
            mount: Mount { kind: "ext4".to_owned(), ..Mount::default() },
            storage: StorageKind::Disk,
            disk: DiskFacts {
                free_bytes: 10 << 30,
                total_bytes: 20 << 30,
                free_inodes: 1_000_000,
                total_inodes: 2_000_000,
                read_only: false,
            },
            strangers: Some(Vec::new()),
        }),
        store: Seen::As(StoreFacts {
            server: "PostgreSQL 17".to_owned(),
            read_only: None,
            has_tags: true,
            tombstones: OwnTable::There,
            identity: OwnTable::There,
            missing_rights: Vec::new(),
            columns: ColumnFacts {
                max_id: "bigint".to_owned(),
                highest: None,
                tag_chars: Some(128),
                is_unique: true,
                unsafe_table: String::new(),
            },
            loose: Vec::new(),
            replication: ReplicationFacts::Alone,
            waits_with: "synchronous_standby_names",
        }),
        databases: Vec::new(),
        registry: Seen::Nothing,
    }
}

/// Hosts with a lot wrong.
pub(super) fn sick() -> Vec<Facts> {
    let silent = Facts { daemon: DaemonFacts::Silent("hangs".to_owned()), ..healthy() };
    let wrong = Facts {
        configuration: ConfigurationFacts::Wrong("worker.id".to_owned()),
        daemon: DaemonFacts::Down("refused".to_owned()),
        store: Seen::Not("refused".to_owned()),
        state: Seen::Nothing,
        ..healthy()
    };
    let mut worn = healthy();
    worn.version = "9.9.9-with-a-suffix";
    worn.host.clock = Seen::As(ClockFacts::Free);
    worn.host.all_files = Some((9, 10));
    worn.now_ms = Layout::LEAF.end_ms() - 1;
    running(&mut worn).snowflake.worker = Some(0);
    state(&mut worn).disk.read_only = true;
    state(&mut worn).storage = StorageKind::Memory;
    state(&mut worn).strangers = Some(vec!["x".to_owned()]);
    let facts = store(&mut worn);
    facts.tombstones = OwnTable::Missing;
    facts.identity = OwnTable::Missing;
    facts.columns = ColumnFacts { max_id: "int(10) unsigned".to_owned(), ..facts.columns.clone() };
    facts.columns.is_unique = false;
    facts.columns.unsafe_table = "ENGINE=MyISAM".to_owned();
    facts.replication = ReplicationFacts::Behind(12);
    vec![silent, wrong, worn]
}

/// The status of the daemon that runs.
pub(super) fn running(facts: &mut Facts) -> &mut DaemonStatus {
    match &mut facts.daemon {
        DaemonFacts::Up { status, .. } => status,
        other => panic!("{other:?}"),
    }
}

pub(super) fn state(facts: &mut Facts) -> &mut StateFacts {
    match &mut facts.state {
        Seen::As(state) => state,
        other => panic!("{other:?}"),
    }
}

pub(super) fn store(facts: &mut Facts) -> &mut StoreFacts {
    match &mut facts.store {
        Seen::As(store) => store,
        other => panic!("{other:?}"),
    }
}

/// The worst finding of a check.
pub(super) fn of(facts: &Facts, check: Check) -> Finding {
    let findings = super::examine(facts);
    let found = findings.iter().find(|finding| finding.check == check);
    found.unwrap_or_else(|| panic!("{check:?}: {findings:#?}")).clone()
}
