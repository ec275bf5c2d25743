//! `leafctl doctor` on a real ZooKeeper: whether a Java Leaf writes the tree.

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
fn a_tree_without_a_java_leaf_is_fine() {
    let (_folder, home) = home(&Ensemble::shared().fresh_chroot());
    let _daemon = home.start();
    wait_for(&home, "snowflake", "ok", "issues snowflake IDs");
    let examined = examine(&home);
    examined.is_healthy();
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
fn it_makes_no_node() {
    let servers = Ensemble::shared().fresh_chroot();
    let (_folder, home) = home(&servers);
    examine(&home).finds("registry", "ok", "answers");
    assert_eq!(Tree::at(&servers).children("/"), [""; 0]);
}
