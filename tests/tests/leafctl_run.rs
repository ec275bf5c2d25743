//! `leafctl run` lends a worker ID to a command, and lets no process use it any longer than leafd
//! allows.

use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leaf_client::wire::{ErrorCode, WireError};
use leafd_tests::Terminal;
use leafd_tests::binaries::program;
use leafd_tests::lending::{CLAIM, LendingDaemon};
use leafd_tests::processes::has_ended;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const HOUR_MS: u64 = 3_600_000;

/// A folder with a daemon that lends.
struct Lender {
    folder: tempfile::TempDir,
    daemon: LendingDaemon,
}

impl Lender {
    fn new(left_ms: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let daemon = LendingDaemon::start(&folder.path().join("leafd.sock"), left_ms);
        Self { folder, daemon }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `leafctl run OPTIONS`, in the folder.
    fn leafctl(&self, options: &[&str]) -> Command {
        let mut command = Command::new(program("leafctl"));
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command.arg("--socket").arg(self.path("leafd.sock")).arg("run").args(options);
        command
    }

    /// Runs a script of a shell with the worker ID in `WORKER`.
    fn script(&self, script: &str) -> Command {
        self.with(&["--worker-env", "WORKER", "--grace", "1s"], script)
    }

    fn with(&self, options: &[&str], script: &str) -> Command {
        let mut command = self.leafctl(options);
        command.args(["--", "sh", "-c", script]);
        command
    }

    /// What a file says once it says something.
    fn read(&self, name: &str) -> String {
        for _ in 0..6000 {
            match fs::read_to_string(self.path(name)) {
                Ok(text) if text.ends_with('\n') => return text.trim_end().to_owned(),
                _ => thread::sleep(Duration::from_millis(10)),
            }
        }
        panic!("nobody wrote {name}");
    }

    fn read_pid(&self, name: &str) -> Pid {
        Pid::from_raw(self.read(name).parse().unwrap())
    }
}

fn output(mut command: Command) -> (Option<i32>, String, String) {
    read(command.output().unwrap())
}

fn read(output: Output) -> (Option<i32>, String, String) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn spawn(mut command: Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(child.id().try_into().unwrap())
}

fn unix_ms() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

fn wait_for_end(pid: Pid) {
    for _ in 0..6000 {
        if has_ended(pid) {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("{pid} does not end");
}

#[test]
fn the_command_gets_the_worker_id_and_it_is_given_back_with_a_ceiling() {
    let lender = Lender::new(HOUR_MS);
    let before = unix_ms();
    let options =
        ["--worker-env", "W", "--bits-env", "B", "--worker-file", "worker", "--pool", "ten"];
    let script = "echo $W $B; cat worker; stat -c %a worker";
    assert_eq!(
        output(lender.with(&options, script)),
        (Some(0), "513 10\n513\n644\n".to_owned(), String::new())
    );
    assert!(!lender.path("worker").exists());
    let state = lender.daemon.state();
    assert_eq!(state.asked[0].pool, "ten");
    assert_eq!(state.returned.len(), 1);
    assert!((before + 1000..=unix_ms() + 1000).contains(&state.returned[0]));
}

#[test]
fn leafd_contains_the_command_too() {
    let lender = Lender::new(HOUR_MS);
    let mut command = Command::new(program("leafd"));
    command.arg("ctl").arg("--socket").arg(lender.path("leafd.sock"));
    command.args(["run", "--worker-env", "W", "--", "sh", "-c", "echo $W; exit 4"]);
    assert_eq!(output(command), (Some(4), "513\n".to_owned(), String::new()));
}

#[test]
fn the_exit_status_is_that_of_the_command() {
    let lender = Lender::new(HOUR_MS);
    assert_eq!(output(lender.script("exit 3")), (Some(3), String::new(), String::new()));
    assert_eq!(output(lender.script("kill -9 $$")).0, Some(137));
    // A parent that ignores SIGCHLD would have the system throw the status away.
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' CHLD; exec \"$@\"", "sh"]);
    let leafctl = lender.script("exit 3");
    command.current_dir(lender.folder.path()).arg(leafctl.get_program()).args(leafctl.get_args());
    assert_eq!(output(command).0, Some(3));
}

#[test]
fn a_command_that_cannot_be_executed_is_told_from_one_that_is_missing() {
    let lender = Lender::new(HOUR_MS);
    fs::write(lender.path("plain"), "text").unwrap();
    for (name, status, part) in
        [("./missing", 127, "no such command"), ("./plain", 126, "cannot be executed")]
    {
        let mut command = lender.leafctl(&["--worker-env", "W"]);
        command.args(["--", name]);
        let (code, _, errors) = output(command);
        assert_eq!(code, Some(status), "{errors}");
        assert!(errors.contains(name) && errors.contains(part), "{errors}");
    }
    let (code, _, errors) = output(lender.with(&["--worker-file", "no/worker"], "true"));
    assert_eq!(code, Some(125), "{errors}");
    assert!(errors.contains("no/worker"), "{errors}");
    assert_eq!(lender.daemon.state().returned.len(), 3);
}

#[test]
fn signals_reach_the_command() {
    let lender = Lender::new(HOUR_MS);
    let script = "trap 'echo usr1 > told' USR1; trap 'exit 7' TERM; echo > ready
        while :; do sleep 0.05; done";
    let child = spawn(lender.script(script));
    lender.read("ready");
    kill(pid(&child), Signal::SIGUSR1).unwrap();
    assert_eq!(lender.read("told"), "usr1");
    kill(pid(&child), Signal::SIGTERM).unwrap();
    let (code, _, errors) = read(child.wait_with_output().unwrap());
    assert_eq!((code, errors.as_str()), (Some(7), ""));
}

#[test]
fn the_command_finds_its_signals_and_descriptors_as_leafctl_found_them() {
    let lender = Lender::new(HOUR_MS);
    let mut command = lender.leafctl(&["--worker-env", "W"]);
    command.args(["--", "cat", "/proc/self/status"]);
    let here = fs::read_to_string("/proc/thread-self/status").unwrap();
    let line =
        |text: &str, name| text.lines().find(|line| line.starts_with(name)).map(str::to_owned);
    let (_, there, _) = output(command);
    assert_eq!(line(&there, "SigBlk:"), line(&here, "SigBlk:"));
    // What the test was started with may be open there as well.
    let mut command = lender.leafctl(&["--worker-env", "W"]);
    command.args(["--", "ls", "-l", "/proc/self/fd"]);
    let (_, there, _) = output(command);
    let leaked = ["socket:", "signalfd", "eventfd", "eventpoll", "cgroup"];
    assert!(!leaked.iter().any(|kind| there.contains(kind)), "{there}");
}

#[test]
fn what_the_command_leaves_behind_ends_before_the_worker_id_is_given_back() {
    let lender = Lender::new(HOUR_MS);
    let script = "setsid sh -c 'echo $$ > polite; exec sleep 600' &
        setsid sh -c 'trap \"\" TERM; echo $$ > stubborn; while :; do sleep 600; done' &
        while ! [ -s polite ] || ! [ -s stubborn ]; do sleep 0.01; done
        exit 5";
    let child = spawn(lender.script(script));
    let (polite, stubborn) = (lender.read_pid("polite"), lender.read_pid("stubborn"));
    wait_for_end(polite);
    lender.daemon.wait_until(|state| !state.returned.is_empty());
    assert!(has_ended(polite) && has_ended(stubborn));
    let (code, _, errors) = read(child.wait_with_output().unwrap());
    assert_eq!((code, errors.as_str()), (Some(5), ""));
}

#[test]
fn what_ran_before_the_command_is_left_alone() {
    let lender = Lender::new(HOUR_MS);
    let leafctl = lender.script("exit 6");
    let mut command = Command::new("sh");
    // The shell becomes leafctl, which so gets its child.
    command.args(["-c", "sleep 600 > /dev/null 2>&1 & echo $! > before; exec \"$@\"", "sh"]);
    command.current_dir(lender.folder.path()).arg(leafctl.get_program()).args(leafctl.get_args());
    let ended = output(command);
    let before = lender.read_pid("before");
    let is_alive = !has_ended(before);
    let _ = kill(before, Signal::SIGKILL);
    assert_eq!((ended.0, is_alive), (Some(6), true), "{ended:?}");
}

#[test]
fn a_loan_is_renewed_under_its_name_and_in_the_cgroup_of_the_command() {
    let lender = Lender::new(4000);
    let child = spawn(lender.script("cat /proc/self/cgroup > cgroup; echo > ready; sleep 600"));
    lender.read("ready");
    lender.daemon.wait_until(|state| state.asked.len() >= 3);
    let asked = lender.daemon.state().asked.clone();
    assert_eq!(asked[0].held, None);
    assert_eq!(asked[2].held, Some((513, CLAIM.to_owned())));
    assert!(asked.iter().all(|one| one.borrower == asked[0].borrower));
    let (path, inode) = &asked[0].cgroup;
    if !path.is_empty() {
        let cgroup = fs::read_to_string(lender.path("cgroup")).unwrap();
        assert!(cgroup.lines().any(|line| line == format!("0::{path}")), "{path}: {cgroup}");
        assert!(*inode > 0);
    }
    kill(pid(&child), Signal::SIGTERM).unwrap();
    assert_eq!(read(child.wait_with_output().unwrap()).0, Some(143));
}

#[test]
fn a_daemon_that_hangs_costs_the_command_its_worker_id() {
    let lender = Lender::new(4000);
    let script = "trap 'echo > asked; exit 0' TERM; echo $$ > ready
        while :; do sleep 0.05; done";
    let child = spawn(lender.script(script));
    lender.read("ready");
    lender.daemon.state().is_silent = true;
    // It is asked first, and then ends by itself.
    lender.read("asked");
    let (code, _, errors) = read(child.wait_with_output().unwrap());
    assert_eq!(code, Some(75), "{errors}");
    assert!(errors.contains("cannot hold worker ID 513"), "{errors}");
    assert!(errors.contains("did not renew it in time"), "{errors}");
}

#[test]
fn a_command_that_does_not_end_in_time_is_killed_with_all_that_it_started() {
    let lender = Lender::new(4000);
    let script = "trap '' TERM; setsid sh -c 'echo $$ > below; exec sleep 600' &
        while :; do sleep 1; done";
    let child = spawn(lender.script(script));
    let below = lender.read_pid("below");
    lender.daemon.state().refusal =
        Some(WireError::new(ErrorCode::WorkerUnavailable, "the registry is away"));
    let (code, _, errors) = read(child.wait_with_output().unwrap());
    assert_eq!(code, Some(75), "{errors}");
    assert!(errors.contains("the registry is away"), "{errors}");
    assert!(has_ended(below));
}

#[test]
fn a_worker_id_that_is_anothers_ends_the_command_at_once() {
    let lender = Lender::new(HOUR_MS);
    let child = spawn(lender.script("trap '' TERM; echo > ready; while :; do sleep 1; done"));
    lender.read("ready");
    lender.daemon.state().refusal = Some(WireError::new(ErrorCode::WrongOwner, "it is host-7's"));
    let (code, _, errors) = read(child.wait_with_output().unwrap());
    assert_eq!(code, Some(75), "{errors}");
    assert!(errors.contains("it is host-7's"), "{errors}");
}

#[test]
fn after_a_freeze_past_the_deadline_the_command_is_killed() {
    let lender = Lender::new(4000);
    let child = spawn(lender.script("trap '' TERM; echo > ready; while :; do sleep 1; done"));
    lender.read("ready");
    kill(pid(&child), Signal::SIGSTOP).unwrap();
    thread::sleep(Duration::from_millis(4500));
    kill(pid(&child), Signal::SIGCONT).unwrap();
    let (code, _, errors) = read(child.wait_with_output().unwrap());
    assert_eq!(code, Some(75), "{errors}");
}

#[test]
fn a_command_ends_when_leafctl_is_killed() {
    let lender = Lender::new(HOUR_MS);
    let mut command = lender.script("trap '' TERM; echo $$ > ready; while :; do sleep 1; done");
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let running = lender.read_pid("ready");
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    wait_for_end(running);
    let asked = lender.daemon.state().asked.clone();
    assert!(lender.daemon.state().returned.is_empty());
    // Nobody is left to remove the cgroup, and the shell's last child may still be in it.
    if let Some(name) = asked[0].cgroup.0.rsplit('/').next().filter(|name| name.contains("leafctl"))
    {
        let found = Command::new("find").args(["/sys/fs/cgroup", "-name", name]).output().unwrap();
        let found = String::from_utf8(found.stdout).unwrap();
        while found.lines().any(|folder| fs::remove_dir(folder).is_err()) {
            thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn without_a_worker_id_the_command_is_not_started() {
    let lender = Lender::new(HOUR_MS);
    let options = ["--worker-env", "W", "--wait", "500ms"];
    lender.daemon.state().refusal =
        Some(WireError::new(ErrorCode::WorkerUnavailable, "all are taken"));
    let (code, _, errors) = output(lender.with(&options, "echo > started"));
    assert_eq!(code, Some(69), "{errors}");
    assert!(errors.contains("pool default") && errors.contains("all are taken"), "{errors}");

    lender.daemon.state().refusal = Some(WireError::new(ErrorCode::NotConfigured, "no pool"));
    let (code, _, errors) = output(lender.with(&["--worker-env", "W"], "echo > started"));
    assert_eq!(code, Some(64), "{errors}");
    assert!(errors.contains("no pool"), "{errors}");
    assert!(!lender.path("started").exists());
}

#[test]
fn a_command_starts_once_the_clock_has_reached_the_start() {
    let lender = Lender::new(HOUR_MS);
    let start = unix_ms() + 1500;
    lender.daemon.state().loan.start_unix_ms = start;
    let (code, out, errors) = output(lender.script("date +%s%3N; sleep 0.3; exit 8"));
    assert_eq!((code, errors.as_str()), (Some(8), ""));
    assert!(out.trim().parse::<u64>().unwrap() >= start, "{out}");
    assert!(lender.daemon.state().returned[0] > start + 1000);
}

#[test]
fn a_reader_of_stderr_that_does_not_read_delays_no_exit() {
    let lender = Lender::new(HOUR_MS);
    lender.daemon.state().refusal =
        Some(WireError::new(ErrorCode::WorkerUnavailable, "all are taken"));
    let (reader, mut writer) = std::io::pipe().unwrap();
    let flags = OFlag::O_NONBLOCK;
    fcntl(&writer, FcntlArg::F_SETFL(flags)).unwrap();
    while writer.write(&[b'x'; 4096]).is_ok() {}
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::empty())).unwrap();
    let mut command = lender.with(&["--worker-env", "WORKER", "--wait", "3s"], "true");
    let mut child = command.stderr(writer).spawn().unwrap();
    drop(command);
    assert_eq!(child.wait().unwrap().code(), Some(69));
    drop(reader);
}

#[test]
fn two_runs_do_not_share_a_file() {
    let lender = Lender::new(HOUR_MS);
    let path = lender.path("worker").display().to_string();
    let options = ["--worker-file", &path];
    let mut first = spawn(lender.with(&options, "echo $$ >pid; exec sleep 1000"));
    lender.read_pid("pid");
    let (code, _, errors) = output(lender.with(&options, "true"));
    assert_eq!(code, Some(125), "{errors}");
    assert!(errors.contains("another leafctl run") && errors.contains(&path), "{errors}");
    kill(pid(&first), Signal::SIGTERM).unwrap();
    first.wait().unwrap();
    let (code, out, errors) = output(lender.with(&options, "cat worker"));
    assert_eq!((code, out.as_str()), (Some(0), "513\n"), "{errors}");
}

#[test]
fn a_wait_can_be_interrupted() {
    let lender = Lender::new(HOUR_MS);
    lender.daemon.state().refusal = Some(WireError::new(ErrorCode::WorkerUnavailable, "taken"));
    let child = spawn(lender.script("echo > started"));
    lender.daemon.wait_until(|state| !state.asked.is_empty());
    kill(pid(&child), Signal::SIGINT).unwrap();
    assert_eq!(read(child.wait_with_output().unwrap()).0, Some(130));
    assert!(!lender.path("started").exists());
}

#[test]
fn a_shell_can_stop_and_continue_the_command() {
    let lender = Lender::new(HOUR_MS);
    // It forks nothing more once it is ready: a shell that waits for a vfork does not stop.
    let script = "trap 'echo got an int; exit 9' INT; sleep 600 & echo > ready; wait";
    fs::write(lender.path("script"), script).unwrap();
    let leafctl = lender.leafctl(&["--worker-env", "W"]);
    let words = leafctl.get_args().map(|word| word.to_str().unwrap());
    let line = words.fold(program("leafctl").display().to_string(), |line, word| line + " " + word);
    fs::write(lender.path("rc"), "PS1='$ '\n").unwrap();
    let mut bash = Command::new("bash");
    bash.args(["--noprofile", "--rcfile", "rc", "-i"]).current_dir(lender.folder.path());
    let mut terminal = Terminal::open(100, 24);
    terminal.run(&bash);
    terminal.wait_for_text("$");
    terminal.type_keys(&format!("{line} -- sh script\r"));
    lender.read("ready");
    for _ in 0..2 {
        terminal.type_keys("\x1a");
        terminal.wait_for_text("Stopped");
        terminal.type_keys("clear; jobs -l\r");
        terminal.wait_for_text("Stopped");
        terminal.type_keys("clear; echo; fg\r");
        terminal.wait_for("the job", |screen| {
            !screen.iter().any(|line| line.contains("Stopped"))
                && screen.iter().any(|line| line.contains("run --worker-env"))
        });
        // The shell has to have given the terminal to the job.
        thread::sleep(Duration::from_millis(300));
    }
    terminal.type_keys("\x03");
    terminal.wait_for_text("got an int");
    terminal.type_keys("echo ended with $?\r");
    let screen = terminal.wait_for_text("ended with 9");
    let told = screen.iter().filter(|line| line.contains("got an int")).count();
    assert_eq!(told, 1, "{screen:?}");
    terminal.type_keys("exit\r");
    terminal.wait();
}
