//! TLS to Redis: leafd talks to a server with a trusted certificate and the right name, or to none.

use leafd_tests::caller::{Caller, store_error, wait_until};
use leafd_tests::certificates::Certificates;
use leafd_tests::daemon::Home;
use leafd_tests::redis::RedisOptions;
use leafd_tests::{Redis, UniqueIds};

/// A daemon with these settings.
fn home(redis: &Redis, settings: &[(&str, &str)]) -> (tempfile::TempDir, Home) {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with_redis(redis);
    (folder, settings.iter().fold(home, |home, (key, value)| home.with(key, value)))
}

fn serves(redis: &Redis, settings: &[(&str, &str)]) {
    let (_folder, home) = home(redis, settings);
    let daemon = home.start();
    Caller::of(&daemon, "orders", &UniqueIds::default()).gets(10);
    daemon.stop();
}

fn is_refused(redis: &Redis, settings: &[(&str, &str)]) -> String {
    let (_folder, home) = home(redis, settings);
    let daemon = home.start();
    wait_until(&home, "the store fails", || !store_error(&home).is_empty());
    let error = store_error(&home);
    daemon.stop();
    assert!(!error.contains("secret"), "{error}");
    error
}

#[test]
fn only_a_server_with_a_trusted_certificate_is_used() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [ours, others] = folders.each_ref().map(|folder| Certificates::make(folder.path()));
    let options = RedisOptions { certificates: Some(&ours), ..Default::default() };
    let redis = Redis::start_with(&options);
    redis.insert_tag("orders", 1, 10);
    let (ca, wrong) = (ours.file("ca.pem"), others.file("ca.pem"));
    serves(&redis, &[("REDIS_TLS", "true"), ("REDIS_CA_FILE", &ca)]);
    let error = is_refused(&redis, &[("REDIS_TLS", "true"), ("REDIS_CA_FILE", &wrong)]);
    assert!(error.contains("certificate"), "{error}");
    let error = is_refused(&redis, &[("REDIS_TLS", "true")]);
    assert!(error.contains("UnknownIssuer"), "{error}");
    let named = format!("localhost:{}", redis.port());
    let error = is_refused(
        &redis,
        &[("REDIS_TLS", "true"), ("REDIS_CA_FILE", &ca), ("REDIS_SERVERS", &named)],
    );
    assert!(error.contains("not valid for name"), "{error}");
    // Without TLS, to a port that speaks nothing else.
    is_refused(&redis, &[]);
    // With TLS, to a server without.
    let plain = Redis::start();
    plain.insert_tag("orders", 1, 10);
    is_refused(&plain, &[("REDIS_TLS", "true"), ("REDIS_CA_FILE", &ca)]);
    assert_eq!(plain.max_id("orders"), 1);
}

#[test]
fn a_server_that_asks_for_a_certificate_gets_it() {
    let folder = tempfile::tempdir().unwrap();
    let certificates = Certificates::make(folder.path());
    let redis = Redis::start_with(&RedisOptions {
        certificates: Some(&certificates),
        settings: &["tls-auth-clients yes"],
    });
    redis.insert_tag("orders", 1, 10);
    let files = ["ca.pem", "client.pem", "client.key"].map(|name| certificates.file(name));
    let settings = [
        ("REDIS_TLS", "true"),
        ("REDIS_CA_FILE", &*files[0]),
        ("REDIS_CERT_FILE", &*files[1]),
        ("REDIS_KEY_FILE", &*files[2]),
    ];
    serves(&redis, &settings);
    is_refused(&redis, &settings[..2]);
}
