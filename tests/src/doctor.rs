//! Runs `leafctl doctor` and reads its report. A preloaded library says what the kernel says of the
//! clock and of disks, so that a test does not depend on the machine that it runs on.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde_json::Value;

use crate::PATIENCE;
use crate::cache;
use crate::daemon::Home;

/// The source of the library, which the C compiler of every Rust installation builds.
const LIES: &str = include_str!("host_lies.c");

/// What `leafctl doctor --json` said.
#[derive(Debug)]
pub struct Examined {
    /// The exit code.
    pub code: Option<i32>,
    /// The report.
    pub report: Value,
}

/// Checks that depend on the machine: what its disk is, and how many files are open on it.
const OF_THE_MACHINE: [&str; 4] = ["state-lasts", "snapshots", "disk", "open-files"];

/// The settings for a doctor on a host whose clock is synchronised.
#[must_use]
pub fn on_a_sound_host(home: &Home) -> Home {
    let library = library().display().to_string();
    home.clone().with_variable("LD_PRELOAD", &library).with_variable("HOST_LIES_CLOCK", "set")
}

/// Builds the library once for all test programs.
fn library() -> PathBuf {
    let mut hasher = DefaultHasher::new();
    LIES.hash(&mut hasher);
    let built =
        cache::made_once(&format!("host-lies-{:016x}", hasher.finish()), |folder: &Path| {
            std::fs::create_dir(folder).expect("a folder");
            let source = folder.join("lies.c");
            std::fs::write(&source, LIES).expect("its source");
            let mut cc = Command::new("cc");
            cc.args(["-shared", "-fPIC", "-o"]).arg(folder.join("lies.so")).arg(source).arg("-ldl");
            let output = cc.output().expect("a C compiler, which Rust needs to link");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        });
    built.join("lies.so")
}

/// Examines the host with the settings of `home`.
#[must_use]
pub fn examine(home: &Home) -> Examined {
    examine_with(home, &[])
}

/// As [`examine`], with more arguments.
#[must_use]
pub fn examine_with(home: &Home, arguments: &[&str]) -> Examined {
    let home = on_a_sound_host(home);
    let (code, out, errors) = home.run("leafctl", &[&["doctor", "--json"], arguments].concat());
    let report =
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{errors}"));
    Examined { code, report }
}

/// Examines the host until a check finds this. Facts change behind a test's back: a daemon notices a
/// failure, a server a replica.
pub fn wait_for(home: &Home, check: &str, level: &str, text: &str) -> Examined {
    let began = Instant::now();
    loop {
        let examined = examine(home);
        if examined.has(check, level, text) {
            return examined;
        }
        let late = began.elapsed() > PATIENCE;
        assert!(!late, "no {check} {level} {text:?}\n{:#}\n{}", examined.report, home.log());
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}

impl Examined {
    /// Every finding.
    fn findings(&self) -> &[Value] {
        self.report["findings"].as_array().expect("findings")
    }

    /// Whether a check has a finding of this level with this text in it.
    #[must_use]
    pub fn has(&self, check: &str, level: &str, text: &str) -> bool {
        self.findings().iter().any(|finding| {
            let words = ["title", "detail", "remedy"].map(|key| finding[key].as_str().expect(key));
            finding["check"] == check
                && finding["level"] == level
                && words.join("\n").contains(text)
        })
    }

    /// Asserts that a check has a finding of this level with this text in it, and a place in the
    /// manual.
    pub fn finds(&self, check: &str, level: &str, text: &str) {
        assert!(self.has(check, level, text), "no {check} {level} {text:?}\n{:#}", self.report);
        let ends_with_1 = self.code == Some(1);
        assert_eq!(ends_with_1, self.report["bad"] != 0, "{:#}", self.report);
    }

    /// Asserts that nothing is wrong but what this machine itself brings.
    pub fn is_healthy(&self) {
        let worse: Vec<_> = self
            .findings()
            .iter()
            .filter(|finding| finding["level"] != "ok")
            .filter(|finding| !OF_THE_MACHINE.iter().any(|check| finding["check"] == *check))
            .collect();
        assert!(worse.is_empty(), "{worse:#?}");
    }

    /// Whether a check found anything at all.
    #[must_use]
    pub fn looked_at(&self, check: &str) -> bool {
        self.findings().iter().any(|finding| finding["check"] == check)
    }
}
