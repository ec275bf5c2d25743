use leaf_client::Layout;
use leaf_client::wire::{ErrorCode, WireError};
use tokio::time::Instant;

use super::*;
use crate::config::Config;
use crate::snowflake::issuer::{Issuer, IssuerSettings};
use crate::snowflake::sequencer::SequencerRules;
use crate::state::dir::{ForeignPolicy, StateDir, StateError, WorkerPast};
use crate::state::owner::StateOwner;
use crate::state::worker_file::{SharedClaim, Standing};
use crate::state::writer::Writer;
use crate::worker::claim::registrar::MOST_NONCES;
use crate::worker::issuing::{IssuingRules, IssuingUser};
use crate::worker::registry::{RegistryConnection, SharedRegistry, WorkerSource, open};

/// ZooKeeper, at an address where nobody listens.
fn registry(environment: &Environment) -> SharedRegistry {
    let mut config = Config::default();
    config.worker.registry = crate::config::RegistryKind::ZooKeeper;
    config.zookeeper.servers = Some("127.0.0.1:1".to_owned());
    config.zookeeper.timeout = Duration::from_secs(1);
    match open(&config, None, environment) {
        Ok(WorkerSource::Shared(shared)) => shared,
        _ => panic!("not shared"),
    }
}

fn settings(shared: &SharedRegistry) -> RegistrarSettings {
    RegistrarSettings {
        registry: shared.registry.name(),
        rules: shared.rules,
        layout: Layout::LEAF.to_string(),
        max_worker: Layout::LEAF.max_worker(),
    }
}

fn issuing() -> IssuingRules {
    IssuingRules {
        sequence: SequencerRules {
            layout: Layout::LEAF,
            worker: 0,
            max_lead_ms: 10,
            tolerance_ms: 5,
            start_wait_ms: 5000,
            random_start: 0,
        },
        max_offset_ms: 5000,
        give_back: false,
    }
}

/// One life on a state directory, for as long as ZooKeeper takes to be found away. Returns whether
/// IDs were issued.
async fn life(folder: &std::path::Path) -> bool {
    // The thread that writes for the life before holds the lock until it has ended.
    let state = loop {
        match StateDir::lock(folder, &Environment::system()) {
            Ok(state) => break state,
            Err(StateError::Locked { .. }) => tokio::time::sleep(Duration::from_millis(1)).await,
            Err(error) => panic!("{error}"),
        }
    };
    let contents =
        state.open(&StateOwner::here(Some("m"), "", None), ForeignPolicy::Refuse).unwrap();
    let WorkerPast::Known(file) = contents.worker else { panic!("the worker file is lost") };
    let environment = Environment::system();
    let (place, fatal) = (state.place(), CancellationToken::new());
    let writer =
        Writer::start(&environment, place, contents.generation, contents.journal, &fatal).unwrap();
    let shared = registry(&environment);
    let of_issuer =
        IssuerSettings { registry: "zookeeper", ceiling_ahead_ms: 1000, layout: Layout::LEAF };
    let not_yet = WireError::new(ErrorCode::WorkerUnavailable, "not yet");
    let issuer =
        Issuer::start(of_issuer, not_yet, file.clone(), environment.clone(), writer, &fatal);
    let stop = CancellationToken::new();
    let (words, identity) = (shared.rules.words, "a:1".to_owned());
    let user = IssuingUser::new(issuing(), identity, words, issuer.clone(), environment.clone());
    let shell = RegistrarShell::new(
        settings(&shared),
        (InstanceAddress::remembered("a:1", 1), new_nonce(&environment).unwrap()),
        &file,
        user,
        environment,
        RegistryConnection::new(shared.registry).for_claim(),
        stop.clone(),
    );
    let running = tokio::spawn(shell.run());
    while issuer.status().registry_error.is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let deadline = Instant::now() + Duration::from_secs(30);
    let is_issued = match issuer.request(1, Instant::now(), deadline) {
        crate::snowflake::issuer::SnowflakeOutcome::Later(waiting) => {
            waiting.outcome().await.is_ok()
        }
        crate::snowflake::issuer::SnowflakeOutcome::Now(_) => true,
        crate::snowflake::issuer::SnowflakeOutcome::Refused(_) => false,
    };
    issuer.close().await.unwrap();
    stop.cancel();
    running.await.unwrap();
    is_issued
}

#[tokio::test]
async fn lives_that_never_reach_zookeeper_serve_from_the_file_and_leave_the_names_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let environment = Environment::system();
    let now_ms = environment.unix_ms();
    let claim = SharedClaim {
        registry: "zookeeper /snowflake/leaf".into(),
        nonces: vec!["in the tree".into()],
        limit_ms: now_ms + 3_600_000,
        reported: Some((environment.boot_id(), environment.boot_ms())),
        standing: Standing::Own,
    };
    let file = WorkerRecord {
        worker: Some(5),
        identity: "a:1".into(),
        layout: Layout::LEAF.to_string(),
        ceiling_ms: now_ms,
        shared: Some(claim.clone()),
    };
    let path = {
        let state = StateDir::lock(folder.path(), &Environment::system()).unwrap();
        state.open(&StateOwner::here(Some("m"), "", None), ForeignPolicy::Refuse).unwrap();
        state.place().worker_file()
    };
    crate::state::durable::replace_marked(&path, |mark| file.write(1, mark)).unwrap();
    for _ in 0..=MOST_NONCES {
        assert!(life(folder.path()).await);
    }
    let (left, _) = WorkerRecord::read(&std::fs::read(path).unwrap()).unwrap();
    assert!(left.ceiling_ms > now_ms);
    assert_eq!(left.shared, Some(claim));
}
