//! What can go wrong on command.

use std::time::Duration;

use crate::wire::WireError;

/// What happens to a request instead of being answered.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The connection is closed without an answer.
    Close,
    /// Nothing: the request is never answered, the connection stays.
    Silence,
    /// The answer comes after this time; others may overtake it.
    Late(Duration),
    /// The answer is this error.
    Refuse(WireError),
    /// This error comes as one about the connection, which is then closed.
    CloseWith(WireError),
    /// These bytes come instead of the answer, as they are.
    Raw(Vec<u8>),
    /// `Goodbye`, then the answer, then the end of the connection.
    GoodbyeThenAnswer,
    /// `Goodbye`, then the end of the connection.
    GoodbyeThenClose,
}
