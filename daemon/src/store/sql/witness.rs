//! The witness table by SQL: what a lease's transaction reads of it, and visits that change it.

use super::Sql;
use super::connections::Lent;
use super::dialect::{Dialect, Value, WitnessStatements};
use super::witness_rows::{Written, facts_of, fleet_row, host_row};
use crate::ids::BizTag;
use crate::store::witness::keeper::{WitnessFacts, WitnessKeeper, WitnessNext};
use crate::store::witness::rules::{Visited, go_on_without_missing};
use crate::store::witness::table::{HostName, HostRow, WitnessTable};
use crate::store::witness::{AcceptedLoss, WitnessStore};
use crate::store::{BoxFuture, Row, StoreError};

/// What a look at the table found.
enum WitnessLook {
    NoTable,
    /// The table, which was not known to be there.
    First,
    Facts(WitnessFacts),
}

/// A host that has written its row within this many seconds is alive: one that has not confirmed an epoch tries
/// each second.
const ALIVE_S: u64 = 20;

impl<D: Dialect> Sql<D> {
    fn witness_keeper(&self) -> Option<&WitnessKeeper> {
        self.connections.guard().witness().map(|keeper| &**keeper)
    }

    fn of_witness(&self) -> Option<(&WitnessKeeper, &'static WitnessStatements)> {
        self.witness_keeper().zip(const { &D::WITNESS }.as_ref())
    }

    /// Whether somebody has looked for the table.
    pub(super) fn knows_witness(&self) -> bool {
        self.of_witness().is_none_or(|(keeper, _)| keeper.is_there().is_some())
    }

    /// The same if the database has the table. Fails before the first look for it.
    fn of_known_witness(
        &self,
    ) -> Result<Option<(&WitnessKeeper, &'static WitnessStatements)>, StoreError> {
        let Some((keeper, of)) = self.of_witness() else { return Ok(None) };
        match keeper.is_there() {
            Some(is_there) => Ok(is_there.then_some((keeper, of))),
            None => Err(StoreError::Busy(format!(
                "{}: leafd has yet to look whether it has the table leafd_witness",
                self.described
            ))),
        }
    }

    /// Tells this database from others, for what this host remembers of the table.
    fn database_text(&self) -> String {
        let identity = self.connections.guard().recorded().identity;
        identity.map_or_else(|| self.described.clone(), |identity| identity.to_string())
    }

    /// Waits, for a bounded time, until this host knows whether it may lease.
    pub(super) async fn wait_for_witness(&self) {
        if let Some((keeper, _)) = self.of_witness() {
            keeper.wait(self.timeout).await;
        }
    }

    /// The locked row of a tag, if this host may lease in this transaction.
    pub(super) async fn leasable(
        &self,
        lent: &mut Lent<D>,
        tag: &BizTag,
    ) -> Result<Row, StoreError> {
        let Some((keeper, of)) = self.of_known_witness()? else {
            return self.locked(lent, tag).await;
        };
        let (me, basis) = (keeper.me().to_string(), keeper.basis());
        let values = [Value::Text(&me), Value::Text(tag.as_str())];
        let row = self.one_of(lent, of.leasable, &values, tag).await;
        let row = row.map_err(|error| self.or_gone(keeper, error))?;
        let facts = facts_of(&row).map_err(|why| self.refused(&why))?;
        keeper.check(&basis, &facts).map_err(|why| self.refused(&why))?;
        Ok(row)
    }

    /// The error of a statement that reads the table, or that the table is gone.
    fn or_gone(&self, keeper: &WitnessKeeper, error: StoreError) -> StoreError {
        match &error {
            StoreError::Down(text) if text.contains("leafd_witness") => {
                keeper.note_missing().map_or_else(|why| self.refused(&why), |()| error)
            }
            _ => error,
        }
    }

    /// Fails if this host may not lease now.
    pub(super) async fn check_witness(
        &self,
        connection: &mut D::Connection,
    ) -> Result<(), StoreError> {
        let Some((keeper, of)) = self.of_known_witness()? else { return Ok(()) };
        let basis = keeper.basis();
        let (facts, _) = self.glance(connection, keeper, of).await?;
        keeper.check(&basis, &facts).map_err(|why| self.refused(&why))
    }

