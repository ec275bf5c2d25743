use std::io;
use std::sync::Arc;

use leaf_client::Error;
use leaf_client::wire::{ErrorCode, WireError, WorkerLoan};
use nix::sys::signal::Signal;

use super::action::{Action, Ended, Outcome};
use super::borrowing::{Borrowing, TICK_MS};
use super::moment::Moment;
use super::waiting::Terms;

const BOOT_UNIX_MS: u64 = 1_700_000_000_000;

/// A core with a virtual clock.
struct Course {
    core: Borrowing,
    now: Moment,
}

fn at(boot_ms: u64) -> Moment {
    Moment { boot_ms, unix_ms: BOOT_UNIX_MS + boot_ms }
}

fn loan(left_ms: u64) -> WorkerLoan {
    WorkerLoan {
        worker: 7,
        bits: 10,
        claim: "c".to_owned(),
        start_unix_ms: 0,
        limit_unix_ms: u64::MAX,
        left_ms,
    }
}

fn refusal(code: ErrorCode) -> Error {
    Error::Refused(WireError::new(code, "no"))
}

fn absent() -> Error {
    let source = Arc::new(io::Error::from(io::ErrorKind::NotFound));
    Error::Unavailable { path: "/s".into(), source }
}

/// An action in short.
fn word(action: &Action) -> String {
    match action {
        Action::Ask(None) => "ask".to_owned(),
        Action::Ask(Some(known)) => format!("renew {}", known.worker),
        Action::Start { worker, bits } => format!("start {worker}/{bits}"),
        Action::Signal(signal) => signal.as_str().to_owned(),
        Action::EndAll => "end all".to_owned(),
        Action::KillAll => "kill all".to_owned(),
        Action::Return { ceiling_unix_ms, announces } => {
            let quietly = if *announces { "" } else { " without a word before" };
            format!("return {}{quietly}", ceiling_unix_ms - BOOT_UNIX_MS)
        }
        Action::Say(text) => format!("say {text}"),
        Action::Finish(Outcome::Status(status)) => format!("status {status}"),
        Action::Finish(Outcome::Unavailable(text)) => format!("unavailable {text}"),
        Action::Finish(Outcome::Refused(error)) => format!("refused {error}"),
        Action::Finish(Outcome::Lost(text)) => format!("lost {text}"),
        Action::Finish(Outcome::Unstarted(text)) => format!("unstarted {text}"),
    }
}

impl Course {
    /// One that has asked for the first time.
    fn new() -> Self {
        let terms = Terms { pool: "default".to_owned(), wait_ms: 60_000, grace_ms: 10_000 };
        let mut course = Self { core: Borrowing::new(terms, at(0)), now: at(0) };
        assert_eq!(course.tick(0), ["ask"]);
        course
    }

    /// One whose command runs, with a loan of this many ms from time 0 on.
    fn running(left_ms: u64) -> Self {
        let mut course = Self::new();
        assert_eq!(course.answer(0, Ok(loan(left_ms))), ["start 7/10"]);
        course
    }

    fn done(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.core.next_action()).map(|action| word(&action)).collect()
    }

    fn tick(&mut self, boot_ms: u64) -> Vec<String> {
        self.now = at(boot_ms);
        self.core.tick(self.now);
        self.done()
    }

    /// An answer that comes at the same time as its request was sent.
    fn answer(&mut self, boot_ms: u64, answer: Result<WorkerLoan, Error>) -> Vec<String> {
        self.now = at(boot_ms);
        self.core.answered(self.now, boot_ms, answer);
        self.done()
    }

    fn signal(&mut self, signal: Signal) -> Vec<String> {
        self.core.signalled(self.now, signal);
        self.done()
    }

    fn command_ended(&mut self, ended: Ended) -> Vec<String> {
        self.core.command_ended(self.now, ended);
        self.done()
    }

    fn all_ended(&mut self) -> Vec<String> {
        self.core.all_ended(self.now);
        self.done()
    }

    fn returned(&mut self, answer: Result<WorkerLoan, Error>) -> Vec<String> {
        self.core.returned(self.now, answer);
        self.done()
    }
}

