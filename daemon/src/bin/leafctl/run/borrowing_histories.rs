use leaf_client::Error;
use leaf_client::wire::{ErrorCode, WireError, WorkerLoan};
use nix::sys::signal::Signal;
use proptest::prelude::*;

use super::action::{Action, Ended};
use super::borrowing::Borrowing;
use super::moment::Moment;
use super::waiting::Terms;

const BOOT_UNIX_MS: u64 = 1_700_000_000_000;

#[derive(Debug, Clone)]
enum Event {
    /// Nothing but time.
    Nothing,
    /// leafd answers, if it was asked.
    Lend {
        left_ms: u64,
    },
    Refuse(ErrorCode),
    Signal(Signal),
    /// The command ends, if it runs; or the last process does.
    End,
}

fn event() -> impl Strategy<Value = Event> {
    let code = prop_oneof![
        8 => Just(ErrorCode::WorkerUnavailable),
        4 => Just(ErrorCode::ShuttingDown),
        1 => Just(ErrorCode::WrongOwner),
        1 => Just(ErrorCode::UnknownWorker),
    ];
    prop_oneof![
        20 => Just(Event::Nothing),
        10 => (0..20_000_u64).prop_map(|left_ms| Event::Lend { left_ms }),
        10 => code.prop_map(Event::Refuse),
        1 => Just(Event::Signal(Signal::SIGTERM)),
        2 => Just(Event::End),
    ]
}

/// What the shell would see.
#[derive(Debug, Default)]
struct World {
    now_ms: u64,
    asked_at_ms: Option<u64>,
    returned: bool,
    is_command_alive: bool,
    is_any_alive: bool,
    was_started: bool,
    /// Of the last answer that came in time.
    deadline_ms: u64,
    is_killed: bool,
    is_done: bool,
}

impl World {
    fn moment(&self) -> Moment {
        Moment { boot_ms: self.now_ms, unix_ms: BOOT_UNIX_MS + self.now_ms }
    }

    fn act(&mut self, core: &mut Borrowing) -> Result<(), TestCaseError> {
        while let Some(action) = core.next_action() {
            prop_assert!(!self.is_done, "{:?} after the end", action);
            match action {
                Action::Ask(_) => {
                    prop_assert!(self.asked_at_ms.is_none(), "two requests at a time");
                    self.asked_at_ms = Some(self.now_ms);
                }
                Action::Start { .. } => {
                    prop_assert!(!self.was_started, "started twice");
                    prop_assert!(self.now_ms < self.deadline_ms, "started after the deadline");
                    (self.was_started, self.is_command_alive, self.is_any_alive) =
                        (true, true, true);
                }
                Action::Signal(_) => prop_assert!(self.is_command_alive, "nobody to signal"),
                Action::KillAll => self.is_killed = true,
                Action::Return { ceiling_unix_ms, .. } => {
                    prop_assert!(!self.is_any_alive, "returned while a process uses it");
                    prop_assert!(self.asked_at_ms.is_none(), "two requests at a time");
                    prop_assert!(
                        ceiling_unix_ms <= BOOT_UNIX_MS + self.now_ms + 1000,
                        "{}",
                        ceiling_unix_ms
                    );
                    (self.returned, self.asked_at_ms) = (true, Some(self.now_ms));
                }
                Action::EndAll | Action::Say(_) => {}
                Action::Finish(_) => {
                    prop_assert!(!self.is_any_alive, "left before the processes");
                    self.is_done = true;
                }
            }
        }
        Ok(())
    }

    fn look(&mut self, core: &mut Borrowing) -> Result<(), TestCaseError> {
        core.tick(self.moment());
        self.act(core)?;
        let is_late = self.is_any_alive && self.now_ms >= self.deadline_ms;
        prop_assert!(!is_late || self.is_killed, "alive past the deadline: {:?}", self);
        Ok(())
    }

    fn answer(&mut self, core: &mut Borrowing, answer: Result<WorkerLoan, Error>) {
        let Some(sent) = self.asked_at_ms.take() else { return };
        if self.returned {
            return core.returned(self.moment(), answer);
        }
        if let Ok(loan) = &answer {
            self.deadline_ms = sent + loan.left_ms;
        }
        core.answered(self.moment(), sent, answer);
    }

    fn happen(&mut self, core: &mut Borrowing, event: Event) {
        match event {
            Event::Nothing => {}
            Event::Lend { left_ms } => {
                let loan = WorkerLoan {
                    worker: 7,
                    bits: 10,
                    claim: "c".to_owned(),
                    start_unix_ms: 0,
                    limit_unix_ms: u64::MAX,
                    left_ms,
                };
                self.answer(core, Ok(loan));
            }
            Event::Refuse(code) => {
                self.answer(core, Err(Error::Refused(WireError::new(code, "no"))));
            }
            Event::Signal(signal) => core.signalled(self.moment(), signal),
            Event::End if self.is_command_alive => {
                self.is_command_alive = false;
                core.command_ended(self.moment(), Ended::Exited(0));
            }
            Event::End if self.is_any_alive => {
                self.is_any_alive = false;
                core.all_ended(self.moment());
            }
            Event::End => {}
        }
    }
}

proptest! {
    #[test]
    fn no_process_is_left_alone_past_the_deadline(
        steps in prop::collection::vec((1..1500_u64, event()), 1..200),
        grace_ms in 0..20_000_u64,
    ) {
        let mut world = World::default();
        let terms = Terms { pool: "default".to_owned(), wait_ms: 30_000, grace_ms };
        let mut core = Borrowing::new(terms, world.moment());
        for (ms, event) in steps {
            let until = world.now_ms + ms;
            // The shell looks whenever the core says that something is due.
            while world.now_ms < until && !world.is_done {
                world.look(&mut core)?;
                world.now_ms = until.min(world.now_ms + core.sleep_ms(world.moment()));
            }
            world.look(&mut core)?;
            world.happen(&mut core, event);
            world.act(&mut core)?;
        }
    }
}
