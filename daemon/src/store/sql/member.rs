//! A database's share, when it is one of several: the row that a lease checks in its own transaction,
//! and what `leafd division` writes.

use super::Sql;
use super::connections::Lent;
use super::dialect::{Dialect, ShareStatements, Value};
use super::failure::{is_duplicate, lack};
use crate::ids::BizTag;
use crate::state::database::DatabaseIdentity;
use crate::store::several::{MemberStore, Membership, Share, ShareRange};
use crate::store::{BoxFuture, Number, Row, StoreError};

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
    pub(super) fn refused(&self, why: &str) -> StoreError {
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

    /// Gives shares away: in this transaction they stop being this database's.
    async fn grant_on(
        &self,
        lent: &mut Lent<D>,
        of_division: DatabaseIdentity,
        to: DatabaseIdentity,
    ) -> Result<Option<ShareRange>, StoreError> {
        let of = self.of_shares()?;
        let rows = self.read_shares(lent, of.division).await?;
        let giver = self.membership_of(&rows)?.filter(|giver| giver.name == of_division);
        let giver = giver.ok_or_else(|| self.refused("it belongs to another division by now"))?;
        let to = to.to_string();
        let known = D::read(lent, of.grant_of, &[Value::Text(&to)]).await;
        let known = known.map_err(|error| self.shares_failed(&error))?;
        if let Some(row) = known.first() {
            let end = |number: &Number| number.get().and_then(|it| u64::try_from(it).ok());
            let range = end(&row.max_id).zip(end(&row.step));
            let (first, end) =
                range.ok_or_else(|| self.refused("a row of leafd_share_grant makes no sense"))?;
            return Ok(Some(ShareRange { first, end }));
        }
        let Some((kept, given)) = giver.range.and_then(ShareRange::split) else {
            return Ok(None);
        };
        let (name, member) = (giver.name.to_string(), giver.member.to_string());
        let values =
            [number(kept.end), number(given.end), Value::Text(&name), Value::Text(&member)];
        let taken = D::change(lent, of.take, &values).await;
        if taken.map_err(|error| self.shares_failed(&error))? != 1 {
            return Err(StoreError::Exists);
        }
        let values = [Value::Text(&to), number(given.first), number(given.end)];
        match D::change(lent, of.grant, &values).await {
            Ok(_) => Ok(Some(given)),
            Err(error) if is_duplicate(&error) => Err(StoreError::Exists),
            Err(error) => Err(self.shares_failed(&error)),
        }
    }

    /// Changes a row that has to be there.
    async fn changes_one(
        &self,
        statement: &'static str,
        values: &[Value<'_>],
    ) -> Result<(), StoreError> {
        match self.changes(statement, values).await? {
            1 => Ok(()),
            _ => Err(StoreError::Exists),
        }
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

    fn join(&self, membership: Membership) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let Membership { name, member, division, .. } = membership;
            let (name, member) = (name.to_string(), member.to_string());
            let values = [
                Value::Text(&name),
                Value::Text(&member),
                number(division.shares),
                number(division.block),
            ];
            let of = self.of_shares()?;
            match self.changes(of.join, &values).await {
                Err(StoreError::Exists) => {
                    let [a, b, c, d] = values;
                    self.changes_one(of.rejoin, &[a, b, c, d, Value::Text(&name)]).await
                }
                outcome => outcome.map(drop),
            }
        })
    }

    fn grant(
        &self,
        of_division: DatabaseIdentity,
        to: DatabaseIdentity,
    ) -> BoxFuture<'_, Result<Option<ShareRange>, StoreError>> {
        Box::pin(async move {
            let mut lent = self.lend().await?;
            self.within(async {
                self.begin(&mut lent).await?;
                let granted = self.grant_on(&mut lent, of_division, to).await;
                self.end(lent, granted).await
            })
            .await
        })
    }

    fn set_share(
        &self,
        member: DatabaseIdentity,
        range: ShareRange,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let member = member.to_string();
            let values = [number(range.first), number(range.end), Value::Text(&member)];
            self.changes_one(self.of_shares()?.set_share, &values).await
        })
    }

    fn set_closed(
        &self,
        member: DatabaseIdentity,
        closed: bool,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let member = member.to_string();
            let values = [Value::Number(i64::from(closed)), Value::Text(&member)];
            // MySQL counts only rows that change.
            self.changes(self.of_shares()?.set_closed, &values).await.map(drop)
        })
    }

    fn tombstone<'a>(&'a self, tag: &'a BizTag) -> BoxFuture<'a, Result<Option<u64>, StoreError>> {
        Box::pin(self.tombstone_of(tag))
    }

    fn bury<'a>(&'a self, tag: &'a BizTag, at: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.bury_tag(tag, at))
    }
}
