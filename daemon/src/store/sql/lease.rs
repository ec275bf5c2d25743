//! The lease, and the calls that ask whether a lease would succeed: look, probe and prove.

use super::Sql;
use super::connections::Lent;
use super::dialect::Dialect;
use crate::ids::BizTag;
use crate::store::{LeaseAsk, Leased, Row, StoreError};

impl<D: Dialect> Sql<D> {
    pub(super) async fn lease_row(
        &self,
        tag: &BizTag,
        ask: LeaseAsk,
    ) -> Result<Leased, StoreError> {
        let mut lent = self.lend().await?;
        self.within(async {
            self.begin(&mut lent).await?;
            let outcome = self.lease_on(&mut lent, tag, ask).await;
            self.end(lent, outcome).await
        })
        .await
    }

    async fn lease_on(
        &self,
        lent: &mut Lent<D>,
        tag: &BizTag,
        ask: LeaseAsk,
    ) -> Result<Leased, StoreError> {
        let share = self.share_on(lent).await?;
        let row = self.leasable(lent, tag).await?;
        let leased = match share {
            Some(share) => share.plan(&row, ask)?,
            None => row.plan(ask)?,
        };
        self.set_max_id(lent, &row, leased.lease.range.end()).await?;
        Ok(leased)
    }

    pub(super) async fn raise_row(
        &self,
        tag: &BizTag,
        floor: u64,
    ) -> Result<Option<i64>, StoreError> {
        let mut lent = self.lend().await?;
        self.within(async {
            self.begin(&mut lent).await?;
            let outcome = self.raise_on(&mut lent, tag, floor).await;
            self.end(lent, outcome).await
        })
        .await
    }

    async fn raise_on(
        &self,
        lent: &mut Lent<D>,
        tag: &BizTag,
        floor: u64,
    ) -> Result<Option<i64>, StoreError> {
        let row = self.locked(lent, tag).await?;
        let behind = row.max_id.get().filter(|max_id| (0..floor.cast_signed()).contains(max_id));
        if behind.is_some() {
            self.set_max_id(lent, &row, floor).await?;
        }
        Ok(behind)
    }

    pub(super) async fn look_on_open_connection(&self) -> Result<(), StoreError> {
        let mut lent = self.lend().await?;
        self.within(async {
            self.try_statements(&mut lent).await?;
            // Periodic looks must not keep a connection from going idle.
            if self.keeps_connections {
                lent.give_back()
            } else {
                lent.say_goodbye().await
            }
            Ok(())
        })
        .await
    }

    pub(super) async fn probe_on_new_connection(&self) -> Result<(), StoreError> {
        let open = async { self.connections.open().await.map_err(|error| self.down(&error)) };
        let mut connection = self.within(open).await?;
        self.within(async {
            self.try_statements(&mut connection).await?;
            // The server has answered; a failed goodbye changes nothing.
            let _ = sqlx::Connection::close(connection).await;
            Ok(())
        })
        .await
    }

    /// What a lease does, on no row.
    async fn try_statements(&self, connection: &mut D::Connection) -> Result<(), StoreError> {
        for statement in [&self.begin_writing, self.statements.probe] {
            let outcome = D::execute(connection, statement).await;
            outcome.map_err(|error| self.failed(&error))?;
        }
        self.share_on(connection).await?;
        if self.knows_witness() {
            self.check_witness(connection).await?;
        }
        D::execute(connection, "ROLLBACK").await.map_err(|error| self.failed(&error))
    }

    pub(super) async fn prove_row(&self, tag: &BizTag) -> Result<(), StoreError> {
        let mut lent = self.lend().await?;
        self.within(async {
            self.begin(&mut lent).await?;
            let outcome = self.rewrite_on(&mut lent, tag).await;
            self.end(lent, outcome).await
        })
        .await
    }

    async fn rewrite_on(&self, lent: &mut Lent<D>, tag: &BizTag) -> Result<(), StoreError> {
        self.share_on(lent).await?;
        let row = self.leasable(lent, tag).await?;
        let max_id = row.max_id.required("max_id")?;
        let here = u64::try_from(max_id).map_err(|_| StoreError::NoSuchTag)?;
        let above = max_id.checked_add(1).ok_or(StoreError::NoSuchTag)?;
        // A database skips a write that changes nothing, so the row moves and comes back. If the
        // table has no transactions, it comes back only if nobody has leased from it meanwhile.
        self.set_max_id(lent, &row, above.unsigned_abs()).await?;
        let raised = Row { max_id: above.into(), ..row };
        self.set_max_id(lent, &raised, here).await
    }
}
