//! `leafctl run` with a snowflake library of another language, in many copies on two hosts: whatever is
//! killed, frozen and cut off, no ID comes twice.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use leafd_tests::binaries::python_with_packages;
use leafd_tests::daemon::Home;
use leafd_tests::long::short_or_long;
use leafd_tests::registry::RegistryKind;
use leafd_tests::workers::instance;
use leafd_tests::{Daemon, TestRegistry, on_every_registry};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

/// Copies of the application.
const COPIES: usize = 20;

/// How long the storm lasts.
const SHORT: Duration = Duration::from_secs(50);
const LONG: Duration = Duration::from_secs(300);

/// How long a copy may take to issue after the storm, when its number may have to be reclaimed first.
const PATIENCE: Duration = Duration::from_secs(240);

/// How often each fault was injected.
type Deeds = Mutex<BTreeMap<&'static str, u64>>;

fn done(deeds: &Deeds, deed: &'static str) {
    *deeds.lock().unwrap().entry(deed).or_default() += 1;
}

on_every_registry! {
    no_id_of_another_library_comes_twice_whatever_is_killed_frozen_or_cut_off,
}

/// One copy under `leafctl run`, in a process group of its own.
struct Copy {
    leafctl: Child,
}

impl Copy {
    fn start(home: &Home, ids: &Path) -> Self {
        let script = leafd_tests::binaries::workspace().join("tests/lent/issue.py");
        let mut command: Command = home.command("leafctl");
        command.args(["run", "--worker-env", "WORKER", "--pool", "few", "--grace", "1s"]);
        command.args(["--wait", "300s", "--"]).arg(python_with_packages()).arg(script).arg(ids);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        Self { leafctl: command.spawn().expect("leafctl") }
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.leafctl.id().try_into().expect("a process ID"))
    }

    fn signal(&self, signal: Signal) {
        let _ = kill(self.pid(), signal);
    }

    fn signal_all(&self, signal: Signal) {
        let _ = killpg(self.pid(), signal);
    }

    fn kill_command(&self) {
        let pid = self.pid();
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        for child in children.unwrap_or_default().split_whitespace() {
            let _ = kill(Pid::from_raw(child.parse().unwrap()), Signal::SIGKILL);
        }
    }

    fn has_ended(&mut self) -> bool {
        self.leafctl.try_wait().expect("a child").is_some()
    }
}

/// What may happen to a copy. Frozen ones thaw after the fence and issue before anyone ends them.
fn befall(copy: &mut Copy, deeds: &Deeds, until: Instant) {
    let pause = |range: std::ops::Range<u64>| {
        let wait = Duration::from_millis(fastrand::u64(range));
        std::thread::sleep(wait.min(until.saturating_duration_since(Instant::now())));
    };
    match fastrand::u32(..10) {
        0 | 1 => {
            done(deeds, "leafctl is told to end");
            copy.signal(Signal::SIGTERM);
        }
        2 | 3 => {
            done(deeds, "leafctl is killed");
            copy.signal(Signal::SIGKILL);
        }
        4 => {
            done(deeds, "both are killed");
            copy.signal_all(Signal::SIGKILL);
        }
        9 => {
            done(deeds, "the command is killed");
            copy.kill_command();
        }
        5 | 6 => {
            done(deeds, "frozen for a while");
            copy.signal_all(Signal::SIGSTOP);
            pause(500..4000);
            copy.signal_all(Signal::SIGCONT);
        }
        7 => {
            done(deeds, "frozen past the fence");
            copy.signal_all(Signal::SIGSTOP);
            pause(11_000..16_000);
            copy.signal_all(Signal::SIGCONT);
        }
        8 => {
            done(deeds, "leafctl alone is frozen past the fence");
            copy.signal(Signal::SIGSTOP);
            pause(11_000..16_000);
            copy.signal(Signal::SIGCONT);
        }
        _ => {}
    }
    pause(500..3000);
}

/// Waits until a copy issues, and then a few seconds more.
fn issues_for_a_while(file: &Path, until: Instant) {
    let before = size(file);
    while size(file) <= before && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(100));
    }
    let more = Duration::from_millis(fastrand::u64(1000..8000));
    std::thread::sleep(more.min(until.saturating_duration_since(Instant::now())));
}

