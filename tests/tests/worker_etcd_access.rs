//! Worker IDs from an etcd cluster that asks who is there: users with passwords, and certificates.

use leafd_tests::certificates::Certificates;
use leafd_tests::etcd::{EtcdOptions, LoadedHost, instance};
use leafd_tests::load::SNOWFLAKE;
use leafd_tests::workers::SnowflakeCaller;
use leafd_tests::{EtcdCluster, UniqueIds};
use tempfile::TempDir;

#[test]
fn tokens_that_expire_are_renewed_and_a_wrong_password_is_named() {
    let arguments = vec!["--auth-token-ttl=1".to_owned()];
    let mut cluster = EtcdCluster::with(3, &EtcdOptions { arguments, ..EtcdOptions::default() });
    cluster.enable_authentication("leafd", "hunter2", "/leafd/leaf/");
    let seen = UniqueIds::default();
    let home = |name: &str, user: &str, password: &str| {
        let (endpoints, name) = (cluster.endpoints(), name.to_owned());
        let (user, password) = (user.to_owned(), password.to_owned());
        move |folder: &TempDir| {
            instance(folder.path(), &endpoints, "host-1")
                .with("ETCD_NAME", &name)
                .with("ETCD_USER", &user)
                .with("ETCD_PASSWORD", &password)
                .with("ETCD_TIMEOUT", "2s")
        }
    };
    let host = LoadedHost::start(home("leaf", "leafd", "hunter2"), &seen);
    let worker = host.worker();
    // Reports are 3 s apart, so each finds its token expired.
    for _ in 0..4 {
        host.keeps(worker);
    }
    let leader = cluster.leader();
    cluster.kill(leader);
    host.keeps(worker);
    cluster.start_again(leader);
    host.keeps(worker);
    for (name, user, password, reason) in [
        ("leaf", "leafd", "wrong-word", "see etcd.user and its password"),
        ("leaf", "", "", "set etcd.user and its password"),
        ("other", "leafd", "hunter2", "has to read and write the keys below /leafd/NAME/"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let home = home(name, user, password)(&folder);
        let daemon = home.start();
        let refused = SnowflakeCaller::of(&home, &seen).is_refused(reason);
        println!("{}", refused.message);
        let ended = daemon.stop();
        assert!(!ended.log().contains("wrong-word") && !ended.log().contains("hunter2"), "{ended}");
    }
    let (workers, ended) = host.stop_with_log();
    assert!(workers.iter().eq([&worker]), "{workers:?}");
    assert!(!ended.log().contains("hunter2"), "{ended}");
    println!("{} IDs with tokens that last for a second", seen.count(SNOWFLAKE));
}

#[test]
fn members_are_reached_by_tls_with_a_certificate_of_this_hosts_own() {
    let folder = tempfile::tempdir().unwrap();
    let certificates = Certificates::make(folder.path());
    let options = EtcdOptions { certificates: Some(certificates.clone()), ..Default::default() };
    let cluster = EtcdCluster::with(3, &options);
    let seen = UniqueIds::default();
    let plain = |folder: &TempDir| {
        instance(folder.path(), &cluster.endpoints(), "host-1").with("ETCD_TIMEOUT", "2s")
    };
    let with_ca =
        |folder: &TempDir| plain(folder).with("ETCD_CA_FILE", &certificates.file("ca.pem"));
    let with_all = |folder: &TempDir| {
        with_ca(folder)
            .with("ETCD_CERT_FILE", &certificates.file("client.pem"))
            .with("ETCD_KEY_FILE", &certificates.file("client.key"))
    };
    let host = LoadedHost::start(with_all, &seen);
    let worker = host.worker();
    let leader = cluster.leader();
    cluster.kill(leader);
    host.keeps(worker);
    cluster.start_again(leader);
    host.keeps(worker);
    assert!(host.stop().iter().eq([&worker]));
    for (what, is_trusted) in [("an unknown authority", false), ("no certificate", true)] {
        let folder = tempfile::tempdir().unwrap();
        let home = if is_trusted { with_ca(&folder) } else { plain(&folder) };
        let daemon = home.start();
        let refused = SnowflakeCaller::of(&home, &seen).is_refused("etcd has to give one");
        println!("{what}: {}", refused.message);
        assert!(refused.message.contains("ertificate"), "{what}: {}", refused.message);
        daemon.stop();
    }
    println!("{} IDs over TLS", seen.count(SNOWFLAKE));
}