    /// Reads the fleet's row and this host's, and the database's clock.
    async fn glance(
        &self,
        connection: &mut D::Connection,
        keeper: &WitnessKeeper,
        of: &WitnessStatements,
    ) -> Result<(WitnessFacts, u64), StoreError> {
        let me = keeper.me().to_string();
        let rows = D::read(connection, of.glance, &[Value::Text(&me)]).await;
        let rows = rows.map_err(|error| self.or_gone(keeper, self.failed(&error)))?;
        let row =
            rows.first().ok_or_else(|| self.refused("a SELECT without a table has no row"))?;
        let facts = facts_of(row).map_err(|why| self.refused(&why))?;
        Ok((facts, row.max_id.natural()))
    }

    async fn attend(&self, leaves: bool) -> Result<WitnessNext, StoreError> {
        let Some((keeper, of)) = self.of_witness() else { return Ok(WitnessNext::NoTable) };
        let _turn = keeper.turn.lock().await;
        if keeper.has_left() {
            return Ok(WitnessNext::Waiting);
        }
        let outcome = self.look_and_visit(keeper, of, leaves).await;
        if outcome.is_err() {
            keeper.note_failed();
        }
        outcome
    }

    async fn look_and_visit(
        &self,
        keeper: &WitnessKeeper,
        of: &'static WitnessStatements,
        leaves: bool,
    ) -> Result<WitnessNext, StoreError> {
        let facts = match self.look_at_witness(keeper, of).await? {
            WitnessLook::NoTable => return Ok(WitnessNext::NoTable),
            WitnessLook::First => return Ok(WitnessNext::Again),
            WitnessLook::Facts(facts) => facts,
        };
        if !leaves && !keeper.needs_visit(&facts) {
            return Ok(keeper.next(&facts));
        }
        if leaves {
            keeper.leave();
        }
        // This host's name has to be on disk before it is in the table.
        record(keeper).await?;
        let (visited, server) = self.visit(keeper, of, leaves).await?;
        record(keeper).await?;
        self.forget_rows(of, &visited.forgotten).await;
        let WitnessTable { fleet, hosts } = visited.table;
        let own = hosts.get(&keeper.me()).cloned();
        Ok(keeper.next(&WitnessFacts { fleet, own, server }))
    }

    async fn look_at_witness(
        &self,
        keeper: &WitnessKeeper,
        of: &'static WitnessStatements,
    ) -> Result<WitnessLook, StoreError> {
        let mut lent = self.lend().await?;
        self.within(async {
            self.begin(&mut lent).await?;
            let found = D::read(&mut lent, of.look, &[]).await;
            let found = found.map_err(|error| self.failed(&error))?;
            let is_there = found.first().is_some_and(|row| !row.tag.is_empty());
            if !is_there {
                keeper.note_missing().map_err(|why| self.refused(&why))?;
            }
            if !is_there || keeper.note_there(&self.database_text()) {
                D::execute(&mut lent, "ROLLBACK").await.map_err(|error| self.failed(&error))?;
                // Periodic looks must not keep a connection from going idle. And connections from before the
                // table was found do not know which start of the server this is.
                lent.say_goodbye().await;
                if is_there {
                    self.connections.close_idle();
                }
                return Ok(if is_there { WitnessLook::First } else { WitnessLook::NoTable });
            }
            let glance = self.glance(&mut lent, keeper, of).await;
            let (facts, _) = self.end(lent, glance).await?;
            Ok(WitnessLook::Facts(facts))
        })
        .await
    }

    async fn visit(
        &self,
        keeper: &WitnessKeeper,
        of: &'static WitnessStatements,
        leaves: bool,
    ) -> Result<(Visited, String), StoreError> {
        let mut lent = self.lend().await?;
        let planned = self.within(async {
            self.begin(&mut lent).await?;
            self.visit_on(&mut lent, keeper, of, leaves).await
        });
        let (visited, server) = planned.await?;
        let committing =
            async { D::execute(&mut lent, "COMMIT").await.map_err(|error| self.failed(&error)) };
        if let Err(error) = self.within(committing).await {
            keeper.lost_answer(&visited);
            return Err(error);
        }
        lent.give_back();
        keeper.committed(&visited);
        Ok((visited, server))
    }