/// The IDs in a file. Fails on one that is cut off.
fn ids_in(file: &Path) -> Vec<u64> {
    let bytes = std::fs::read(file).unwrap_or_default();
    assert_eq!(bytes.len() % 8, 0, "{}", file.display());
    bytes.chunks(8).map(|id| u64::from_le_bytes(id.try_into().unwrap())).collect()
}

fn size(file: &Path) -> u64 {
    std::fs::metadata(file).map_or(0, |found| found.len())
}

/// Kills and restarts the daemons, and cuts the registry off, until the end. Returns those that run then.
fn disturb(
    homes: &[Home; 2],
    registry: &TestRegistry,
    deeds: &Deeds,
    until: Instant,
) -> [Option<Daemon>; 2] {
    let mut daemons = homes.each_ref().map(|home| Some(home.spawn()));
    while Instant::now() < until {
        std::thread::sleep(Duration::from_millis(fastrand::u64(1000..6000)));
        let host = fastrand::usize(..2);
        match fastrand::u32(..6) {
            0 | 1 => {
                done(deeds, "leafd is killed");
                daemons[host].take().unwrap().kill();
                std::thread::sleep(Duration::from_millis(fastrand::u64(0..3000)));
                daemons[host] = Some(homes[host].spawn());
            }
            2 => {
                done(deeds, "leafd is stopped");
                daemons[host].take().unwrap().stop();
                daemons[host] = Some(homes[host].spawn());
            }
            3 => {
                done(deeds, "an outage of the registry");
                registry.kill_all();
                let long = if fastrand::bool() { 500..3000 } else { 11_000..14_000 };
                std::thread::sleep(Duration::from_millis(fastrand::u64(long)));
                registry.start_all();
            }
            _ => {}
        }
    }
    daemons
}

fn no_id_of_another_library_comes_twice_whatever_is_killed_frozen_or_cut_off(
    kind: &'static dyn RegistryKind,
) {
    let registry = TestRegistry::alone(kind, 1);
    let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let home = |at: usize, name: &str| {
        instance(folders[at].path(), registry.access(), name)
            .with("WORKER_FENCE_AFTER", "10s")
            .with("WORKER_RECLAIM_AFTER", "20s")
            // Copies that were killed leave numbers that only the registry lends again.
            .with("LEND_POOLS", "few:6")
    };
    let homes = [home(0, "a"), home(1, "b")];
    let (lasts, deeds) = (short_or_long(SHORT, LONG), Deeds::default());
    let until = Instant::now() + lasts;
    let files: Vec<PathBuf> =
        (0..COPIES).map(|copy| folders[2].path().join(copy.to_string())).collect();
    std::thread::scope(|scope| {
        let storm = scope.spawn(|| disturb(&homes, &registry, &deeds, until));
        let copies = files.iter().enumerate().map(|(number, file)| {
            let (home, deeds) = (&homes[number % 2], &deeds);
            scope.spawn(move || {
                let mut copy = Copy::start(home, file);
                while Instant::now() < until {
                    issues_for_a_while(file, until);
                    befall(&mut copy, deeds, until);
                    if copy.has_ended() {
                        copy = Copy::start(home, file);
                    }
                }
                // Afterwards everybody issues.
                let (began, before) = (Instant::now(), size(file));
                while size(file) <= before {
                    if copy.has_ended() {
                        copy = Copy::start(home, file);
                    }
                    let log = home.log();
                    assert!(began.elapsed() < PATIENCE, "copy {number} does not issue\n{log}");
                    std::thread::sleep(Duration::from_millis(200));
                }
                copy.signal(Signal::SIGTERM);
                copy.leafctl.wait().unwrap();
            })
        });
        let copies: Vec<_> = copies.collect();
        copies.into_iter().for_each(|copy| copy.join().unwrap());
        drop(storm.join().unwrap());
    });
    let ids: Vec<Vec<u64>> = files.iter().map(|file| ids_in(file)).collect();
    let count: usize = ids.iter().map(Vec::len).sum();
    let mut all = ids.concat();
    all.sort_unstable();
    all.dedup();
    let workers: std::collections::BTreeSet<u64> = all.iter().map(|id| id >> 12 & 1023).collect();
    let deeds = deeds.into_inner().unwrap();
    println!("{}: {count} IDs of {} worker IDs, {deeds:?}", registry.name(), workers.len());
    assert_eq!(count - all.len(), 0, "duplicates");
    // Each copy has issued a batch after the storm, however much of it an outage took.
    assert!(count >= COPIES * 100, "only {count} IDs");
    assert!(workers.len() <= 64, "{workers:?}");
}
