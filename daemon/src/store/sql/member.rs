//! A database's share, when it is one of several: the row that a lease checks in its own transaction,
//! and what `leafd division` writes.

use super::Sql;
use super::dialect::{Dialect, ShareStatements, Value};
use super::failure::{is_duplicate, lack};
use crate::state::database::DatabaseIdentity;
use crate::store::several::{Given, MemberStore, Membership, Share};
use crate::store::{BoxFuture, Row, StoreError};

impl<D: Dialect> Sql<D> {
    /// The share that this transaction may lease from; none if the store has all IDs.
    pub(super) async fn share_on(
        &self,
        connection: &mut D::Connection,
    ) -> Result<Option<Share>, StoreError> {
        let Some(place) = &self.place else { return Ok(None) };
        let rows = self.read_shares(connection, self.of_shares()?.division).await?;
        let membership = self.membership_of(&rows)?;
        let share = place.accept(membership).map_err(|why| self.refused(&why))?;
        Ok(Some(share))
    }

    /// The database cannot be used as it is, whatever the call.
    fn refused(&self, why: &str) -> StoreError {
        StoreError::Down(format!("{}: {why}", self.described))
    }

    fn of_shares(&self) -> Result<&'static ShareStatements, StoreError> {
        const { &D::SHARES }.as_ref().ok_or_else(|| self.refused("it cannot have a share"))
    }

    fn membership_of(&self, rows: &[Row]) -> Result<Option<Membership>, StoreError> {
        let read = rows.first().map(Membership::of_row).transpose();
        read.map_err(|why| self.refused(&why))
    }

    async fn read_shares(
        &self,
        connection: &mut D::Connection,
        statement: &'static str,
    ) -> Result<Vec<Row>, StoreError> {
        D::read(connection, statement, &[]).await.map_err(|error| self.shares_failed(&error))
    }

    fn shares_failed(&self, error: &sqlx::Error) -> StoreError {
        match lack::<D>(error) {
            Some(_) => self.refused(&format!(
                "{error}. `leafd schema` prints the tables for several databases, and the manual \
                 says which rights leafd needs on them"
            )),
            None => self.failed(error),
        }
    }

    /// One transaction that reads.
    async fn reads(&self, statement: &'static str) -> Result<Vec<Row>, StoreError> {
        let mut lent = self.lend().await?;
        self.within(async {
            self.begin_reading(&mut lent).await?;
            let rows = self.read_shares(&mut lent, statement).await;
            self.end(lent, rows).await
        })
        .await
    }

    /// One transaction that changes a row.
    async fn changes(
        &self,
        statement: &'static str,
        values: &[Value<'_>],
    ) -> Result<u64, StoreError> {
        let mut lent = self.lend().await?;
        self.within(async {
            self.begin(&mut lent).await?;
            let changed = match D::change(&mut lent, statement, values).await {
                Ok(rows) => Ok(rows),
                Err(error) if is_duplicate(&error) => Err(StoreError::Exists),
                Err(error) => Err(self.shares_failed(&error)),
            };
            self.end(lent, changed).await
        })
        .await
    }

    async fn given_rows(&self) -> Result<Vec<Given>, StoreError> {
        let read = |row: &Row| {
            Some(Given {
                member: row.tag.trim().parse::<DatabaseIdentity>().ok()?,
                share: row.max_id.get()?.try_into().ok()?,
                is_closed: row.step.get()? != 0,
            })
        };
        let rows = self.reads(self.of_shares()?.given).await?;
        let given: Option<Vec<_>> = rows.iter().map(read).collect();
        given.ok_or_else(|| {
            self.refused("a row of leafd_share makes no sense; only `leafd division` may write it")
        })
    }
}

/// Numbers of shares and blocks are far below 2^63.
const fn number(value: u64) -> Value<'static> {
    Value::Number(value.cast_signed())
}

impl<D: Dialect> MemberStore for Sql<D> {
    fn membership(&self) -> BoxFuture<'_, Result<Option<Membership>, StoreError>> {
        Box::pin(async {
            let rows = self.reads(self.of_shares()?.division).await?;
            self.membership_of(&rows)
        })
    }

    fn given(&self) -> BoxFuture<'_, Result<Vec<Given>, StoreError>> {
        Box::pin(self.given_rows())
    }

    fn join(&self, membership: Membership) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let Membership { name, member, division, .. } = membership;
            let (name, member) = (name.to_string(), member.to_string());
            let values = [
                Value::Text(&name),
                Value::Text(&member),
                Value::Number(-1),
                number(division.shares),
                number(division.block),
            ];
            self.changes(self.of_shares()?.insert_division, &values).await.map(drop)
        })
    }

    fn give(&self, given: Given) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let member = given.member.to_string();
            let values = [number(given.share), Value::Text(&member)];
            self.changes(self.of_shares()?.give, &values).await.map(drop)
        })
    }

    fn set_share(&self, share: Share) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let values = [number(share.number())];
            match self.changes(self.of_shares()?.set_share, &values).await? {
                1 => Ok(()),
                _ => Err(self.refused("it has a share already")),
            }
        })
    }

    fn close_given(&self, share: u64) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            self.changes(self.of_shares()?.close_given, &[number(share)]).await.map(drop)
        })
    }

    fn close_own(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async { self.changes(self.of_shares()?.close, &[]).await.map(drop) })
    }
}
