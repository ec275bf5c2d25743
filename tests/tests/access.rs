//! Access rules, with real other users: leafd learns the user and the groups of a client from the
//! kernel.

use std::path::Path;

use leaf_client::wire::{Call, ErrorCode, Reply, Response, TagStatus, UNSOLICITED, WireError};
use leafd_tests::daemon::Home;
use leafd_tests::other_user::{OtherUser, open_to_all};
use leafd_tests::raw::{Raw, frame, segment, snowflakes};
use nix::unistd::{Group, User};

/// A user ID that no list of users has a name for.
const UNKNOWN: u32 = 61_234;

fn home(folder: &Path, rules: &str) -> Home {
    open_to_all(folder);
    Home::new(folder).with("SOCKET_MODE", "0666").with("ACCESS_RULES", rules)
}

/// The ID of a user that every Debian has.
fn daemon_user() -> u32 {
    User::from_name("daemon").unwrap().unwrap().uid.as_raw()
}

/// The ID of a group that every Debian has.
fn games_group() -> u32 {
    Group::from_name("games").unwrap().unwrap().gid.as_raw()
}

fn one_of(tag: &str) -> Call<'_> {
    segment(tag, 1)
}

/// All calls that only administrators may make.
fn administration() -> [Call<'static>; 11] {
    [
        Call::TagList { after: "", limit: 10 },
        Call::TagShow { tag: "orders" },
        Call::TagCreate { tag: "theirs", step: 5, first: 1, description: "" },
        Call::TagCreate { tag: "orders", step: 5, first: 1, description: "" },
        Call::TagSetStep { tag: "orders", step: 5 },
        Call::WorkerList { from: 0, limit: 10 },
        Call::WorkerRelease { worker: 0, owner: "somebody" },
        Call::TagDelete { tag: "orders" },
        Call::TagsUsed { after: "", limit: 10 },
        Call::TagForecasts { tag: "", after: "", limit: 10 },
        Call::TagForecasts { tag: "orders", after: "", limit: 1 },
    ]
}

#[track_caller]
fn forbidden(reply: Reply, uid: u32, because: &str) -> WireError {
    let Reply::Error(error) = reply else { panic!("{reply:?} is not a refusal") };
    assert_eq!(error.code(), ErrorCode::Forbidden, "{error}");
    assert_eq!(error.detail, u64::from(uid));
    let explains =
        error.message.contains(&format!("uid {uid} ")) && error.message.contains(because);
    assert!(explains, "{error} does not say {because:?}");
    error
}

#[track_caller]
fn given(reply: Reply) {
    assert!(matches!(reply, Reply::Ids { .. }), "{reply:?}");
}

/// Connects, and expects a refusal for this reason and the end of the connection.
#[track_caller]
fn kept_out(someone: &OtherUser, home: &Home, because: &str) {
    let (mut theirs, answer) = someone.greets(&home.socket());
    assert_eq!(answer.id, UNSOLICITED);
    forbidden(answer.reply, someone.uid, because);
    assert_eq!(theirs.raw.receive(), None, "the connection goes on");
}

fn shown(raw: &mut Raw, id: u64, tag: &str) -> TagStatus {
    match raw.ask(id, Call::TagShow { tag }) {
        Reply::Tags(mut tags) => tags.remove(0),
        other => panic!("{other:?}"),
    }
}

#[test]
fn without_rules_an_unknown_user_gets_ids_and_is_refused_every_administrative_call() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path(), "[]");
    let _daemon = home.start();
    let mut root = Raw::greeted(&home.socket());
    given(root.ask(2, one_of("orders")));
    let before = shown(&mut root, 3, "orders");
    let mut theirs = OtherUser::new(UNKNOWN, UNKNOWN).let_in(&home.socket());
    let raw = &mut theirs.raw;
    given(raw.ask(2, one_of("orders")));
    given(raw.ask(3, snowflakes(1)));
    assert!(matches!(raw.ask(4, Call::Time), Reply::Time { .. }));
    assert!(matches!(raw.ask(5, Call::Status), Reply::Status(_)));
    for (id, call) in (10..).zip(administration()) {
        forbidden(raw.ask(id, call), UNKNOWN, "only root and leafd's own user may");
    }
    given(raw.ask(30, one_of("orders")));
    let after = shown(&mut root, 4, "orders");
    assert_eq!((before.row_step, before.description), (after.row_step, after.description));
    let refused = root.ask(5, Call::TagShow { tag: "theirs" });
    assert!(
        matches!(&refused, Reply::Error(e) if e.code() == ErrorCode::UnknownTag),
        "{refused:?}"
    );
}

