use super::super::simulation::rules;
use super::*;

const MOMENT: Moment =
    Moment { boot_ms: 5000, clock_ms: 1_700_000_000_000, ceiling_ms: 0, use_ms: 0, awaited_ms: 0 };

/// One that has claimed before, or not, by the worker file.
fn registrar(has_claimed: bool) -> Registrar {
    let settings = RegistrarSettings {
        registry: "r".into(),
        rules: rules(),
        layout: "l".into(),
        max_worker: 7,
    };
    let address = InstanceAddress {
        identity: "a".into(),
        leaf_ip: "::1".into(),
        leaf_port: "1".into(),
        ip: "::1".into(),
        port: 1,
    };
    let shared = SharedClaim {
        registry: "r".into(),
        nonces: vec!["earlier".into()],
        limit_ms: MOMENT.clock_ms + 60_000,
        reported: Some(("boot".into(), 4000)),
        standing: Standing::Own,
    };
    let file = WorkerRecord {
        worker: has_claimed.then_some(3),
        identity: "a".into(),
        layout: "l".into(),
        ceiling_ms: MOMENT.clock_ms,
        shared: Some(shared),
    };
    let start =
        LifeStart { nonce: "now".into(), boot: "boot".into(), boot_ms: MOMENT.boot_ms, seed: 1 };
    Registrar::new(settings, address, &file, start)
}

/// The tasks up to the next action, and that.
fn tasks(registrar: &mut Registrar) -> Vec<RegistrarTask> {
    let mut tasks = Vec::new();
    loop {
        let task = registrar.next(MOMENT);
        let is_last =
            !matches!(task, RegistrarTask::Tell(_) | RegistrarTask::Rest | RegistrarTask::Leave(_));
        tasks.push(task);
        if is_last {
            return tasks;
        }
    }
}

/// The registrar is about to make its first write.
fn about_to_create(registrar: &mut Registrar) {
    let wanted = tasks(registrar);
    assert!(matches!(wanted[..], [RegistrarTask::Act(ClaimAction::Look(_))]), "{wanted:?}");
    registrar.pending = Some(ClaimAction::Commit(Vec::new()));
}

#[test]
fn the_name_of_a_life_is_on_disk_before_its_first_write_and_only_then() {
    let mut registrar = registrar(false);
    about_to_create(&mut registrar);
    let [RegistrarTask::Remember(shared)] = &tasks(&mut registrar)[..] else { panic!() };
    assert_eq!(shared.nonces, ["now", "earlier"]);
    // A disk that fails is asked again, and meanwhile nothing else is done.
    registrar.remembered(Err("full".into()));
    let again = tasks(&mut registrar);
    let [RegistrarTask::Tell(IssuerOrder::Suspend { why, soon: false }), RegistrarTask::Rest, last] =
        &again[..]
    else {
        panic!("{again:?}")
    };
    assert!(why.contains("cannot be written: full"), "{why}");
    assert!(matches!(last, RegistrarTask::Remember(shared) if shared.nonces.len() == 2));
    registrar.remembered(Ok(()));
    let then = tasks(&mut registrar);
    assert!(matches!(then[..], [RegistrarTask::Act(ClaimAction::Commit(_))]), "{then:?}");
}

#[test]
fn while_it_serves_a_worker_file_that_cannot_be_written_does_not_end_that() {
    let mut registrar = registrar(true);
    tasks(&mut registrar);
    registrar.done(MOMENT, ClaimOutcome::Failed("away".into()));
    let begun = tasks(&mut registrar);
    let begin = RegistrarTask::Tell(IssuerOrder::Trouble("away".into()));
    assert!(begun.contains(&begin) && registrar.claimant.is_serving(), "{begun:?}");
    registrar.leave_name();
    tasks(&mut registrar);
    registrar.remembered(Err("full".into()));
    let again = tasks(&mut registrar);
    assert!(matches!(again[..], [RegistrarTask::Rest, RegistrarTask::Remember(_)]), "{again:?}");
}

#[test]
fn a_stop_drops_what_has_not_begun_and_ends() {
    let mut registrar = registrar(false);
    about_to_create(&mut registrar);
    registrar.stop(false);
    assert_eq!(tasks(&mut registrar), [RegistrarTask::End]);
    assert_eq!(tasks(&mut registrar), [RegistrarTask::End]);
}

#[test]
fn a_worker_id_is_given_back_only_after_the_worker_file_has_forgotten_it() {
    for is_written in [true, false] {
        let mut registrar = registrar(true);
        registrar.stop(true);
        let [RegistrarTask::Remember(shared)] = &tasks(&mut registrar)[..] else { panic!() };
        assert_eq!(shared.limit_ms, 0);
        registrar.remembered(if is_written { Ok(()) } else { Err("full".into()) });
        let end = tasks(&mut registrar);
        let kept = RegistrarTask::Tell(IssuerOrder::NotGivenBack("full".into()));
        assert_eq!(end.contains(&kept), !is_written, "{end:?}");
        assert_eq!(end.last(), Some(&RegistrarTask::End));
    }
}

#[test]
fn a_worker_file_of_another_registry_identity_layout_or_boot_says_less() {
    let remembered = |change: fn(&mut WorkerRecord, &mut RegistrarSettings)| {
        let mut settings = RegistrarSettings {
            registry: "r".into(),
            rules: rules(),
            layout: "l".into(),
            max_worker: 7,
        };
        let mut file = WorkerRecord {
            worker: Some(3),
            identity: "a".into(),
            layout: "l".into(),
            ceiling_ms: 8,
            shared: Some(SharedClaim {
                registry: "r".into(),
                limit_ms: 9,
                reported: Some(("boot".into(), 4000)),
                ..SharedClaim::default()
            }),
        };
        change(&mut file, &mut settings);
        let (nonce, boot) = (String::new(), "boot".to_owned());
        let start = LifeStart { nonce, boot, boot_ms: 5000, seed: 1 };
        remembered_claim(&file, &settings, "a", &start)
    };
    let known = remembered(|_, _| ()).unwrap();
    assert_eq!((known.worker, known.ceiling_ms, known.limit_ms), (3, 8, 9));
    assert_eq!(known.reported_boot_ms, 4000);
    let other_boot = remembered(|file, _| {
        file.shared.as_mut().unwrap().reported = Some(("another".into(), 4000));
    });
    assert_eq!(other_boot.unwrap().reported_boot_ms, 5000, "the limit in time still holds");
    let others: [fn(&mut WorkerRecord, &mut RegistrarSettings); 5] = [
        |_, settings| settings.registry = "s".into(),
        |file, _| file.identity = "b".into(),
        |_, settings| settings.layout = "m".into(),
        |_, settings| settings.max_worker = 2,
        |file, _| file.shared = None,
    ];
    for change in others {
        assert_eq!(remembered(change), None);
    }
}
