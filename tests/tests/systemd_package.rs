//! The Debian package in a real Debian: installed, upgraded under load, removed, purged, reinstalled, and
//! installed where systemd does not run.

use std::time::Duration;

use leafd_tests::links;
use leafd_tests::load::{AsyncLoad, Load, SNOWFLAKE};
use leafd_tests::nspawn::Package;
use leafd_tests::{Container, UniqueIds};

const SERVICE: &str = "leafd.service";

/// A command that lists leafd's files.
const LEFTOVERS: &str = "find / -xdev -name '*leafd*' -o -name '*leafctl*' | \
                         grep -Ev '^/(proc|sys|root|tmp|var/lib/dpkg/info/format)' || true; \
                         ls -d /run/leafd 2>/dev/null || true";

fn version(container: &Container) -> String {
    container.ok("dpkg-query --show --showformat='${Version}' leafd")
}

#[test]
fn an_upgrade_under_load_fails_no_call_and_gives_no_id_twice() {
    let container = Container::with_leafd();
    let seen = UniqueIds::default();
    let options = container.options().timeout(Duration::from_secs(120));
    let spaces = ["orders", "users", SNOWFLAKE];
    let load = Load::start(&options, &seen, &spaces, 3000);
    let tasks = AsyncLoad::start(&options, &seen);
    let are_served = || {
        let before = spaces.map(|space| seen.count(space));
        container.until("clients are served", || {
            assert!(!load.is_broken(), "{}", container.journal());
            spaces.iter().zip(before).all(|(space, before)| seen.count(space) > before)
        });
    };
    are_served();
    let socket = || container.ok("stat --format=%i /run/leafd/leafd.sock");
    let at_first = socket();
    let first = Package::build();
    for number in 1..=3 {
        let pid = container.main_pid();
        let (next, _folder) = first.with_version(&format!("{}+{number}", first.version()));
        container.install(&next);
        assert_eq!(version(&container), next.version());
        assert_ne!(container.main_pid(), pid, "the old daemon still runs");
        assert_eq!(socket(), at_first, "the socket went away");
        are_served();
    }
    let journal = container.journal();
    assert_eq!(tasks.finish(), [""; 0], "calls of asynchronous clients\n{journal}");
    assert_eq!(load.finish(), 0, "calls of blocking clients\n{journal}");
    println!("3 upgrades, {} IDs", seen.total());
}

#[test]
fn an_upgrade_starts_nothing_that_was_stopped_or_disabled() {
    let container = Container::with_leafd();
    let first = Package::build();
    let (second, _folder) = first.with_version(&format!("{}+1", first.version()));
    let (third, _folder) = first.with_version(&format!("{}+2", first.version()));
    container.install(&second);
    assert_eq!(container.property(SERVICE, "ActiveState"), "inactive");
    container.ok("systemctl disable --now leafd.socket");
    container.write("/etc/leafd/leafd.toml", "[worker]\nid = 9\n");
    container.install(&third);
    assert_eq!(version(&container), third.version());
    assert_eq!(container.property("leafd.socket", "ActiveState"), "inactive");
    assert_eq!(container.property("leafd.socket", "UnitFileState"), "disabled");
    assert_eq!(container.property(SERVICE, "ActiveState"), "inactive");
    // An upgrade keeps the administrator's changes.
    assert_eq!(container.ok("cat /etc/leafd/leafd.toml"), "[worker]\nid = 9\n");
}

