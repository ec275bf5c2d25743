//! Tests of the harness itself: its Redis servers, their faults, their replicas and their Sentinels.

use std::path::PathBuf;
use std::process::Command;

use leafd_tests::Proxy;
use leafd_tests::Redis;
use leafd_tests::certificates::Certificates;
use leafd_tests::processes::processes_in;
use leafd_tests::redis::{Answer, RedisOptions, Sentinels};
use leafd_tests::stores::wait_until;

fn cli(redis: &Redis, arguments: &[&str]) -> String {
    let mut command = Command::new("redis-cli");
    command.args(["-p", &redis.port().to_string()]).args(arguments);
    let output = command.output().expect("redis-cli, of Debian's package redis-tools");
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

#[test]
fn a_new_server_lets_leaf_in_by_its_password() {
    let redis = Redis::start();
    let login = |password: &str| cli(&redis, &["--user", "leaf", "--pass", password, "PING"]);
    assert!(login("secret").contains("PONG"), "{}", login("secret"));
    assert!(login("guess").contains("WRONGPASS"), "{}", login("guess"));
}

#[test]
fn databases_share_nothing_and_a_command_gets_its_answer_or_its_error() {
    let (one, other) = (Redis::with_tag("orders", 10), Redis::with_tag("orders", 20));
    assert_eq!((one.max_id("orders"), one.own("steps", "orders")), (1, Some("10".to_owned())));
    assert_eq!(one.run(&["INCR", "id:orders"]), Answer::Integer(1));
    assert_eq!((one.max_id("orders"), other.max_id("orders")), (2, 1));
    other.flush();
    assert_eq!((other.counter("orders"), one.max_id("orders")), (None, 2));
    assert_eq!(one.run(&["KEYS", "id:*"]).texts(), ["id:orders"]);
    let error = one.try_run(&["INCR", "leafd:steps"]).unwrap_err();
    assert!(error.starts_with("WRONGTYPE"), "{error}");
}

#[test]
fn a_killed_server_keeps_what_was_written_and_comes_back_at_its_port() {
    let redis = Redis::start();
    for round in 1..=3 {
        redis.run(&["INCR", "id:orders"]);
        let (port, pid) = (redis.port(), redis.pid());
        match round {
            1 => redis.kill(),
            2 => {
                redis.freeze();
                redis.kill();
            }
            _ => redis.stop(),
        }
        assert_eq!(processes_in(&redis.folder().join("data")), []);
        redis.start_again();
        assert_eq!((redis.port(), redis.max_id("orders")), (port, round + 1));
        assert_ne!(redis.pid(), pid);
    }
    let forgetful = Redis::start_set(&["appendonly no"]);
    forgetful.run(&["INCR", "id:orders"]);
    forgetful.kill();
    forgetful.start_again();
    assert_eq!(forgetful.counter("orders"), None);
}

#[test]
fn a_replica_follows_and_one_that_was_cut_off_is_promoted_without_the_last_writes() {
    let primary = Redis::start();
    let proxy = Proxy::to(primary.port());
    let replica = primary.start_replica(proxy.port());
    primary.run(&["SET", "id:orders", "5"]);
    primary.wait_copied_to(&replica);
    assert_eq!(replica.max_id("orders"), 6);
    let error = replica.try_run(&["INCR", "id:orders"]).unwrap_err();
    assert!(error.starts_with("READONLY"), "{error}");
    proxy.lose();
    primary.run(&["SET", "id:orders", "50"]);
    primary.kill();
    replica.promote();
    assert_eq!(replica.run(&["INCR", "id:orders"]), Answer::Integer(6));
    primary.start_again();
    primary.follow(replica.port());
    assert_eq!(primary.max_id("orders"), 7);
}

#[test]
fn sentinels_put_the_replica_in_the_place_of_a_killed_primary() {
    let primary = Redis::start();
    let replica = primary.start_replica(primary.port());
    let sentinels = Sentinels::start(&primary, 1);
    assert_eq!(sentinels.primary(), Some(primary.port()));
    primary.kill();
    sentinels.wait_failover_from(primary.port());
    assert_eq!(sentinels.primary(), Some(replica.port()));
    wait_until("the replica takes writes", || replica.try_run(&["SET", "a", "b"]).is_ok());
    // The old primary becomes a replica.
    primary.start_again();
    wait_until("it follows", || primary.info("master_link_status") == "up");
    assert_eq!(primary.run(&["GET", "a"]).text().as_deref(), Some("b"));
}

#[test]
fn a_server_with_certificates_serves_only_with_tls() {
    let folder = tempfile::tempdir().unwrap();
    let certificates = Certificates::make(folder.path());
    let options = RedisOptions { certificates: Some(&certificates), ..Default::default() };
    let redis = Redis::start_with(&options);
    let secure = ["--tls", "--cacert", &certificates.file("ca.pem"), "PING"];
    assert_eq!(cli(&redis, &secure), "PONG\n");
    assert!(!cli(&redis, &["PING"]).contains("PONG"));
}

#[test]
fn nothing_is_left_of_a_server_whose_test_panics_while_it_is_frozen() {
    let (sender, receiver) = std::sync::mpsc::channel::<PathBuf>();
    let test = std::thread::spawn(move || {
        let redis = Redis::start();
        redis.freeze();
        sender.send(redis.folder().to_owned()).unwrap();
        sender.send(format!("/proc/{}", redis.pid()).into()).unwrap();
        panic!("as a test does");
    });
    test.join().expect_err("it panics");
    let left: Vec<PathBuf> = receiver.iter().filter(|path| path.exists()).collect();
    assert_eq!(left, [] as [PathBuf; 0]);
}