    /// Deletes the rows of hosts that left long ago, in a transaction of its own: nothing else needs this right.
    async fn forget_rows(&self, of: &'static WitnessStatements, names: &[HostName]) {
        for name in names {
            let deleted = async {
                let mut lent = self.lend().await?;
                self.within(async {
                    self.begin(&mut lent).await?;
                    let name = name.to_string();
                    let deleted = D::change(&mut lent, of.delete, &[Value::Text(&name)]).await;
                    self.end(lent, deleted.map_err(|error| self.failed(&error))).await
                })
                .await
            };
            if let Err(error) = deleted.await {
                tracing::debug!("cannot delete an old row of leafd_witness: {error}");
                return;
            }
        }
    }

    /// Locks the fleet's row, so that visits run one after the other, and makes of the table what the rules say.
    async fn visit_on(
        &self,
        lent: &mut Lent<D>,
        keeper: &WitnessKeeper,
        of: &WitnessStatements,
        leaves: bool,
    ) -> Result<(Visited, String), StoreError> {
        let locked = D::read(lent, of.lock_fleet, &[]).await;
        locked.map_err(|error| self.failed(&error))?;
        let (facts, now_s) = self.glance(lent, keeper, of).await?;
        let table = self.whole_table(lent, of).await?;
        let visited = keeper.plan(&table, (&facts.server, now_s), leaves);
        self.write_table(lent, of, &table, &visited.table).await?;
        if let Some(margin) = visited.skip {
            self.skip_on(lent, of, margin).await?;
        }
        Ok((visited, facts.server))
    }

