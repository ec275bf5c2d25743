//! What the errors of `sqlx` mean to a caller: the store is down, this call failed, or the database is
//! not set up.

use super::Sql;
use super::dialect::{Blame, Dialect, Lack};
use crate::store::{Row, StoreError};

impl<D: Dialect> Sql<D> {
    /// The error concerns every call.
    pub(super) fn down(&self, error: &sqlx::Error) -> StoreError {
        // Idle connections may lead to a server that is no longer the right one.
        self.connections.close_idle();
        match error {
            // leafd's own finding, which `sqlx` would print with a prefix.
            sqlx::Error::Configuration(why) => {
                StoreError::Down(format!("{}: {why}", self.described))
            }
            error => StoreError::Down(format!("{}: {}", self.described, told(error))),
        }
    }

    /// A statement about one row failed.
    pub(super) fn failed(&self, error: &sqlx::Error) -> StoreError {
        match blame::<D>(error) {
            Blame::Server => self.down(error),
            Blame::Value => {
                StoreError::BadRow(format!("the table rejects the value: {}", told(error)))
            }
            Blame::Call => StoreError::Busy(format!("{}: {}", self.described, told(error))),
        }
    }

    /// A statement failed that needs more tables or rights than a lease does.
    pub(super) fn failed_or_not_set_up(&self, error: &sqlx::Error) -> StoreError {
        if lack::<D>(error).is_some() { self.not_set_up(told(error)) } else { self.failed(error) }
    }

    pub(super) fn not_set_up(&self, why: impl std::fmt::Display) -> StoreError {
        StoreError::NotSetUp(format!(
            "{}: {why}. leafd keeps the highest end of each deleted tag in the table {}, so that a \
             new tag of the same name repeats no ID. `leafd schema` prints the table. leafd needs \
             SELECT, INSERT and UPDATE on it, and to delete tags DELETE on {}",
            self.described, self.statements.tombstones, self.statements.tags
        ))
    }

    pub(super) fn changed_while_locked(&self, row: &Row) -> StoreError {
        StoreError::Busy(format!(
            "{}: the row of tag {:?} was changed while it was locked; does the table support \
             transactions?",
            self.described, row.tag
        ))
    }
}

/// The error for users. `sqlx` adds the line of PostgreSQL's own source to the server's words, where
/// everybody takes it for a line of the statement.
fn told(error: &sqlx::Error) -> String {
    match error {
        sqlx::Error::Database(database) if database.to_string().starts_with(database.message()) => {
            format!("error returned from database: {}", database.message())
        }
        error => error.to_string(),
    }
}

pub(super) fn blame<D: Dialect>(error: &sqlx::Error) -> Blame {
    match error {
        sqlx::Error::Database(error) => D::blame(&**error),
        // The row's content cannot be read, or the tag cannot be written.
        sqlx::Error::ColumnDecode { .. }
        | sqlx::Error::Decode(_)
        | sqlx::Error::Encode(_)
        | sqlx::Error::TypeNotFound { .. } => Blame::Call,
        _ => Blame::Server,
    }
}

pub(super) fn lack<D: Dialect>(error: &sqlx::Error) -> Option<Lack> {
    error.as_database_error().and_then(D::lack)
}

pub(super) fn is_duplicate(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|error| error.is_unique_violation())
}
