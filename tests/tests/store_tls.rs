//! TLS to a shared database: where it is required, leafd talks to the right server or to none.

use std::path::PathBuf;
use std::process::Command;

use leafd::store::{ServerKind, StoreError};
use leafd_tests::database::{Database, Extra, Kind, Session};
use leafd_tests::stores::{ASK, LIMITS, TestStore, open_at, run, tag, wait_until};
use tempfile::TempDir;

const CONFIGURATION: &str = "\
[req]
distinguished_name = name
[name]
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign
[server]
subjectAltName = IP:127.0.0.1
";

/// A private certificate authority.
struct Authority(TempDir);

impl Authority {
    fn new() -> Self {
        let this = Self(tempfile::tempdir().expect("a folder"));
        std::fs::write(this.path("configuration"), CONFIGURATION).expect("its configuration");
        this.make("authority", &[]);
        this
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn make(&self, what: &str, signed: &[&str]) {
        let mut command = Command::new("openssl");
        command
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
            .args(["-nodes", "-days", "2", "-config", "configuration", "-extensions", what])
            .args(["-subj", &format!("/CN={what}"), "-out", &format!("{what}.pem")])
            .args(["-keyout", &format!("{what}.key")])
            .args(signed)
            .current_dir(self.0.path());
        let output = command.output().expect("openssl is installed");
        assert!(output.status.success(), "{command:?}: {output:?}");
    }

    /// Starts a server with a certificate for its address.
    fn start(&self, kind: Kind) -> TestStore {
        self.make("server", &["-CA", "authority.pem", "-CAkey", "authority.key"]);
        let read = |name| std::fs::read_to_string(self.path(name)).expect(name);
        let files = [("tls.pem", &*read("server.pem")), ("tls.key", &*read("server.key"))];
        let arguments: &[&str] = match kind {
            Kind::MariaDb => &["--ssl-cert=tls.pem", "--ssl-key=tls.key"],
            Kind::Postgres => {
                &["-c", "ssl=on", "-c", "ssl_cert_file=tls.pem", "-c", "ssl_key_file=tls.key"]
            }
        };
        let bench = TestStore::on(Database::start_with(
            kind,
            Extra { files: &files, arguments, clock: None },
        ));
        bench.create_table();
        bench.insert("orders", "1", "10");
        bench
    }
}

/// Asks for a lease, with another host and with parameters in the URL.
fn lease(bench: &TestStore, host: &str, more: &str, verify: bool) -> Result<(), StoreError> {
    let url = bench.database().url().replace("127.0.0.1", host);
    let store = open_at(bench.speaks(), &format!("{url}?{more}"), verify, LIMITS);
    let leased = run(store.lease(&tag("orders"), ASK));
    assert_eq!(run(store.probe()).is_ok(), leased.is_ok());
    leased.map(drop)
}

fn words(bench: &TestStore, authority: &Authority) -> (&'static str, String) {
    let path = authority.path("authority.pem").display().to_string();
    match bench.speaks() {
        ServerKind::MySql => ("ssl-mode=REQUIRED", format!("ssl-mode=REQUIRED&ssl-ca={path}")),
        ServerKind::Postgres => ("sslmode=require", format!("sslmode=require&sslrootcert={path}")),
    }
}

fn assert_refused(outcome: Result<(), StoreError>, words: &str) {
    let Err(StoreError::Down(why)) = outcome else { panic!("{outcome:?}") };
    assert!(why.contains(words) && !why.contains("secret"), "{why}");
}

/// Makes the server refuse the user `leaf` without TLS.
fn insist(bench: &TestStore) {
    match bench.speaks() {
        ServerKind::MySql => bench.sql("ALTER USER leaf REQUIRE SSL"),
        ServerKind::Postgres => {
            let file = bench.query("SHOW hba_file")[0][0].clone().unwrap();
            let access = std::fs::read_to_string(&file).unwrap();
            std::fs::write(&file, access.replace("host ", "hostssl ")).unwrap();
            assert!(!bench.query("SELECT pg_reload_conf()").is_empty());
        }
    }
    let plain = || Session::open(&bench.database().url());
    wait_until("the server refuses connections without TLS", || plain().is_err());
}

#[test]
fn only_a_server_with_a_trusted_certificate_is_used() {
    let (authority, another) = (Authority::new(), Authority::new());
    for kind in Kind::ALL {
        let bench = authority.start(kind);
        insist(&bench);
        let (required, trusted) = words(&bench, &authority);
        let (_, mistaken) = words(&bench, &another);
        assert_refused(lease(&bench, "127.0.0.1", required, true), "UnknownIssuer");
        assert_refused(lease(&bench, "127.0.0.1", &mistaken, true), "invalid peer certificate");
        let missing = trusted.replace("authority.pem", "missing.pem");
        assert_refused(lease(&bench, "127.0.0.1", &missing, true), "No such file");
        assert_refused(lease(&bench, "localhost", &trusted, true), "not valid for name");
        assert_eq!(lease(&bench, "127.0.0.1", &trusted, true), Ok(()), "{kind:?}");
        // Without verification, any certificate is accepted.
        assert_eq!(lease(&bench, "127.0.0.1", required, false), Ok(()), "{kind:?}");
        assert_eq!(lease(&bench, "localhost", required, false), Ok(()), "{kind:?}");
        assert_eq!(bench.max_id("orders"), 31);
    }
}

#[test]
fn a_server_without_tls_is_refused_if_tls_is_required() {
    for bench in [TestStore::mariadb(), TestStore::postgres()] {
        bench.create_table();
        bench.insert("orders", "1", "10");
        let (required, _) = words(&bench, &Authority::new());
        for verify in [true, false] {
            assert_refused(lease(&bench, "127.0.0.1", required, verify), "TLS");
        }
        assert_eq!(lease(&bench, "127.0.0.1", "", true), Ok(()));
    }
}