#[test]
fn a_command_runs_with_its_worker_id_which_is_then_given_back() {
    let mut course = Course::running(60_000);
    // Once the command has joined its cgroup, and then regularly.
    assert_eq!(course.tick(150), Vec::<String>::new());
    assert_eq!(course.tick(300), ["renew 7"]);
    assert_eq!(course.answer(310, Ok(loan(60_000))), Vec::<String>::new());
    assert_eq!(course.tick(3200), Vec::<String>::new());
    assert_eq!(course.tick(3310), ["renew 7"]);
    assert_eq!(course.answer(3310, Ok(loan(60_000))), Vec::<String>::new());
    assert_eq!(course.command_ended(Ended::Exited(3)), ["end all"]);
    assert_eq!(course.all_ended(), ["return 4310"]);
    assert_eq!(course.returned(Ok(loan(0))), ["status 3"]);
    assert_eq!(course.tick(10_000), Vec::<String>::new());
}

#[test]
fn after_a_freeze_a_worker_id_whose_processes_have_ended_is_not_said_to_be_held() {
    let mut course = Course::running(600_000);
    for ms in [100, 4000] {
        course.tick(ms);
    }
    course.answer(4000, Ok(loan(600_000)));
    // leafd may have seen the cgroup empty, and have lent the worker ID to another.
    assert_eq!(course.tick(60_000), Vec::<String>::new());
    assert_eq!(course.command_ended(Ended::Exited(0)), ["end all"]);
    assert_eq!(course.all_ended(), ["return 61000 without a word before"]);

    // If a process is left, leafd keeps the worker ID.
    let mut course = Course::running(600_000);
    assert_eq!(course.tick(60_000), Vec::<String>::new());
    assert_eq!(course.tick(60_100), ["renew 7"]);
    course.answer(60_200, Ok(loan(600_000)));
    course.command_ended(Ended::Exited(0));
    assert_eq!(course.all_ended(), ["return 61200"]);
}

#[test]
fn the_ceiling_is_above_the_highest_clock_that_was_seen() {
    let mut course = Course::running(60_000);
    course.now.unix_ms = BOOT_UNIX_MS + 50_000;
    course.core.tick(course.now);
    course.done();
    course.now = at(200);
    course.command_ended(Ended::Exited(0));
    assert_eq!(course.all_ended(), ["return 51000"]);
}

#[test]
fn leafd_is_asked_until_it_lends() {
    let mut course = Course::new();
    assert_eq!(course.answer(10, Err(absent())), Vec::<String>::new());
    assert_eq!(course.tick(259), Vec::<String>::new());
    assert_eq!(course.tick(260), ["ask"]);
    let later = WireError::new(ErrorCode::WorkerUnavailable, "no").with_retry_after_ms(1000);
    assert_eq!(course.answer(300, Err(Error::Refused(later))), Vec::<String>::new());
    assert_eq!(course.tick(1299), Vec::<String>::new());
    assert_eq!(course.tick(1300), ["ask"]);
    assert_eq!(course.answer(1400, Ok(loan(60_000))), ["start 7/10"]);
}

#[test]
fn a_long_wait_is_explained_once_and_ends() {
    let mut course = Course::new();
    course.answer(10, Err(absent()));
    let said = course.tick(2000).remove(0);
    assert!(said.starts_with("say waiting for a worker ID of pool default: leafd is"), "{said}");
    course.answer(2100, Err(refusal(ErrorCode::WorkerUnavailable)));
    let gave_up = course.tick(60_000);
    let [gave_up] = gave_up.as_slice() else { panic!("{gave_up:?}") };
    assert!(gave_up.starts_with("unavailable got no worker ID of pool default"), "{gave_up}");
    assert!(gave_up.contains("305 WorkerUnavailable"), "{gave_up}");
}

#[test]
fn whoever_gives_up_waits_for_the_answer_in_flight() {
    let mut course = Course::new();
    assert_eq!(course.signal(Signal::SIGWINCH), Vec::<String>::new());
    assert_eq!(course.signal(Signal::SIGTERM), Vec::<String>::new());
    assert_eq!(course.answer(100, Ok(loan(60_000))), ["return 100"]);
    assert_eq!(course.returned(Ok(loan(0))), ["status 143"]);
}

