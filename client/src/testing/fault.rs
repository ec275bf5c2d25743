//! The faults that a test can inject into the fake daemon.

use std::time::Duration;

use crate::wire::WireError;

/// What the daemon does with a request instead of answering it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Closes the connection without an answer.
    Close,
    /// Never answers the request and keeps the connection open.
    Silence,
    /// Answers after this time. Other answers may overtake this one.
    Late(Duration),
    /// Answers with this error.
    Refuse(WireError),
    /// Sends this error about the connection (ID 0) and closes it.
    CloseWith(WireError),
    /// Sends these bytes instead of the answer.
    Raw(Vec<u8>),
    /// Sends `Goodbye`, then the answer, and closes the connection.
    GoodbyeThenAnswer,
    /// Sends `Goodbye` and closes the connection.
    GoodbyeThenClose,
}