    fn of_table(&self) -> Result<&'static WitnessStatements, StoreError> {
        const { &D::WITNESS }.as_ref().ok_or_else(|| self.refused("it cannot have this table"))
    }

    async fn table_on(
        &self,
        lent: &mut Lent<D>,
        of: &WitnessStatements,
    ) -> Result<(WitnessTable, u64), StoreError> {
        let nobody = HostName::FLEET.to_string();
        let rows = D::read(lent, of.glance, &[Value::Text(&nobody)]).await;
        let rows = rows.map_err(|error| self.failed(&error))?;
        let now_s = rows.first().map_or(0, |row| row.max_id.natural());
        Ok((self.whole_table(lent, of).await?, now_s))
    }

    async fn accept_on(
        &self,
        lent: &mut Lent<D>,
        of: &WitnessStatements,
        (epoch, margin): (u64, u64),
    ) -> Result<AcceptedLoss, StoreError> {
        let locked = D::read(lent, of.lock_fleet, &[]).await;
        locked.map_err(|error| self.failed(&error))?;
        let (table, now_s) = self.table_on(lent, of).await?;
        let (is, open) = table.fleet.as_ref().map_or((0, false), |it| (it.epoch, it.open));
        if is != epoch || !open {
            return Ok(AcceptedLoss::NotOpen { epoch: is, open });
        }
        let shown = |row: &HostRow| row.shown.clone();
        let missing = || table.missing().map(|(_, row)| row);
        let alive = missing().filter(|row| now_s.saturating_sub(row.seen_s) < ALIVE_S);
        let hosts: Vec<_> = alive.map(shown).collect();
        if !hosts.is_empty() {
            return Ok(AcceptedLoss::Alive { hosts });
        }
        let without = missing().map(shown).collect();
        let mut after = table.clone();
        go_on_without_missing(&mut after);
        self.write_table(lent, of, &table, &after).await?;
        if margin > 0 {
            self.skip_on(lent, of, margin).await?;
        }
        Ok(AcceptedLoss::Done { without })
    }

    /// Moves every row of a tag forward.
    pub(super) async fn skip_on(
        &self,
        lent: &mut Lent<D>,
        of: &WitnessStatements,
        margin: u64,
    ) -> Result<(), StoreError> {
        let margin = i64::try_from(margin).unwrap_or(i64::MAX);
        let values = [Value::Number(margin), Value::Number(i64::MAX - margin)];
        for statement in of.skip {
            let skipped = D::change(lent, statement, &values).await;
            skipped.map_err(|error| self.failed_or_not_set_up(&error))?;
        }
        Ok(())
    }

    pub(super) async fn whole_table(
        &self,
        lent: &mut Lent<D>,
        of: &WitnessStatements,
    ) -> Result<WitnessTable, StoreError> {
        let rows = D::read(lent, of.all, &[]).await.map_err(|error| self.failed(&error))?;
        let mut table = WitnessTable::default();
        for row in &rows {
            let name = row.tag.trim().parse::<HostName>();
            let text = &row.description;
            let parsed = name.ok().and_then(|name| {
                if name == HostName::FLEET {
                    table.fleet = Some(fleet_row(text)?);
                } else {
                    table.hosts.insert(name, host_row(text)?);
                }
                Some(())
            });
            parsed.ok_or_else(|| {
                self.refused(&format!("the row {:?} of leafd_witness makes no sense", row.tag))
            })?;
        }
        Ok(table)
    }

    pub(super) async fn write_table(
        &self,
        lent: &mut Lent<D>,
        of: &WitnessStatements,
        before: &WitnessTable,
        after: &WitnessTable,
    ) -> Result<(), StoreError> {
        let was = before.fleet.as_ref().map(Written::fleet);
        let is = after.fleet.as_ref().map(Written::fleet);
        if let Some(is) = is.filter(|is| was.as_ref() != Some(is)) {
            self.write_row(lent, of, HostName::FLEET, &is, was.is_some()).await?;
        }
        for (name, row) in &after.hosts {
            let was = before.hosts.get(name);
            if was != Some(row) {
                self.write_row(lent, of, *name, &Written::host(row), was.is_some()).await?;
            }
        }
        Ok(())
    }

    async fn write_row(
        &self,
        lent: &mut Lent<D>,
        of: &WitnessStatements,
        name: HostName,
        row: &Written<'_>,
        is_there: bool,
    ) -> Result<(), StoreError> {
        let name = name.to_string();
        let [beat, base, confirmed, roster, joined, seen_s] = row.numbers.map(Value::Number);
        let (presence, server, shown) =
            (Value::Text(row.presence), Value::Text(row.server), Value::Text(row.shown));
        let statement = if is_there { of.update } else { of.insert };
        let values = [
            beat,
            base,
            confirmed,
            presence,
            roster,
            joined,
            seen_s,
            server,
            shown,
            Value::Text(&name),
        ];
        D::change(lent, statement, &values).await.map(drop).map_err(|error| self.failed(&error))
    }
}

async fn record(keeper: &WitnessKeeper) -> Result<(), StoreError> {
    keeper.record().await.map_err(|error| {
        StoreError::Busy(format!("the state directory cannot be written: {error}"))
    })
}

impl<D: Dialect> WitnessStore for Sql<D> {
    fn keeper(&self) -> Option<&WitnessKeeper> {
        self.witness_keeper()
    }

    fn ready(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.wait_for_witness())
    }

    fn attend(&self) -> BoxFuture<'_, Result<WitnessNext, StoreError>> {
        Box::pin(self.attend(false))
    }

    fn leave(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async { self.attend(true).await.map(drop) })
    }

    fn table(&self) -> BoxFuture<'_, Result<(WitnessTable, u64), StoreError>> {
        Box::pin(async {
            let of = self.of_table()?;
            let mut lent = self.lend().await?;
            self.within(async {
                self.begin_reading(&mut lent).await?;
                let table = self.table_on(&mut lent, of).await;
                self.end(lent, table).await
            })
            .await
        })
    }

    fn accept_loss(
        &self,
        epoch: u64,
        margin: u64,
    ) -> BoxFuture<'_, Result<AcceptedLoss, StoreError>> {
        Box::pin(async move {
            let of = self.of_table()?;
            let mut lent = self.lend().await?;
            self.within(async {
                self.begin(&mut lent).await?;
                let accepted = self.accept_on(&mut lent, of, (epoch, margin)).await;
                self.end(lent, accepted).await
            })
            .await
        })
    }

    fn bury<'a>(&'a self, tag: &'a BizTag, at: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.bury_tag(tag, at))
    }
}
