//! The scenarios, in the order of the table.

mod answers;
mod arguments;
mod bytes;
mod connecting;
mod deadlines;
mod forks;
mod goodbye;
mod handshake;
mod many_calls;
mod pool_limits;
mod pools;
mod socket;
mod storms;

use super::scenario::{Group, Need, Scenario};
use super::stage::Stage;

/// All scenarios.
pub const GROUPS: &[Group] = &[
    Group { title: "Bytes", scenarios: bytes::ALL },
    Group { title: "The socket", scenarios: socket::ALL },
    Group { title: "The handshake", scenarios: handshake::ALL },
    Group { title: "Arguments", scenarios: arguments::ALL },
    Group { title: "Answers", scenarios: answers::ALL },
    Group { title: "Deadlines", scenarios: deadlines::ALL },
    Group { title: "Connecting and reconnecting", scenarios: connecting::ALL },
    Group { title: "Goodbye, and errors about the connection", scenarios: goodbye::ALL },
    Group { title: "Many calls on one connection", scenarios: many_calls::ALL },
    Group { title: "Forks", scenarios: forks::ALL },
    Group { title: "Pools", scenarios: pools::ALL },
    Group { title: "Pools and limits", scenarios: pool_limits::ALL },
    Group { title: "A real leafd that is killed again and again", scenarios: storms::ALL },
];

/// A scenario that every client can play.
const fn scenario(name: &'static str, sentence: &'static str, run: fn(&mut Stage<'_>)) -> Scenario {
    Scenario { name, sentence, needs: &[], run }
}

/// A scenario that needs something.
const fn needing(
    needs: &'static [Need],
    name: &'static str,
    sentence: &'static str,
    run: fn(&mut Stage<'_>),
) -> Scenario {
    Scenario { name, sentence, needs, run }
}
