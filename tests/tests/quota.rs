//! Quotas: IDs per second of a user and of a tag, and connections of a user. A user over a limit does not
//! affect others.

use std::time::{Duration, Instant};

use leaf_client::wire::{Call, ErrorCode, Reply, UNSOLICITED, WireError};
use leafd_tests::daemon::Home;
use leafd_tests::load::Load;
use leafd_tests::other_user::{OtherUser, UserConnection, open_to_all};
use leafd_tests::raw::{Raw, frame, hello, segment, snowflakes};
use leafd_tests::{PATIENCE, UniqueIds};

const GREEDY: u32 = 61_001;
const POLITE: u32 = 61_002;

fn home(folder: &std::path::Path) -> Home {
    open_to_all(folder);
    Home::new(folder).with_time_for_the_disk().with("SOCKET_MODE", "0666")
}

fn let_in(uid: u32, home: &Home) -> UserConnection {
    OtherUser::new(uid, uid).let_in(&home.socket())
}

/// The number of IDs in an answer, or the refusal.
fn outcome(reply: Reply) -> Result<u64, WireError> {
    match reply {
        Reply::Ids { first, more } => {
            Ok(std::iter::once(first).chain(more).map(|run| u64::from(run.count)).sum())
        }
        Reply::Error(error) => Err(error),
        other => panic!("{other:?}"),
    }
}

/// Sends the calls of `call_for` over all connections as fast as it can, until `enough` IDs have come.
/// Returns the number of refusals.
fn take(raws: &mut [Raw], enough: u64, limit: u64, call_for: impl Fn(u64) -> Call<'static>) -> u64 {
    let began = Instant::now();
    let (mut got, mut refused) = (0, 0);
    for id in 2.. {
        for raw in &mut *raws {
            match outcome(raw.ask(id, call_for(id))) {
                Ok(count) => got += count,
                Err(error) => {
                    assert_eq!(error.code(), ErrorCode::QuotaExceeded, "{error}");
                    assert_eq!(error.detail, limit);
                    assert!((1..=1000).contains(&error.retry_after_ms), "{error:?}");
                    refused += 1;
                }
            }
            let most = u128::from(limit) * (began.elapsed().as_millis() + 1001) / 1000;
            assert!(u128::from(got) <= most, "{got} IDs, and {most} would be right");
        }
        if got >= enough {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "only {got}");
    }
    refused
}

#[test]
fn a_user_gets_its_ids_per_second_over_all_connections_and_schemes_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path()).with("QUOTA_IDS_PER_SECOND", "1000");
    let _daemon = home.start();
    let mut raws: Vec<_> = (0..3).map(|_| Raw::greeted(&home.socket())).collect();
    let refused = take(&mut raws, 4000, 1000, |id| match id % 3 {
        0 => snowflakes(3),
        1 => segment("orders", 50),
        _ => segment("bills", 1),
    });
    assert!(refused > 100, "{refused}");
    // A new connection does not reset the limit, and another user has a limit of its own.
    let mut again = Raw::greeted(&home.socket());
    let refusals =
        (2..200).filter(|id| outcome(again.ask(*id, segment("orders", 10))).is_err()).count();
    assert!(refusals > 0);
    let mut polite = let_in(POLITE, &home);
    assert_eq!(outcome(polite.raw.ask(2, segment("orders", 1000))), Ok(1000));
    // More than a second's worth at once can never be served, so the refusal has no retry time.
    let error = outcome(polite.raw.ask(3, segment("orders", 1001))).unwrap_err();
    assert_eq!((error.code(), error.detail), (ErrorCode::BadCount, 1000), "{error}");
    assert_eq!(error.retry_after_ms, 0);
    assert!(error.message.contains("1001") && error.message.contains("ids-per-second"), "{error}");
}

