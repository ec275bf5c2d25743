//! Failed starts in a real systemd. `systemctl status` shows the reason and the right exit status, and
//! leafd is back as soon as the cause is repaired.

use std::time::{Duration, Instant};

use leaf_client::blocking::Client;
use leafd_tests::{Container, PATIENCE};

const SERVICE: &str = "leafd.service";
const CONFIG: &str = "/etc/leafd/leafd.toml";

/// Asserts that the start fails, and that `systemctl status` then shows the exit code `code` and all of
/// `words`. A service that is being restarted shows them again once that start has failed too.
fn fails(container: &Container, code: u32, words: &[&str]) {
    assert_ne!(container.sh("systemctl start leafd.service").code, Some(0));
    let code = format!("status={code}");
    let began = Instant::now();
    loop {
        let status = container.status(SERVICE);
        let missing = words.iter().copied().chain([&*code]).find(|word| !status.contains(word));
        let Some(missing) = missing else { return };
        assert!(began.elapsed() < PATIENCE, "no {missing:?} in\n{status}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Asserts that one command brings the repaired service back.
fn is_back(container: &Container) {
    container.ok("systemctl restart leafd.service");
    assert_eq!(container.property(SERVICE, "ActiveState"), "active");
    container.ok("leafctl next orders");
}

#[test]
fn a_wrong_configuration_ends_with_78_and_names_the_key() {
    let container = Container::with_leafd();
    container.write(CONFIG, "[worker]\nid = 5000\n");
    fails(&container, 78, &["worker.id", "5000", "78"]);
    // systemd does not retry, since a retry cannot help.
    assert_eq!(container.property(SERVICE, "ActiveState"), "failed");
    assert_eq!(container.property(SERVICE, "NRestarts"), "0");
    container.write(CONFIG, "[worker]\nid = 5\n");
    is_back(&container);
}

#[test]
fn a_service_that_cannot_start_keeps_its_socket_and_answers_once_it_is_repaired() {
    let container = Container::with_leafd();
    container.write(CONFIG, "nonsense\n");
    let options = container.options().timeout(Duration::from_secs(300));
    let patient = std::thread::spawn(move || Client::new(options).next("orders"));
    container.until("systemd has tried three times", || {
        let failures = "journalctl --quiet --unit=leafd.service --grep='status=78/CONFIG'";
        container.sh(failures).text.lines().count() >= 3
    });
    assert_ne!(container.property("leafd.socket", "ActiveState"), "failed");
    container.write(CONFIG, "");
    // The service recovers without a command.
    let answer = patient.join().unwrap();
    assert_eq!(answer.unwrap(), 1, "{}", container.journal());
    assert_eq!(container.property(SERVICE, "ActiveState"), "active");
}

#[test]
fn a_missing_credential_is_named() {
    let container = Container::with_leafd();
    // The configuration names it, but it does not exist.
    let store = "[store]\nkind = \"mysql\"\nurl = \"mysql://leaf@127.0.0.1/leaf\"\n";
    container.write(CONFIG, &format!("{store}password-file = \"store-password\"\n"));
    fails(&container, 78, &["store-password", "LoadCredential="]);
    assert_eq!(container.property(SERVICE, "NRestarts"), "0");
    // The folder in which systemd looks for credentials.
    container.write("/etc/credstore/store-password", "hunter2\n");
    container.ok("chmod -R go= /etc/credstore; systemctl start leafd.service");
    // The check before a reload can read it too.
    container.ok("systemctl reload leafd.service");
    container.ok("systemctl stop leafd.service");
    let journal = container.journal().wait_for("Deactivated successfully");
    assert!(!journal.contains("hunter2"), "{journal}");
    // If the unit names a file that does not exist, systemd does not even start leafd.
    let drop_in = "/etc/systemd/system/leafd.service.d/secret.conf";
    container.write(drop_in, "[Service]\nLoadCredential=store-password:/etc/no-such-secret\n");
    container.ok("systemctl daemon-reload");
    fails(&container, 243, &["status=243/CREDENTIALS"]);
    container.ok(&format!("rm {drop_in}; systemctl daemon-reload"));
    container.write(CONFIG, "");
    is_back(&container);
}

#[test]
fn a_state_directory_that_leafd_may_not_use_is_named() {
    let container = Container::with_leafd();
    container.ok("mkdir -m 700 /var/lib/other");
    container.write(CONFIG, "[state]\ndir = \"/var/lib/other\"\n");
    fails(&container, 74, &["/var/lib/other", "74"]);
    container.write(CONFIG, "");
    is_back(&container);
    // State that belongs to root, as after a command that was run as root.
    container.ok("systemctl stop leafd.service; chown root: /var/lib/leafd/*");
    container.ok("chmod 600 /var/lib/leafd/*");
    fails(&container, 74, &["/var/lib/leafd", "Permission denied"]);
    // systemd retries, since this can be repaired without a command to systemd.
    container.ok("chown leafd: /var/lib/leafd/*");
    container.until_property(SERVICE, "ActiveState", "active");
    container.ok("leafctl next orders");
}
