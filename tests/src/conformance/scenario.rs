//! A scenario: a sentence that holds for a client, or does not, or does not apply to it.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use super::driver::About;
use super::stage::Stage;

/// What a scenario needs of a client beyond what every client has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// Several calls at a time on one client.
    Concurrent,
    /// A process that forks.
    Forks,
    /// Pools.
    Pools,
    /// Calls that can be cancelled.
    Cancels,
}

impl Need {
    /// All needs.
    pub const ALL: [Self; 4] = [Self::Concurrent, Self::Forks, Self::Pools, Self::Cancels];

    /// The cell of the table where this is missing.
    #[must_use]
    pub const fn mark(self) -> &'static str {
        match self {
            Self::Concurrent => "–¹",
            Self::Forks => "–²",
            Self::Pools => "–³",
            Self::Cancels => "–⁴",
        }
    }

    /// Why a scenario does not apply.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Concurrent => "a client of this language makes one call at a time",
            Self::Forks => "programs of this language do not fork, or not with this client",
            Self::Pools => "there are no pools",
            Self::Cancels => "a call cannot be cancelled, only end at its deadline",
        }
    }

    const fn is_met_by(self, about: &About) -> bool {
        match self {
            Self::Concurrent => about.concurrent,
            Self::Forks => about.forks,
            Self::Pools => about.pools,
            Self::Cancels => about.cancels,
        }
    }
}

/// One sentence of the table, and how to find out whether it holds.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// For `LEAF_TESTS_SCENARIO` and for reports.
    pub name: &'static str,
    /// What holds.
    pub sentence: &'static str,
    /// What it needs.
    pub needs: &'static [Need],
    /// Panics if the sentence does not hold.
    pub run: fn(&mut Stage<'_>),
}

/// Scenarios of one kind.
#[derive(Clone, Copy)]
pub struct Group {
    /// The heading of their table.
    pub title: &'static str,
    /// The scenarios.
    pub scenarios: &'static [Scenario],
}

/// What came of a scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The sentence holds.
    Held,
    /// It does not.
    Failed(String),
    /// The client lacks what it needs.
    DoesNotApply(Need),
}

impl Outcome {
    /// The cell of the table.
    #[must_use]
    pub const fn cell(&self) -> &'static str {
        match self {
            Self::Held => "yes",
            Self::Failed(_) => "NO",
            Self::DoesNotApply(need) => need.mark(),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held => write!(formatter, "held"),
            Self::Failed(why) => write!(formatter, "FAILED: {why}"),
            Self::DoesNotApply(need) => write!(formatter, "does not apply: {}", need.reason()),
        }
    }
}

impl Scenario {
    /// Runs it, and prints a line about it.
    pub fn play(&self, stage: &mut Stage<'_>) -> Outcome {
        let began = Instant::now();
        let missing = self.needs.iter().find(|need| !need.is_met_by(stage.about()));
        let outcome = match missing {
            Some(need) => Outcome::DoesNotApply(*need),
            None => match catch_unwind(AssertUnwindSafe(|| (self.run)(stage))) {
                Ok(()) => Outcome::Held,
                Err(panic) => Outcome::Failed(message(&*panic)),
            },
        };
        let seconds = began.elapsed().as_secs_f64();
        println!("{}: {} ({seconds:.1} s): {outcome}", stage.column().title, self.name);
        for figure in stage.take_figures() {
            println!("    {figure}");
        }
        outcome
    }
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without a message").to_owned()
}