#[test]
fn a_user_given_by_name_or_number_gets_only_the_tags_and_schemes_of_its_rule() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(
        folder.path(),
        &format!(
            "[{{ name = 'shop', users = ['daemon'], tags = ['orders', 'bill.*'], \
             snowflake = false }}, {{ users = [{UNKNOWN}], tags = [] }}]"
        ),
    );
    let _daemon = home.start();
    let uid = daemon_user();
    let mut shop = OtherUser::new(uid, UNKNOWN).let_in(&home.socket());
    given(shop.raw.ask(2, one_of("orders")));
    given(shop.raw.ask(3, one_of("bill.2026")));
    for (id, tag) in [(4, "order"), (5, "orders2"), (6, "bills"), (7, "*"), (8, "ORDERS")] {
        forbidden(shop.raw.ask(id, one_of(tag)), uid, "rule \"shop\" does not list it");
    }
    forbidden(shop.raw.ask(9, snowflakes(1)), uid, "rule \"shop\"");
    given(shop.raw.ask(10, one_of("orders")));
    let mut flakes = OtherUser::new(UNKNOWN, UNKNOWN).let_in(&home.socket());
    given(flakes.raw.ask(2, snowflakes(1)));
    forbidden(flakes.raw.ask(3, one_of("orders")), UNKNOWN, "rule 2 does not list it");
    // An invalid name gets its own error, and forbidden tags take no place in memory.
    let long = "x".repeat(200);
    let refused = flakes.raw.ask(4, one_of(&long));
    assert!(matches!(&refused, Reply::Error(e) if e.code() == ErrorCode::BadTag), "{refused:?}");
    let Reply::Status(status) = flakes.raw.ask(5, Call::Status) else { panic!() };
    assert_eq!(status.segments.tags, 2);
}

#[test]
fn membership_in_a_group_counts_whether_primary_or_supplementary() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path(), "[{ name = 'players', groups = ['games'] }]");
    let _daemon = home.start();
    let games = games_group();
    for member in [
        OtherUser::new(UNKNOWN, games),
        OtherUser::new(UNKNOWN, UNKNOWN).in_groups(&[UNKNOWN, games]),
        OtherUser::new(UNKNOWN, UNKNOWN)
            .in_groups(&(1000..1200).chain([games]).collect::<Vec<_>>()),
    ] {
        given(member.let_in(&home.socket()).raw.ask(2, one_of("orders")));
    }
    for stranger in [
        OtherUser::new(UNKNOWN, UNKNOWN),
        // A user whose ID equals that of the group.
        OtherUser::new(games, UNKNOWN),
        OtherUser::new(UNKNOWN, UNKNOWN).in_groups(&[games + 1]),
    ] {
        kept_out(&stranger, &home, "no rule names this user or its groups");
    }
}

