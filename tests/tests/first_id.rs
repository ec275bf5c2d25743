//! The first ID after the first build: leafd alone is enough. It contains leafctl, and its log suggests
//! a command that works there and then.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use leafd_tests::binaries::{program, workspace};
use leafd_tests::daemon::{Daemon, Home};
use tempfile::TempDir;

/// A folder that contains leafd and no leafctl, as `target/release` does after `cargo run --release`.
fn only_leafd() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let leafd = folder.path().join("leafd");
    std::fs::copy(program("leafd"), &leafd).unwrap();
    (folder, leafd)
}

/// A daemon from that copy of leafd, without a leafctl in its `PATH`.
fn start(home: &Home, leafd: &Path) -> Daemon {
    let exec = format!("exec '{}'", leafd.display());
    let home = home.clone().with_variable("PATH", "/usr/bin:/bin");
    home.through(&["sh", "-c", &exec]).start()
}

/// Runs a program as an operator's shell does, with `LEAFD_SOCKET` set to the daemon's.
fn run(home: &Home, program: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(program);
    let command = command.args(arguments).env("LEAFD_SOCKET", home.socket()).stdin(Stdio::null());
    seen(&command.output().unwrap())
}

fn seen(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn without_an_installed_leafctl_the_log_suggests_leafd_itself_and_the_command_works() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let (_programs, leafd) = only_leafd();
    let daemon = start(&home, &leafd);
    let log = home.log().wait_for("get an ID: ");
    let command = log.lines().find_map(|line| line.split_once("get an ID: ")).unwrap().1;
    assert!(command.starts_with(&format!("{} ctl ", leafd.display())), "{command}");
    let mut shell = Command::new("sh");
    let output = shell.args(["-c", command]).env_remove("LEAFD_SOCKET").output().unwrap();
    assert_eq!(seen(&output), (Some(0), "1\n".to_owned(), String::new()), "{command}");
    daemon.stop();
}

#[test]
fn leafd_is_leafctl_by_that_name() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let (programs, leafd) = only_leafd();
    let leafctl = programs.path().join("leafctl");
    std::os::unix::fs::symlink(&leafd, &leafctl).unwrap();
    let daemon = start(&home, &leafd);
    let ask = |arguments: &[&str]| run(&home, &leafctl, arguments);
    assert_eq!(ask(&["next", "orders"]), (Some(0), "1\n".to_owned(), String::new()));
    assert!(ask(&["--version"]).1.starts_with("leafctl "));
    assert!(ask(&["next", "--help"]).1.contains("Usage: leafctl next"));
    daemon.stop();
}

#[test]
fn leafd_ctl_prints_and_returns_what_leafctl_does() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let daemon = home.start();
    let (leafd, leafctl) = (program("leafd"), program("leafctl"));
    for words in [
        &["tag", "create", "orders", "--step", "500"][..],
        &["tag", "create", "orders"],
        &["tag", "delete", "orders"],
        &["tag", "show", "none"],
        &["decode", "4095", "-5"],
        &["decode", "4095", "--json"],
        &["worker", "list"],
        &["health", "--ready"],
        &["next"],
        &["--help"],
        &["bench", "--help"],
        &["--version"],
        &["nxt"],
        &[],
    ] {
        // The first command creates the tag, so leafd ctl gets a tag of its own.
        let own: Vec<_> = words.iter().map(|word| word.replace("orders", "lines")).collect();
        let own: Vec<_> = std::iter::once("ctl").chain(own.iter().map(String::as_str)).collect();
        let (code, out, errors) = run(&home, &leafctl, words);
        let as_typed = format!("{} ctl", leafd.display());
        let as_leafctl = |text: String| {
            text.replace(&as_typed, "leafctl")
                .replace("leafd ctl", "leafctl")
                .replace("lines", "orders")
        };
        let (own_code, own_out, own_errors) = run(&home, &leafd, &own);
        assert_eq!(own_code, code, "{words:?}: {own_errors}");
        // The names differ in length, and clap aligns nothing by them.
        assert_eq!(as_leafctl(own_out), as_leafctl(out), "{words:?}");
        assert_eq!(as_leafctl(own_errors), as_leafctl(errors), "{words:?}");
    }
    let (_, _, errors) = run(&home, &leafd, &["ctl", "tag", "delete", "orders"]);
    let suggested = format!("{} ctl tag delete --yes -- orders", leafd.display());
    assert!(errors.contains(&suggested), "it suggests a leafctl that may not exist: {errors}");
    daemon.stop();
}

#[test]
fn leafd_ctl_ends_silently_when_its_reader_does() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let daemon = home.start();
    let line = format!("{} ctl next orders -n 100000 | head -n 1", program("leafd").display());
    let mut shell = Command::new("sh");
    let output = shell.args(["-c", &line]).env("LEAFD_SOCKET", home.socket()).output().unwrap();
    assert_eq!(seen(&output), (Some(0), "1\n".to_owned(), String::new()));
    daemon.stop();
}

#[test]
fn the_readme_compiles_once_for_the_first_id() {
    let readme = std::fs::read_to_string(workspace().join("README.md")).unwrap();
    let start = readme.split("\n## ").find(|part| part.starts_with("Start\n")).expect("its start");
    let commands = start.split("```").nth(1).expect("commands");
    assert_eq!(commands.matches("cargo").count(), 1, "{commands}");
    assert!(commands.contains("target/release/leafd ctl next orders"), "{commands}");
}
