//! What every call is made of: a connection from the pool, time limits, a transaction that ends well
//! or is closed with its connection, and one row, locked or not.

use std::future::Future;
use std::time::Duration;

use super::Sql;
use super::connections::Lent;
use super::dialect::{Blame, Dialect, Value};
use super::failure::blame;
use crate::ids::BizTag;
use crate::store::{Row, StoreError};

impl<D: Dialect> Sql<D> {
    /// Bounds a part of a call: a store that hangs counts as down. Connecting and the transaction
    /// each get the whole time, so that leafd can reach a distant database at all.
    pub(super) async fn within<T>(
        &self,
        part: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        // A working server gives up first, by its own clock, and says why.
        let limit = self.timeout * 5 / 4;
        match tokio::time::timeout(limit, part).await {
            Ok(outcome) => outcome,
            Err(_) => {
                self.connections.close_idle();
                Err(StoreError::Down(self.no_answer(limit)))
            }
        }
    }

    pub(super) fn no_answer(&self, within: Duration) -> String {
        let ms = within.as_millis();
        format!("{}: no answer within {ms} ms (store.timeout)", self.described)
    }

    pub(super) async fn lend(&self) -> Result<Lent<D>, StoreError> {
        // The wait behind other calls is not the store's fault and does not count as its time.
        let slot = self.connections.slot().await;
        let lend = async { self.connections.lend(slot).await.map_err(|error| self.down(&error)) };
        self.within(lend).await
    }

    pub(super) async fn begin(&self, lent: &mut Lent<D>) -> Result<(), StoreError> {
        D::execute(lent, &self.begin_writing).await.map_err(|error| self.failed(&error))
    }

    pub(super) async fn begin_reading(&self, lent: &mut Lent<D>) -> Result<(), StoreError> {
        D::execute(lent, &self.begin_reading).await.map_err(|error| self.failed(&error))
    }

    /// Ends a transaction. If the server fails, the state of the connection is unknown: it is closed,
    /// and the transaction with it.
    pub(super) async fn end<T>(
        &self,
        mut lent: Lent<D>,
        outcome: Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let statement = match outcome {
            Ok(_) => "COMMIT",
            Err(StoreError::Down(_)) => return outcome,
            Err(_) => "ROLLBACK",
        };
        let ended = D::execute(&mut lent, statement).await;
        ended.map_err(|error| self.failed(&error))?;
        lent.give_back();
        outcome
    }

    pub(super) async fn one(
        &self,
        connection: &mut D::Connection,
        statement: &'static str,
        tag: &BizTag,
    ) -> Result<Row, StoreError> {
        self.one_of(connection, statement, &[Value::Text(tag.as_str())], tag).await
    }

    /// As [`Self::one`], where the tag is one of several values.
    pub(super) async fn one_of(
        &self,
        connection: &mut D::Connection,
        statement: &'static str,
        values: &[Value<'_>],
        tag: &BizTag,
    ) -> Result<Row, StoreError> {
        let rows = match D::read(connection, statement, values).await {
            Ok(rows) => rows,
            // The column cannot even be compared with this tag, so it does not hold it.
            Err(error) if blame::<D>(&error) == Blame::Value => return Err(StoreError::NoSuchTag),
            Err(error) => return Err(self.failed(&error)),
        };
        // Many collations treat 'a', 'A' and 'a ' as equal; to leafd they are three tags.
        rows.into_iter().find(|row| row.tag == tag.as_str()).ok_or(StoreError::NoSuchTag)
    }

    pub(super) async fn locked(&self, lent: &mut Lent<D>, tag: &BizTag) -> Result<Row, StoreError> {
        self.one(lent, self.statements.locked, tag).await
    }

    /// Writes the `max_id` of a locked row if the row still holds the value that was read. Where the
    /// lock does not hold (a cluster with several writers, a table without transactions), nothing
    /// changes.
    pub(super) async fn set_max_id(
        &self,
        lent: &mut Lent<D>,
        row: &Row,
        max_id: u64,
    ) -> Result<(), StoreError> {
        let read = row.max_id.get().unwrap_or_default();
        let values =
            [Value::Number(max_id.cast_signed()), Value::Text(&row.tag), Value::Number(read)];
        let changed = D::change(lent, self.statements.set_max_id, &values).await;
        if changed.map_err(|error| self.failed(&error))? == 1 {
            return Ok(());
        }
        Err(self.changed_while_locked(row))
    }
}
