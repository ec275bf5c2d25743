//! The shipped units and example configuration: valid according to systemd's own tools, and hardened no
//! less than before.

use std::path::{Path, PathBuf};
use std::process::Command;

use leafd_tests::binaries::{program, workspace};

/// The highest exposure that `systemd-analyze security` may report, times ten: 0 is none, 100 is full.
const THRESHOLD: &str = "--threshold=12";

const UNITS: [&str; 5] = [
    "leafd.service",
    "leafd.socket",
    "leafd-peer.socket",
    "leafd-http.socket",
    "leafd-http-local.socket",
];

fn shipped(name: &str) -> PathBuf {
    workspace().join("systemd").join(name)
}

fn analyze(arguments: &[&str], units: &[PathBuf]) -> (bool, String) {
    let output = Command::new("systemd-analyze").args(arguments).args(units).output();
    let output = output.expect("systemd-analyze starts");
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn the_service_is_hardened_at_least_to_the_threshold() {
    let security =
        |unit: &Path| analyze(&["security", "--offline=true", THRESHOLD], &[unit.into()]);
    let service = shipped("leafd.service");
    let (fine, text) = security(&service);
    assert!(fine, "{text}");
    println!("{}", text.trim().lines().next_back().unwrap_or_default());
    // The check can fail: without one of the most important lines it does.
    let folder = tempfile::tempdir().unwrap();
    let unit = std::fs::read_to_string(&service).unwrap();
    for line in ["CapabilityBoundingSet=\n", "SystemCallFilter=@system-service\n"] {
        assert!(unit.contains(line), "{unit}");
        let weaker = folder.path().join("leafd.service");
        std::fs::write(&weaker, unit.replace(line, "")).unwrap();
        assert!(!security(&weaker).0, "the check passes without {line}");
    }
}

#[test]
fn systemd_verifies_the_units_without_complaint() {
    let folder = tempfile::tempdir().unwrap();
    let leafd = program("leafd").display().to_string();
    let units = UNITS.map(|name| {
        let unit = std::fs::read_to_string(shipped(name)).unwrap();
        let path = folder.path().join(name);
        // `verify` looks for the program, which is not installed here.
        std::fs::write(&path, unit.replace("/usr/bin/leafd", &leafd)).unwrap();
        path
    });
    let (fine, text) = analyze(&["verify", "--man=no"], &units);
    assert!(fine && text.is_empty(), "{text}");
    std::fs::write(&units[0], "[Service]\nExecStart=/bin/true\nNoSuchThing=yes\n").unwrap();
    let (_, text) = analyze(&["verify", "--man=no"], &units[..1]);
    assert!(text.contains("NoSuchThing"), "{text}");
}

fn check(configuration: &str) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leafd.toml");
    std::fs::write(&path, configuration).unwrap();
    let mut leafd = Command::new(program("leafd"));
    let output = leafd.args(["check", "--config"]).arg(&path).env_clear().output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn the_shipped_configuration_changes_no_default() {
    let shipped = std::fs::read_to_string(shipped("leafd.toml")).unwrap();
    for line in shipped.lines() {
        assert!(line.is_empty() || line.starts_with('#'), "{line}");
    }
    let (code, text) = check(&shipped);
    assert_eq!(code, Some(0), "{text}");
}

#[test]
fn each_example_in_the_shipped_configuration_is_valid() {
    let shipped = std::fs::read_to_string(shipped("leafd.toml")).unwrap();
    // Lines that can be uncommented have no space after the `#`.
    let examples = shipped.split("\n\n").map(|paragraph| {
        let lines = paragraph.lines().filter_map(|line| line.strip_prefix('#'));
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with(' '));
        lines.collect::<Vec<_>>().join("\n") + "\n"
    });
    let mut examples: Vec<_> = examples.filter(|example| !example.trim().is_empty()).collect();
    assert!(examples.len() > 4, "{examples:?}");
    let registry = examples.iter().position(|example| example.contains("registry")).unwrap();
    let servers = examples.iter().position(|example| example.contains("servers")).unwrap();
    // These two need each other.
    let servers = examples.remove(servers);
    examples[registry].push_str(&servers);
    // The secrets and the group of an application are not on this machine.
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "user:secret\n").unwrap();
    let secret = secret.display().to_string();
    for example in examples {
        let here = example.replace("groups = [\"billing\"]", "groups = [\"root\"]");
        let here = ["store-password", "zookeeper-auth"].iter().fold(here, |text, name| {
            text.replace(&format!("\"{name}\""), &format!("\"{secret}\""))
        });
        let (code, text) = check(&here);
        assert_eq!(code, Some(0), "{here}\n{text}");
    }
}