#[test]
fn a_removal_keeps_everything_a_purge_keeps_the_state_and_a_confirmed_purge_keeps_nothing() {
    let container = Container::boot();
    let before = container.ok(LEFTOVERS);
    assert_eq!(before, "", "there are files of leafd before it is installed");
    let package = Package::build();
    container.install(&package);
    assert_eq!(container.ok("leafctl next orders --count 3"), "1\n2\n3\n");
    container.write("/etc/leafd/leafd.toml", "[worker]\nid = 9\n");
    container.ok("dpkg --remove leafd");
    for unit in [SERVICE, "leafd.socket"] {
        assert_eq!(container.property(unit, "ActiveState"), "inactive", "{unit}");
    }
    assert_eq!(container.sh("ls /run/leafd").code, Some(2), "a socket is left");
    assert_eq!(container.ok("systemctl is-system-running"), "running\n");
    // After a reinstallation, IDs go on where they stopped.
    container.install(&package);
    assert_eq!(container.property("leafd.socket", "ActiveState"), "active");
    assert_eq!(container.ok("leafctl next orders"), "4\n");
    assert_eq!(container.ok("cat /etc/leafd/leafd.toml"), "[worker]\nid = 9\n");
    // debconf cannot ask anybody here, so the purge keeps the record of issued IDs.
    let output = container.ok("dpkg --purge leafd");
    assert!(output.contains("/var/lib/leafd is kept"), "{output}");
    container.install(&package);
    assert_eq!(container.ok("leafctl next orders"), "5\n");
    container.ok("echo leafd leafd/purge-state boolean true | debconf-set-selections");
    container.ok("dpkg --purge leafd");
    assert_eq!(container.ok(LEFTOVERS), "", "a purge leaves something");
    assert_eq!(container.sh("systemctl cat leafd.service leafd.socket").code, Some(1));
    assert_eq!(container.ok("systemctl is-system-running"), "running\n");
    // The account stays, and a new installation begins at 1.
    container.ok("getent passwd leafd");
    container.install(&package);
    assert_eq!(container.ok("leafctl next orders"), "1\n");
}

#[test]
fn the_package_can_be_installed_and_purged_where_systemd_does_not_run() {
    let container = Container::boot();
    let file = container.bring(&Package::build());
    // As in a chroot or a container: nothing in /run shows a systemd.
    let text = container.ok(&format!(
        "unshare --mount sh -ec '\
         mount -t tmpfs none /run; \
         dpkg --install {file}; \
         leafd check; leafctl decode 1 --layout leaf; getent passwd leafd; \
         dpkg --install {file}; \
         dpkg --purge leafd'"
    ));
    assert!(text.contains("the configuration is right"), "{text}");
    for word in ["Failed", "failed", "rror"] {
        assert!(!text.contains(word), "{text}");
    }
    assert_eq!(container.ok(LEFTOVERS), "");
}

#[test]
fn manual_pages_completions_and_examples_are_in_their_places() {
    let container = Container::with_leafd();
    for page in ["man1/leafctl.1", "man1/leafctl-tag-create.1", "man5/leafd.toml.5", "man8/leafd.8"]
    {
        let text = container.ok(&format!("gzip --decompress --stdout /usr/share/man/{page}.gz"));
        assert!(text.contains(".SH NAME"), "{page}: {text}");
    }
    for program in ["leafd", "leafctl"] {
        let file = format!("/usr/share/bash-completion/completions/{program}");
        let known = container.ok(&format!("bash -ec '. {file}; complete -p {program}'"));
        assert!(known.contains(program), "{known}");
        container.ok(&format!("test -s /usr/share/zsh/vendor-completions/_{program}"));
        container.ok(&format!("test -s /usr/share/fish/vendor_completions.d/{program}.fish"));
    }
    for file in [
        "copyright",
        "changelog.gz",
        "README.md",
        "docs/operations/README.md",
        "monitoring/README.md",
        "monitoring/alerts.yaml",
        "monitoring/dashboard.json",
        "protocol/README.md",
        "protocol/vectors.json",
        "protocol/malformed.json",
    ] {
        container.ok(&format!("test -s /usr/share/doc/leafd/{file}"));
    }
    let (check, conffiles) =
        (container.ok("leafd check"), container.ok("cat /var/lib/dpkg/info/leafd.conffiles"));
    assert!(check.contains("/etc/leafd/leafd.toml"), "{check}");
    assert_eq!(conffiles, "/etc/leafd/leafd.toml\n");
    let verified = container.sh("dpkg --verify leafd");
    assert_eq!((verified.code, verified.text.as_str()), (Some(0), ""));
}

#[test]
fn every_link_of_an_installed_document_leads_to_a_file_and_a_heading() {
    let folder = tempfile::tempdir().unwrap();
    let mut unpack = std::process::Command::new("dpkg-deb");
    let status = unpack.arg("--extract").arg(Package::build().path()).arg(folder.path()).status();
    assert!(status.unwrap().success());
    let folder = folder.path().join("usr/share/doc/leafd").canonicalize().unwrap();
    let dead = links::dead(&folder, &links::documents(&folder));
    assert!(dead.is_empty(), "{dead:#?}");
}

#[test]
fn a_dropped_container_leaves_nothing_behind() {
    let container = Container::boot();
    let folder = container.folder().to_owned();
    let proc = container.path("/");
    assert!(folder.exists() && proc.exists());
    drop(container);
    assert!(!folder.exists() && !proc.exists());
}
