//! What bash offers for an unfinished command line of leafctl, in a real bash with the script that
//! `leafctl completions bash` prints.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use leafd_tests::binaries::program;
use leafd_tests::daemon::Home;

/// Completes the last word of `line` as bash does at a Tab, and prints an offer per line.
const TAB: &str = r#"
    source <(leafctl completions bash)
    function=$(complete -p leafctl | sed 's/.*-F \([^ ]*\) .*/\1/')
    read -r -a COMP_WORDS <<<"$1"
    [[ "$1" == *" " ]] && COMP_WORDS+=("")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9
    "$function" leafctl "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
    printf '%s\n' "${COMPREPLY[@]}"
"#;

/// The words that bash offers, without descriptions and trailing blanks.
fn offered(home: &Home, line: &str) -> Vec<String> {
    let programs = program("leafctl");
    let programs = programs.parent().unwrap().display().to_string();
    let mut bash = Command::new("bash");
    bash.args(["--noprofile", "--norc", "-c", TAB, "bash", line])
        .env("PATH", format!("{programs}:/usr/bin:/bin"))
        .env("LEAFD_SOCKET", home.socket());
    let output = bash.output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(errors, "", "{line}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.trim_end().to_owned()).filter(|line| !line.is_empty()).collect()
}

#[test]
fn bash_offers_commands_options_tags_and_layouts() {
    let folder = tempfile::tempdir().unwrap();
    let layout = "42/9/12@1704067200000/1ms";
    let home = Home::new(folder.path()).with("SNOWFLAKE_LAYOUT", layout);
    let daemon = home.start();
    for tag in ["orders", "order-lines", "users", "ürün"] {
        daemon.client().next(tag).unwrap();
    }
    let offered = |line: &str| offered(&home, line);
    let commands = offered("leafctl ");
    for command in ["next", "snowflake", "decode", "status", "tag", "version", "completions"] {
        assert!(commands.iter().any(|offer| offer == command), "{command}: {commands:?}");
    }
    assert_eq!(offered("leafctl sno"), ["snowflake"]);
    assert_eq!(offered("leafctl next --cou"), ["--count"]);
    assert_eq!(offered("leafctl next ord"), ["order-lines", "orders"]);
    assert_eq!(offered("leafctl next orders"), ["orders"]);
    let tags = offered("leafctl next ");
    for tag in ["orders", "order-lines", "users", "ürün"] {
        assert!(tags.iter().any(|offer| offer == tag), "{tag}: {tags:?}");
    }
    assert_eq!(offered("leafctl tag show us"), ["users"]);
    assert_eq!(offered("leafctl forecast us"), ["users"]);
    assert_eq!(offered("leafctl bench --tag us"), ["users"]);
    assert_eq!(offered("leafctl tag create us"), [""; 0], "a new tag is none of those that exist");
    let layouts = offered("leafctl decode 5 --layout ");
    assert_eq!(layouts, ["leaf", "twitter", "baidu", "js", "sonyflake", "discord", layout]);
    assert_eq!(offered("leafctl completions f"), ["fish"]);
    daemon.stop();
}

#[test]
fn bash_offers_no_tag_that_would_run_a_command_or_count_as_an_option() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let daemon = home.start();
    for tag in ["orders", "orders; reboot", "orders$(reboot)", "two words", "-n"] {
        daemon.client().next(tag).unwrap();
    }
    assert_eq!(offered(&home, "leafctl next ord"), ["orders"]);
    assert_eq!(offered(&home, "leafctl tag show tw"), [""; 0]);
    assert!(!offered(&home, "leafctl next ").contains(&"-n".to_owned()));
    daemon.stop();
}

#[test]
fn bash_asks_the_daemon_that_the_command_line_names_and_offers_the_rest_without_one() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (home, elsewhere) = (Home::new(folder.path()), Home::new(other.path()));
    let daemon = elsewhere.start();
    daemon.client().next("elsewhere").unwrap();
    let line = format!("leafctl --socket {} next el", elsewhere.socket().display());
    assert_eq!(offered(&home, &line), ["elsewhere"]);
    daemon.stop();
    // Neither daemon runs now.
    assert_eq!(offered(&home, "leafctl next el"), [""; 0]);
    assert_eq!(offered(&home, "leafctl tag sh"), ["show"]);
    assert_eq!(offered(&home, "leafctl decode 5 --layout tw"), ["twitter"]);
}

#[test]
fn every_shell_gets_a_script_that_calls_leafctl() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    for shell in ["bash", "zsh", "fish"] {
        let (code, script, errors) = home.run("leafctl", &["completions", shell]);
        assert_eq!((code, errors.as_str()), (Some(0), ""));
        assert!(script.contains("LEAFCTL_COMPLETE") && script.contains("leafctl"), "{script}");
        if has(shell) {
            let file = folder.path().join(shell);
            std::fs::write(&file, &script).unwrap();
            let checked = Command::new(shell).arg("-n").arg(&file).output().unwrap();
            assert!(checked.status.success(), "{checked:?}");
        }
    }
    assert_eq!(home.run("leafctl", &["completions", "tcsh"]).0, Some(64));
}

/// Whether this machine has a shell. It always has bash.
fn has(shell: &str) -> bool {
    let is_program = |path: &Path| {
        path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 1 != 0)
    };
    let there =
        ["/usr/bin", "/bin"].iter().any(|folder| is_program(&Path::new(folder).join(shell)));
    assert!(there || shell != "bash", "there is no bash");
    there
}