#[test]
fn a_client_that_waits_as_long_as_the_refusal_says_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path()).with("QUOTA_IDS_PER_SECOND", "50");
    let _daemon = home.start();
    let mut raw = Raw::greeted(&home.socket());
    let began = Instant::now();
    assert_eq!(outcome(raw.ask(2, segment("orders", 50))), Ok(50));
    let (mut got, mut refused) = (50, 0);
    for id in (3..).step_by(2) {
        // On a machine that stands still for a while, the next IDs are due without a refusal.
        if let Err(error) = outcome(raw.ask(id, segment("orders", 20))) {
            assert_eq!(error.code(), ErrorCode::QuotaExceeded, "{error}");
            std::thread::sleep(Duration::from_millis(u64::from(error.retry_after_ms)));
            assert_eq!(outcome(raw.ask(id + 1, segment("orders", 20))), Ok(20));
            refused += 1;
        }
        got += 20;
        assert!(got <= 50 * (began.elapsed().as_millis() + 1001) / 1000, "{got}");
        if refused == 5 {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "only {refused} refusals");
    }
}

#[test]
fn a_rule_can_give_its_users_a_limit_of_their_own_or_none() {
    let folder = tempfile::tempdir().unwrap();
    let rules = format!(
        "[{{ users = [{GREEDY}], ids-per-second = 10 }}, \
         {{ users = ['*'], ids-per-second = 0, max-connections = 1 }}]"
    );
    let home = home(folder.path()).with("QUOTA_IDS_PER_SECOND", "100").with("ACCESS_RULES", &rules);
    let _daemon = home.start();
    let mut greedy = let_in(GREEDY, &home);
    assert_eq!(outcome(greedy.raw.ask(2, segment("orders", 10))), Ok(10));
    let error = outcome(greedy.raw.ask(3, snowflakes(10))).unwrap_err();
    assert_eq!((error.code(), error.detail), (ErrorCode::QuotaExceeded, 10), "{error}");
    assert!(error.message.contains(&format!("uid {GREEDY}")), "{error}");
    let mut polite = let_in(POLITE, &home);
    for id in 2..20 {
        assert_eq!(outcome(polite.raw.ask(id, segment("orders", 10_000))), Ok(10_000));
    }
    home.log().wait_for(&format!("uid {GREEDY} has reached its limit of 10 IDs per second"));
}

#[test]
fn all_users_share_the_ids_per_second_of_a_tag() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path()).with(
        "QUOTA_TAGS",
        "[{ tags = ['bill.*'], ids-per-second = 300 }, { tags = ['*s'], ids-per-second = 500 }]",
    );
    let _daemon = home.start();
    let mut raws = vec![Raw::greeted(&home.socket()), Raw::greeted(&home.socket())];
    assert!(take(&mut raws, 1500, 500, |_| segment("orders", 20)) > 10);
    let mut theirs = let_in(POLITE, &home);
    let mut refusals =
        (2..100).filter_map(|id| outcome(theirs.raw.ask(id, segment("orders", 400))).err());
    let error = refusals.next().expect("the tag's limit is for everybody");
    let message =
        format!("the tag \"orders\" (asked by uid {POLITE}) has reached its limit of 500 IDs");
    assert!(error.message.contains(&message) && error.message.contains("quota.tags"), "{error}");
    // Each tag has its own limit, the first matching element applies, and other tags have none.
    assert_eq!(outcome(theirs.raw.ask(200, segment("users", 500))), Ok(500));
    assert_eq!(outcome(theirs.raw.ask(201, segment("bill.s", 300))), Ok(300));
    assert!(outcome(theirs.raw.ask(202, segment("bill.s", 300))).is_err());
    assert_eq!(outcome(theirs.raw.ask(203, segment("free", 100_000))), Ok(100_000));
    assert_eq!(outcome(theirs.raw.ask(204, snowflakes(1000))), Ok(1000));
}