#[test]
fn the_first_matching_rule_applies_and_may_forbid_connecting() {
    let folder = tempfile::tempdir().unwrap();
    let games = games_group();
    let home = home(
        folder.path(),
        "[{ name = 'no games', groups = ['games'], connect = false }, { users = ['*'] }]",
    );
    let _daemon = home.start();
    given(OtherUser::new(UNKNOWN, UNKNOWN).let_in(&home.socket()).raw.ask(2, one_of("orders")));
    let player = OtherUser::new(UNKNOWN, UNKNOWN).in_groups(&[games]);
    kept_out(&player, &home, "rule \"no games\" forbids it");
    let output = player.leafctl(folder.path(), &home.socket(), &["next", "orders"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(64), "{text}");
    assert!(text.contains("Forbidden: uid 61234 may not connect: rule \"no games\""), "{text}");
}

#[test]
fn a_rule_says_who_may_administer_and_root_always_may() {
    let folder = tempfile::tempdir().unwrap();
    let rules = format!(
        "[{{ users = [{UNKNOWN}], tags = [], snowflake = false, administer = true }}, \
         {{ users = ['*'], connect = false }}]"
    );
    let home = home(folder.path(), &rules);
    let _daemon = home.start();
    let mut admin = OtherUser::new(UNKNOWN, UNKNOWN).let_in(&home.socket());
    let call = Call::TagCreate { tag: "orders", step: 5, first: 1, description: "" };
    assert!(matches!(admin.raw.ask(2, call), Reply::Tags(_)));
    assert_eq!(shown(&mut admin.raw, 3, "orders").row_step, 5);
    forbidden(admin.raw.ask(4, one_of("orders")), UNKNOWN, "rule 1");
    forbidden(admin.raw.ask(5, snowflakes(1)), UNKNOWN, "rule 1");
    let mut root = Raw::greeted(&home.socket());
    given(root.ask(2, one_of("orders")));
    assert_eq!(shown(&mut root, 3, "orders").row_step, 5);
}

#[test]
fn leafds_own_user_may_administer_and_others_may_not() {
    let folder = tempfile::tempdir().unwrap();
    open_to_all(folder.path());
    let own = daemon_user();
    let state = folder.path().join("state");
    std::fs::create_dir(&state).unwrap();
    std::os::unix::fs::chown(&state, Some(own), Some(own)).unwrap();
    let run = folder.path().join("run");
    std::fs::create_dir(&run).unwrap();
    std::os::unix::fs::chown(&run, Some(own), Some(own)).unwrap();
    // This user may not be able to read the workspace, so it gets the capability to read anything.
    let own_name = own.to_string();
    let home = Home::new(folder.path())
        .with("SOCKET_MODE", "0666")
        .with("SOCKET_PATH", run.join("leafd.sock").to_str().unwrap())
        .through(&[
            "setpriv",
            "--reuid",
            &own_name,
            "--regid",
            &own_name,
            "--clear-groups",
            "--inh-caps",
            "-all,+dac_read_search",
            "--ambient-caps",
            "-all,+dac_read_search",
        ]);
    let _daemon = home.spawn();
    home.log().wait_for("get an ID");
    let path = run.join("leafd.sock");
    let (mut theirs, _) = OtherUser::new(own, UNKNOWN).greets(&path);
    given(theirs.raw.ask(2, one_of("orders")));
    assert_eq!(shown(&mut theirs.raw, 3, "orders").tag, "orders");
    let (mut other, _) = OtherUser::new(UNKNOWN, own).greets(&path);
    for (id, call) in (2..).zip(administration()) {
        forbidden(other.raw.ask(id, call), UNKNOWN, "own user");
    }
    assert_eq!(shown(&mut Raw::greeted(&path), 2, "orders").tag, "orders", "root may");
}

#[test]
fn many_refusals_fill_neither_the_log_nor_the_connection_limit() {
    let folder = tempfile::tempdir().unwrap();
    let rules = format!("[{{ name = 'shop', users = [{UNKNOWN}], tags = ['orders'] }}]");
    let home = home(folder.path(), &rules).with("SOCKET_MAX_CONNECTIONS", "8");
    let daemon = home.start();
    let mut shop = OtherUser::new(UNKNOWN, UNKNOWN).let_in(&home.socket());
    let bytes: Vec<_> = (2..10_002).flat_map(|id| frame(id, one_of("bills"))).collect();
    let sender = std::thread::spawn({
        let mut stream = shop.raw.stream().try_clone().unwrap();
        move || std::io::Write::write_all(&mut stream, &bytes)
    });
    for id in 2..10_002 {
        let Some(Response { id: answered, reply }) = shop.raw.receive() else { panic!() };
        assert_eq!(id, answered);
        forbidden(reply, UNKNOWN, "shop");
    }
    sender.join().unwrap().unwrap();
    let stranger = OtherUser::new(UNKNOWN + 1, UNKNOWN);
    for _ in 0..20 {
        kept_out(&stranger, &home, "no rule");
    }
    given(shop.raw.ask(20_000, one_of("orders")));
    let ended = daemon.stop();
    assert_eq!(ended.count("refused"), 2, "{ended}");
    for line in [
        format!("uid {} may not connect", UNKNOWN + 1),
        format!("uid {UNKNOWN} may not have IDs of the tag \"bills\""),
    ] {
        assert_eq!(ended.count(&line), 1, "{ended}");
    }
}

#[test]
fn an_ordinary_user_sees_the_status_without_the_tags_and_is_told_why() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path(), "[]");
    let _daemon = home.start();
    given(Raw::greeted(&home.socket()).ask(2, one_of("orders")));
    let someone = OtherUser::new(UNKNOWN, UNKNOWN);
    let leafctl = |arguments: &[&str]| {
        let output = someone.leafctl(folder.path(), &home.socket(), arguments);
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (code, text, _) = leafctl(&["status"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("snowflake  serving"), "{text}");
    assert!(text.contains("The tags are not shown: uid 61234 may not administer"), "{text}");
    assert!(!text.contains("orders"), "{text}");
    let (code, text, _) = leafctl(&["status", "--json"]);
    assert_eq!(code, Some(0), "{text}");
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(value["tags"].is_null() && value["daemon"]["pid"].is_u64(), "{text}");
    let (code, _, errors) = leafctl(&["tag", "list"]);
    assert_eq!(code, Some(64), "{errors}");
    assert_eq!(leafctl(&["health", "--ready"]).0, Some(0));
}