#[test]
fn a_mistake_ends_the_wait_at_once() {
    for code in [ErrorCode::NotConfigured, ErrorCode::Forbidden, ErrorCode::UnknownCall] {
        let ended = Course::new().answer(10, Err(refusal(code)));
        assert!(ended[0].starts_with("refused"), "{ended:?}");
    }
}

#[test]
fn a_start_in_the_future_is_waited_for_while_the_loan_is_kept() {
    let mut course = Course::new();
    let early = || WorkerLoan { start_unix_ms: BOOT_UNIX_MS + 5000, ..loan(60_000) };
    assert_eq!(course.answer(0, Ok(early())), Vec::<String>::new());
    let said = course.tick(2000);
    assert!(said[0].contains("worker ID 7 may be used in 3000 ms"), "{said:?}");
    assert_eq!(course.tick(3000), ["renew 7"]);
    assert_eq!(course.answer(3000, Ok(early())), Vec::<String>::new());
    assert_eq!(course.core.sleep_ms(at(4990)), 10);
    assert_eq!(course.tick(4999), Vec::<String>::new());
    assert_eq!(course.tick(5000), ["start 7/10"]);
}

#[test]
fn a_loan_that_is_lost_before_the_start_starts_nothing() {
    let mut course = Course::new();
    let early = WorkerLoan { start_unix_ms: BOOT_UNIX_MS + 5000, ..loan(60_000) };
    course.answer(0, Ok(early));
    course.tick(3000);
    let ended = course.answer(3010, Err(refusal(ErrorCode::WrongOwner)));
    assert!(ended[0].starts_with("lost"), "{ended:?}");
}

#[test]
fn a_lost_worker_id_kills_at_once() {
    let other = WorkerLoan { worker: 8, ..loan(60_000) };
    for answer in [Err(refusal(ErrorCode::WrongOwner)), Ok(other)] {
        let mut course = Course::running(60_000);
        course.tick(3000);
        let done = course.answer(3010, answer);
        assert!(done[0].starts_with("say cannot hold worker ID 7"), "{done:?}");
        assert_eq!(done[1..], ["kill all"]);
        assert_eq!(course.tick(3200)[0], "kill all", "again, for what was forked meanwhile");
        assert!(course.command_ended(Ended::Killed(Signal::SIGKILL)).is_empty());
        course.all_ended();
        let ended = course.returned(Err(refusal(ErrorCode::WrongOwner)));
        assert!(ended[0].starts_with("lost") && ended.len() == 1, "{ended:?}");
    }
}

#[test]
fn an_outage_ends_the_command_before_the_deadline() {
    let mut course = Course::running(60_000);
    course.tick(3000);
    for s in 4..48 {
        let before = course.answer(s * 1000, Err(absent()));
        assert_eq!(before, Vec::<String>::new());
        assert_eq!(course.tick(s * 1000 + 1000), ["renew 7"]);
    }
    let done = course.answer(49_000, Err(absent()));
    assert!(done[0].contains("did not renew it in time: leafd is not reachable"), "{done:?}");
    assert_eq!(done[1..], ["SIGTERM"]);
    // A leafctl that stands still listens to its children first.
    assert_eq!(course.tick(58_900), Vec::<String>::new());
    assert_eq!(course.tick(58_950), ["renew 7"]);
    assert_eq!(course.tick(59_000), ["kill all"]);
    course.command_ended(Ended::Killed(Signal::SIGKILL));
    course.all_ended();
    let ended = course.returned(Ok(loan(0)));
    assert!(ended[0].starts_with("lost the command was ended"), "{ended:?}");
}

#[test]
fn a_command_that_was_told_to_end_has_to_even_if_leafd_is_back() {
    let mut course = Course::running(60_000);
    course.tick(3000);
    course.answer(49_000, Err(absent()));
    course.tick(50_000);
    assert_eq!(course.answer(50_000, Ok(loan(60_000))), Vec::<String>::new());
    assert!(!course.tick(58_999).contains(&"kill all".to_owned()));
    assert!(course.tick(59_000).contains(&"kill all".to_owned()), "its grace is over");
}

#[test]
fn after_a_freeze_past_the_deadline_no_answer_saves_the_command() {
    let mut course = Course::running(60_000);
    course.tick(3000);
    let done = course.answer(70_000, Ok(loan(60_000)));
    assert!(done.contains(&"kill all".to_owned()), "{done:?}");
}