#[test]
fn a_users_connections_are_limited_and_a_closed_one_makes_room_for_another() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path()).with("QUOTA_MAX_CONNECTIONS", "3");
    let _daemon = home.start();
    let mut places: Vec<_> = (0..3).map(|_| let_in(GREEDY, &home)).collect();
    let (mut fourth, answer) = OtherUser::new(GREEDY, GREEDY).greets(&home.socket());
    let (UNSOLICITED, Reply::Error(error)) = (answer.id, answer.reply) else { panic!() };
    assert_eq!((error.code(), error.detail), (ErrorCode::TooManyConnections, 3), "{error}");
    assert!(error.retry_after_ms > 0);
    assert!(error.message.contains(&format!("uid {GREEDY} has 3")), "{error}");
    assert_eq!(fourth.raw.receive(), None);
    let mut polite = let_in(POLITE, &home);
    assert_eq!(outcome(polite.raw.ask(2, segment("orders", 1))), Ok(1));
    places.pop();
    let began = Instant::now();
    let mut back = loop {
        let (theirs, answer) = OtherUser::new(GREEDY, GREEDY).greets(&home.socket());
        if matches!(answer.reply, Reply::Hello { .. }) {
            break theirs;
        }
        assert!(began.elapsed() < PATIENCE, "no place");
    };
    assert_eq!(outcome(back.raw.ask(2, segment("orders", 1))), Ok(1));
    // A connection without a hello takes a place too.
    let silent: Vec<_> = (0..3).map(|_| Raw::connect(&home.socket())).collect();
    let mut root = Raw::connect(&home.socket());
    let error = root.is_closed_with(&hello(), ErrorCode::TooManyConnections);
    assert!(error.message.contains("uid 0 has 3"), "{error}");
    drop(silent);
}

#[test]
fn a_user_over_its_limit_fails_no_call_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let rules = format!("[{{ users = [{GREEDY}], ids-per-second = 100 }}, {{ users = ['*'] }}]");
    let home = home(folder.path()).with("ACCESS_RULES", &rules);
    let _daemon = home.start();
    let seen = UniqueIds::default();
    let load = Load::start(&home.options(), &seen, &["orders", "bills"], 100);
    let mut greedy = let_in(GREEDY, &home);
    let mut refused = 0;
    for id in 2..20_000 {
        refused += u64::from(outcome(greedy.raw.ask(id, segment("orders", 10))).is_err());
    }
    assert!(refused > 10_000, "{refused}");
    assert!(load.served().iter().all(|calls| *calls > 0));
    assert_eq!(load.finish(), 0, "{}", home.log());
}

#[test]
fn a_user_with_many_waiting_requests_takes_no_place_from_others() {
    let folder = tempfile::tempdir().unwrap();
    let rules = format!("[{{ users = [{GREEDY}], administer = true }}, {{ users = [{POLITE}] }}]");
    let home = home(folder.path())
        .with("ACCESS_RULES", &rules)
        .with("SOCKET_MAX_IN_FLIGHT", "65536")
        .with("SOCKET_WRITE_TIMEOUT", "1h");
    let _daemon = home.start();
    // Requests behind unread answers wait.
    let many = frame(2, Call::TagShow { tag: "orders" }).repeat(65_536);
    let mut greedy: Vec<_> = (0..3).map(|_| let_in(GREEDY, &home)).collect();
    let relayed: Vec<_> = greedy
        .iter_mut()
        .map(|theirs| {
            let mut stream = theirs.raw.stream().try_clone().unwrap();
            let many = many.clone();
            std::thread::spawn(move || std::io::Write::write_all(&mut stream, &many))
        })
        .collect();
    let refused = |theirs: &mut UserConnection| {
        let began = Instant::now();
        loop {
            let answer = theirs.raw.receive().unwrap();
            if let Reply::Error(error) = answer.reply
                && error.code() != ErrorCode::UnknownTag
            {
                assert_eq!(error.code(), ErrorCode::TooManyInFlight, "{error}");
                assert!(error.message.contains(&format!("uid {GREEDY}")), "{error}");
                return;
            }
            assert!(began.elapsed() < PATIENCE, "no request is refused");
        }
    };
    refused(&mut greedy[2]);
    let mut polite = let_in(POLITE, &home);
    for id in 2..200 {
        assert_eq!(outcome(polite.raw.ask(id, snowflakes(1))), Ok(1));
        assert_eq!(outcome(polite.raw.ask(id, segment(&format!("tag-{id}"), 1))), Ok(1));
    }
    drop(greedy);
    for thread in relayed {
        let _ = thread.join().unwrap();
    }
}

