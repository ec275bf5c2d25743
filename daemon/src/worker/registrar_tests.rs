use leaf_client::Layout;

use super::*;
use crate::config::Ensemble;
use crate::snowflake::issuer::Settings as IssuerSettings;
use crate::state::dir::{ForeignPolicy, StateDir, StateError, WorkerPast};
use crate::state::owner::Owner;
use crate::state::writer::Writer;

fn settings() -> Settings {
    Settings {
        access: Access {
            // Nobody listens there.
            ensemble: Ensemble::parse("127.0.0.1:1").unwrap(),
            name: "leaf".into(),
            auth: None,
            acls: Vec::new(),
            session_timeout: Duration::from_secs(10),
            timeout: Duration::from_secs(1),
            layout: Layout::LEAF.to_string(),
        },
        rules: Rules {
            reclaim_after_ms: Some(86_400_000),
            fence_after_ms: 43_200_000,
            session_ms: 10_000,
            report_ms: 3000,
            settle_ms: 10_000,
        },
        sequence: sequencer::Rules {
            layout: Layout::LEAF,
            worker: 0,
            max_lead_ms: 10,
            tolerance_ms: 5,
            start_wait_ms: 5000,
            random_start: 0,
        },
        give_back: false,
        max_offset_ms: 5000,
    }
}

/// One life on a state directory, for as long as ZooKeeper takes to be found away. Returns whether
/// IDs were issued.
async fn life(folder: &std::path::Path) -> bool {
    // The thread that writes for the life before holds the lock until it has ended.
    let state = loop {
        match StateDir::lock(folder) {
            Ok(state) => break state,
            Err(StateError::Locked { .. }) => tokio::time::sleep(Duration::from_millis(1)).await,
            Err(error) => panic!("{error}"),
        }
    };
    let contents = state.open(&Owner::here(Some("m"), "", None), ForeignPolicy::Refuse).unwrap();
    let WorkerPast::Known(file) = contents.worker else { panic!("the worker file is lost") };
    let environment = Environment::system();
    let (place, fatal) = (state.place(), CancellationToken::new());
    let writer =
        Writer::start(&environment, place, contents.generation, contents.journal, &fatal).unwrap();
    let settings = settings();
    let of_issuer =
        IssuerSettings { registry: "zookeeper", ceiling_ahead_ms: 1000, layout: Layout::LEAF };
    let not_yet = WireError::new(ErrorCode::WorkerUnavailable, "not yet");
    let issuer =
        Issuer::start(of_issuer, not_yet, file.clone(), environment.clone(), writer, &fatal);
    let stop = CancellationToken::new();
    let here = Place::remembered("a:1", 1);
    let registrar = Registrar::new(
        settings,
        here,
        &file,
        issuer.clone(),
        environment,
        SharedSession::default(),
        stop.clone(),
    );
    let running = tokio::spawn(registrar.unwrap().run());
    while issuer.status().registry_error.is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let deadline = Instant::now() + Duration::from_secs(30);
    let is_issued = match issuer.request(1, Instant::now(), deadline) {
        crate::snowflake::issuer::Outcome::Later(waiting) => waiting.outcome().await.is_ok(),
        crate::snowflake::issuer::Outcome::Now(_) => true,
        crate::snowflake::issuer::Outcome::Refused(_) => false,
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
        let state = StateDir::lock(folder.path()).unwrap();
        state.open(&Owner::here(Some("m"), "", None), ForeignPolicy::Refuse).unwrap();
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