#[test]
fn signals_go_to_the_command_while_it_runs() {
    let mut course = Course::running(60_000);
    assert_eq!(course.signal(Signal::SIGUSR1), ["SIGUSR1"]);
    assert_eq!(course.signal(Signal::SIGTERM), ["SIGTERM"]);
    course.command_ended(Ended::Killed(Signal::SIGTERM));
    assert_eq!(course.signal(Signal::SIGTERM), Vec::<String>::new());
    course.all_ended();
    assert_eq!(course.returned(Ok(loan(0))), ["status 143"]);
}

#[test]
fn what_a_command_leaves_behind_is_killed_after_the_grace_while_the_loan_is_kept() {
    let mut course = Course::running(60_000);
    assert_eq!(course.command_ended(Ended::Exited(0)), ["end all"]);
    assert_eq!(course.tick(4500), ["renew 7"]);
    course.answer(4500, Ok(loan(60_000)));
    assert_eq!(course.tick(9000), ["renew 7"]);
    assert_eq!(course.answer(9000, Ok(loan(60_000))), Vec::<String>::new());
    assert_eq!(course.tick(9999), Vec::<String>::new());
    assert_eq!(course.tick(10_000), ["kill all"]);
    // One that cannot be killed now.
    assert_eq!(course.tick(12_000), ["kill all", "renew 7"]);
    course.answer(12_000, Ok(loan(60_000)));
    assert_eq!(course.all_ended(), ["return 13000"]);
    assert_eq!(course.returned(Ok(loan(0))), ["status 0"]);
}

#[test]
fn a_command_that_cannot_be_started_gives_the_worker_id_back() {
    let mut course = Course::running(60_000);
    course.core.not_started(at(5), "no memory".to_owned());
    assert_eq!(course.done(), ["return 5"]);
    assert_eq!(course.returned(Ok(loan(0))), ["unstarted no memory"]);
}

#[test]
fn the_return_is_tried_for_some_seconds_and_changes_no_exit_status() {
    let mut course = Course::running(60_000);
    course.command_ended(Ended::Exited(0));
    assert_eq!(course.all_ended(), ["return 1000"]);
    course.now = at(2000);
    assert_eq!(course.returned(Err(absent())), Vec::<String>::new());
    assert_eq!(course.tick(2250), ["return 1000"]);
    let done = course.tick(5000);
    assert!(done[0].starts_with("say could not give the worker ID back"), "{done:?}");
    assert_eq!(done[1..], ["status 0"]);
}

#[test]
fn a_return_whose_answer_was_lost_is_no_trouble() {
    let mut course = Course::running(60_000);
    course.command_ended(Ended::Exited(0));
    course.all_ended();
    assert_eq!(course.returned(Err(refusal(ErrorCode::UnknownWorker))), ["status 0"]);
}

#[test]
fn the_return_waits_for_the_answer_in_flight() {
    let mut course = Course::running(60_000);
    course.tick(3000);
    course.command_ended(Ended::Exited(0));
    assert_eq!(course.all_ended(), Vec::<String>::new());
    assert_eq!(course.answer(3500, Ok(loan(60_000))), ["return 4000"]);
}

#[test]
fn leafctl_sleeps_while_it_can_do_nothing() {
    // What is killed may take a while to end.
    let mut course = Course::running(60_000);
    course.tick(3000);
    course.answer(3010, Err(refusal(ErrorCode::WrongOwner)));
    assert_eq!(course.core.sleep_ms(at(3010)), TICK_MS);
    assert_eq!(course.core.sleep_ms(at(4000)), 10);
    // A call is in flight.
    let mut course = Course::running(60_000);
    course.tick(3000);
    assert_eq!(course.core.sleep_ms(at(3500)), TICK_MS);
    // A loan without time.
    let mut course = Course::new();
    course.answer(0, Ok(loan(0)));
    assert_eq!(course.core.sleep_ms(at(0)), 100);
    // A return that failed.
    let mut course = Course::running(60_000);
    course.command_ended(Ended::Exited(0));
    course.all_ended();
    assert_eq!(course.core.sleep_ms(at(0)), TICK_MS);
    course.returned(Err(refusal(ErrorCode::ShuttingDown)));
    assert_eq!(course.core.sleep_ms(at(100)), 150);
}
