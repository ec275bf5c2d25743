//! `leafctl doctor` on a real ZooKeeper: whether it answers, and whether a Java Leaf writes the tree.

use leafd_tests::Ensemble;
use leafd_tests::daemon::Home;
use leafd_tests::doctor::{examine, wait_for};
use leafd_tests::workers::instance;
use leafd_tests::zookeeper::{JavaLeaf, Tree};
use tempfile::TempDir;

const NAME: &str = "leaf";

fn home(servers: &str) -> (TempDir, Home) {
    let folder = tempfile::tempdir().unwrap();
    // A slow machine gets time for each call.
    let home = instance(folder.path(), servers, "doctor").with("ZOOKEEPER_TIMEOUT", "3s");
    (folder, home)
}

#[test]
fn a_leafd_that_has_its_worker_id_from_zookeeper_has_no_findings() {
    let (_folder, home) = home(&Ensemble::shared().fresh_chroot());
    let _daemon = home.start();
    wait_for(&home, "snowflake", "ok", "issues snowflake IDs");
    let examined = examine(&home);
    examined.is_healthy();
    assert!(examined.has("registry", "ok", "answers"), "{:#}", examined.report);
    assert!(examined.has("java-leaf", "ok", "no Java Leaf"), "{:#}", examined.report);
}

#[test]
fn a_java_leaf_that_leafd_is_not_told_of_is_bad() {
    let servers = Ensemble::shared().fresh_chroot();
    let (_folder, home) = home(&servers);
    let java = JavaLeaf::at(&servers, NAME, "10.0.0.1", 8080).start().unwrap();
    wait_for(&home, "java-leaf", "bad", "10.0.0.1:8080");
    let told = home.with("WORKER_JAVA_LEAF", "true");
    wait_for(&told, "java-leaf", "ok", "10.0.0.1:8080");
    drop(java);
}

#[test]
fn java_leaf_true_without_a_java_leaf_is_a_note() {
    let (_folder, home) = home(&Ensemble::shared().fresh_chroot());
    let home = home.with("WORKER_JAVA_LEAF", "true");
    let _daemon = home.start();
    wait_for(&home, "java-leaf", "note", "reclaims no worker ID");
}

#[test]
fn another_layout_than_the_fleets_is_bad() {
    let servers = Ensemble::shared().fresh_chroot();
    let (_folder, home) = home(&servers);
    let daemon = home.start();
    wait_for(&home, "snowflake", "ok", "issues snowflake IDs");
    daemon.stop();
    let other = home.with("SNOWFLAKE_LAYOUT", "41/11/11@1288834974657");
    examine(&other).finds("registry", "bad", "another layout");
}

#[test]
fn it_makes_no_node() {
    let servers = Ensemble::shared().fresh_chroot();
    let (_folder, home) = home(&servers);
    examine(&home).finds("registry", "ok", "answers");
    assert_eq!(Tree::at(&servers).children("/"), [""; 0]);
}

#[test]
fn an_ensemble_that_hangs_is_bad_before_the_start_and_a_warning_while_leafd_serves() {
    let ensemble = Ensemble::single();
    let (_folder, home) = home(&ensemble.connect_string());
    let _daemon = home.start();
    wait_for(&home, "snowflake", "ok", "issues snowflake IDs");
    ensemble.freeze(0);
    wait_for(&home, "registry", "warn", "cannot report to ZooKeeper");
    let (_elsewhere, other) = self::home(&ensemble.connect_string());
    examine(&other).finds("registry", "bad", "cannot read ZooKeeper");
}