#[test]
fn a_refused_request_costs_no_quota() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path())
        .with("QUOTA_IDS_PER_SECOND", "1000")
        .with("QUOTA_TAGS", "[{ tags = ['*'], ids-per-second = 1000 }]")
        .with("SEGMENT_AUTO_CREATE", "false");
    let daemon = home.start();
    daemon.client().tag_create("orders", 0, 1, "").unwrap();
    let mut raw = Raw::greeted(&home.socket());
    for id in 2..20 {
        let error = outcome(raw.ask(id, segment("unknown", 1000))).unwrap_err();
        assert_eq!(error.code(), ErrorCode::UnknownTag, "{error}");
    }
    assert_eq!(outcome(raw.ask(20, segment("orders", 1000))), Ok(1000));
}

#[test]
fn requests_in_flight_cannot_exceed_the_quota_together_and_give_it_back_when_they_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path()).with("QUOTA_IDS_PER_SECOND", "1000");
    // Requests for segment IDs wait for the store.
    home.break_store();
    let _daemon = home.start();
    let mut raw = Raw::greeted(&home.socket());
    raw.send(&frame(2, Call::Segment { tag: "orders", count: 600, timeout_ms: 3000 }));
    let error = outcome(raw.ask(3, snowflakes(600))).unwrap_err();
    assert_eq!(error.code(), ErrorCode::QuotaExceeded, "{error}");
    let (id, error) = raw.refusal();
    assert_eq!((id, error.code()), (2, ErrorCode::StoreUnavailable), "{error}");
    assert_eq!(outcome(raw.ask(4, snowflakes(1000))), Ok(1000));
}

#[test]
fn what_memory_can_serve_needs_no_waiting_place_and_the_refusal_names_the_limit_in_force() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path())
        .with("SOCKET_MAX_IN_FLIGHT", "65536")
        .with("SEGMENT_MAX_WAITING", "100000")
        .with("SEGMENT_MAX_WAIT", "10m");
    home.break_store();
    let _daemon = home.start();
    let mut full = Raw::greeted(&home.socket());
    let waits = Call::Segment { tag: "orders", count: 1, timeout_ms: 600_000 };
    let mut stream = full.stream().try_clone().unwrap();
    let many = frame(2, waits).repeat(50_001);
    let writer = std::thread::spawn(move || std::io::Write::write_all(&mut stream, &many));
    let (_, error) = full.refusal();
    assert_eq!((error.code(), error.detail), (ErrorCode::TooManyInFlight, 50_000), "{error}");
    assert!(error.message.contains("the limit is 50000 now"), "{error}");
    writer.join().unwrap().unwrap();
    let mut same_user = Raw::greeted(&home.socket());
    for (id, raw) in (3..).zip([&mut full, &mut same_user]) {
        // After a pause, the first request needs a raise of the ceiling and may not wait for it, so it
        // is refused.
        let began = Instant::now();
        while let Err(error) = outcome(raw.ask(id, snowflakes(10))) {
            assert_eq!(error.code(), ErrorCode::TooManyInFlight, "{error}");
            assert!(began.elapsed() < PATIENCE, "{error}");
        }
        assert!(matches!(raw.ask(100 + id, Call::Time), Reply::Time { .. }));
    }
}
