//! What all databases have in common: every call is one transaction on a connection that is used
//! again only after a good end. What differs is in a [`Dialect`].

mod checkpoints;
mod connections;
mod dialect;
pub(super) mod mysql;
pub(super) mod postgres;
pub mod schema;
pub(super) mod sqlite;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use self::checkpoints::Checkpoints;
use self::connections::{Connections, Lent};
use self::dialect::{Blame, Dialect, FIND_FEW, Lack, Value};
use crate::ids::BizTag;
use crate::store::guard::DatabaseGuard;
use crate::store::plan::{plan_creation, plan_deletion};
use crate::store::{
    BoxFuture, CreatedTag, DeletedTag, FIND_AT_ONCE, LONG_READ, LeaseAsk, Leased, NewTag, Row,
    Store, StoreError, StoreLimits,
};

/// Set before a statement that may fail without ending the transaction.
const SAVE: &str = "SAVEPOINT leafd";

/// Goes back to [`SAVE`].
const GO_BACK: &str = "ROLLBACK TO SAVEPOINT leafd";

/// What the database knows of a tag that was deleted.
enum Tombstone {
    /// It has no table for it.
    NotKept,
    /// No tag of this name was deleted.
    None,
    /// One was; a new one begins here or above.
    At(u64),
}

impl Tombstone {
    const fn at(&self) -> Option<u64> {
        match *self {
            Self::At(at) => Some(at),
            Self::NotKept | Self::None => None,
        }
    }
}

/// A store in a database.
struct Sql<D: Dialect> {
    /// For people; never with a password.
    described: String,
    begin_writing: String,
    begin_reading: String,
    timeout: Duration,
    /// Its connections stay open while they are idle.
    keeps_connections: bool,
    connections: Connections<D>,
    checkpoints: Checkpoints,
}

impl<D: Dialect> std::fmt::Debug for Sql<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Sql").field(&self.described).finish()
    }
}

impl<D: Dialect> Sql<D> {
    /// Connects when it is first used. Connections are closed when they are `idle`.
    ///
    /// # Errors
    /// When the pool cannot be built.
    ///
    /// # Panics
    /// With `idle`, outside of a runtime.
    pub(super) fn new(
        described: String,
        dialect: D,
        limits: StoreLimits,
        idle: Option<Duration>,
    ) -> Result<Self, String> {
        let (begin_writing, begin_reading) = (dialect.begin_writing(), dialect.begin_reading());
        let keeps_connections = idle.is_none();
        let connections = Connections::new(dialect, limits, idle);
        let connections = connections.map_err(|error| error.to_string())?;
        let timeout = limits.timeout;
        let checkpoints = Checkpoints::default();
        Ok(Self {
            described,
            begin_writing,
            begin_reading,
            timeout,
            keeps_connections,
            connections,
            checkpoints,
        })
    }

    /// What failed concerns every call.
    fn down(&self, error: &sqlx::Error) -> StoreError {
        // They may lead to a server that is no longer the right one.
        self.connections.close_idle();
        match error {
            // What leafd found out itself needs no word of the library's before it.
            sqlx::Error::Configuration(why) => {
                StoreError::Down(format!("{}: {why}", self.described))
            }
            error => StoreError::Down(format!("{}: {error}", self.described)),
        }
    }

    /// A statement about one row failed.
    fn failed(&self, error: &sqlx::Error) -> StoreError {
        match blame::<D>(error) {
            Blame::Server => self.down(error),
            Blame::Value => StoreError::BadRow(format!("the table does not take it: {error}")),
            Blame::Call => StoreError::Busy(format!("{}: {error}", self.described)),
        }
    }

    /// Bounds a part of a call: a store that hangs is the same as one that is down. Connecting and
    /// the transaction have the whole time each, so that a distant database can be reached at all.
    async fn within<T>(
        &self,
        part: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        // A server that works gives up first, by its own clock, and says why.
        let limit = self.timeout * 5 / 4;
        match tokio::time::timeout(limit, part).await {
            Ok(outcome) => outcome,
            Err(_) => {
                self.connections.close_idle();
                Err(StoreError::Down(self.no_answer(limit)))
            }
        }
    }

    fn no_answer(&self, within: Duration) -> String {
        let ms = within.as_millis();
        format!("{}: no answer within {ms} ms (store.timeout)", self.described)
    }

    async fn lend(&self) -> Result<Lent<D>, StoreError> {
        // To wait for those who are before is not the store's fault, and not in its time.
        let place = self.connections.place().await;
        let lend = async { self.connections.lend(place).await.map_err(|error| self.down(&error)) };
        self.within(lend).await
    }

    async fn begin(&self, lent: &mut Lent<D>) -> Result<(), StoreError> {
        D::execute(lent, &self.begin_writing).await.map_err(|error| self.failed(&error))
    }

    async fn begin_reading(&self, lent: &mut Lent<D>) -> Result<(), StoreError> {
        D::execute(lent, &self.begin_reading).await.map_err(|error| self.failed(&error))
    }

    /// Ends a transaction. Of a server that fails nobody knows which state the connection is in:
    /// it is closed, and the transaction with it.
    async fn end<T>(
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

    async fn one(
        &self,
        connection: &mut D::Connection,
        statement: &'static str,
        tag: &BizTag,
    ) -> Result<Row, StoreError> {
        let rows = match D::read(connection, statement, &[Value::Text(tag.as_str())]).await {
            Ok(rows) => rows,
            // What the column cannot even be compared with is not in it.
            Err(error) if blame::<D>(&error) == Blame::Value => return Err(StoreError::NoSuchTag),
            Err(error) => return Err(self.failed(&error)),
        };
        // To many collations 'a', 'A' and 'a ' are the same; to leafd they are three tags.
        rows.into_iter().find(|row| row.tag == tag.as_str()).ok_or(StoreError::NoSuchTag)
    }

    async fn locked(&self, lent: &mut Lent<D>, tag: &BizTag) -> Result<Row, StoreError> {
        self.one(lent, D::STATEMENTS.locked, tag).await
    }

    /// Writes the `max_id` of a locked row, if it still is what was read: where the lock does not
    /// hold (a cluster with several writers, a table without transactions), nothing is changed.
    async fn set_max_id(
        &self,
        lent: &mut Lent<D>,
        row: &Row,
        max_id: u64,
    ) -> Result<(), StoreError> {
        let read = row.max_id.get().unwrap_or_default();
        let values =
            [Value::Number(max_id.cast_signed()), Value::Text(&row.tag), Value::Number(read)];
        let changed = D::change(lent, D::STATEMENTS.set_max_id, &values).await;
        if changed.map_err(|error| self.failed(&error))? == 1 {
            return Ok(());
        }
        Err(self.changed_while_locked(row))
    }

    fn changed_while_locked(&self, row: &Row) -> StoreError {
        StoreError::Busy(format!(
            "{}: the row of tag {:?} was changed while it was locked; does the table support \
             transactions?",
            self.described, row.tag
        ))
    }

    async fn lease_on(
        &self,
        lent: &mut Lent<D>,
        tag: &BizTag,
        ask: LeaseAsk,
    ) -> Result<Leased, StoreError> {
        let row = self.locked(lent, tag).await?;
        let leased = row.plan(ask)?;
        self.set_max_id(lent, &row, leased.lease.range.end()).await?;
        Ok(leased)
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

    async fn insert_on(&self, lent: &mut Lent<D>, values: &[Value<'_>]) -> Result<(), StoreError> {
        match D::change(lent, D::STATEMENTS.insert, values).await {
            Ok(_) => Ok(()),
            Err(error) if is_duplicate(&error) => Err(StoreError::Exists),
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// The tombstone of a tag. The caller holds the lock of the tag's row, so that nobody writes one
    /// until the end of the transaction.
    async fn tombstone_on(
        &self,
        lent: &mut Lent<D>,
        tag: &BizTag,
    ) -> Result<Tombstone, StoreError> {
        D::execute(lent, SAVE).await.map_err(|error| self.failed(&error))?;
        match D::read(lent, D::STATEMENTS.tombstone, &[Value::Text(tag.as_str())]).await {
            Ok(rows) => {
                // As with tags: what a collation takes for equal is not the same.
                let Some(row) = rows.into_iter().find(|row| row.tag == tag.as_str()) else {
                    return Ok(Tombstone::None);
                };
                let max_id = row.max_id.required("leafd_tombstone.max_id")?;
                u64::try_from(max_id).map(Tombstone::At).map_err(|_| {
                    StoreError::BadRow(format!("leafd_tombstone.max_id is {max_id}; set it right"))
                })
            }
            Err(error) => {
                let known = match lack::<D>(&error) {
                    Some(Lack::Table) => Tombstone::NotKept,
                    Some(Lack::Right) => return Err(self.not_set_up(&error)),
                    // What the column cannot even be compared with is not in it.
                    None if blame::<D>(&error) == Blame::Value => Tombstone::None,
                    None => return Err(self.failed(&error)),
                };
                D::execute(lent, GO_BACK).await.map_err(|error| self.failed(&error))?;
                Ok(known)
            }
        }
    }

    /// The row is made first and the tombstone read after it. Otherwise a host could read that
    /// there is none, another one delete the tag, and the first make it anew at the beginning.
    async fn create_on(
        &self,
        lent: &mut Lent<D>,
        tag: &BizTag,
        new: NewTag<'_>,
    ) -> Result<CreatedTag, StoreError> {
        let values = [
            Value::Text(tag.as_str()),
            Value::Number(new.first.cast_signed()),
            Value::Number(new.step.cast_signed()),
            Value::Text(new.description),
        ];
        self.insert_on(lent, &values).await?;
        let tombstone = self.tombstone_on(lent, tag).await?;
        let first = plan_creation(new.first, tombstone.at(), new.step)?;
        if first > new.first {
            let row = Row {
                tag: tag.as_str().to_owned(),
                max_id: new.first.cast_signed().into(),
                step: new.step.cast_signed().into(),
                description: String::new(),
            };
            self.set_max_id(lent, &row, first).await?;
        }
        if let Some(witness) = new.witness {
            // A disk that hangs is not the database's fault, and must not lock the row for long.
            let written = tokio::time::timeout(self.timeout / 2, witness.begins_at(tag, first));
            written.await.unwrap_or_else(|_| {
                Err(StoreError::Busy("the state directory has not answered in time".into()))
            })?;
        }
        Ok(CreatedTag { first, knows_deleted: !matches!(tombstone, Tombstone::NotKept) })
    }

    async fn delete_on(
        &self,
        lent: &mut Lent<D>,
        tag: &BizTag,
        floor: u64,
    ) -> Result<DeletedTag, StoreError> {
        let row = self.locked(lent, tag).await?;
        let known = self.tombstone_on(lent, tag).await?;
        if matches!(known, Tombstone::NotKept) {
            return Err(self.not_set_up("the table leafd_tombstone is missing"));
        }
        let tombstone = plan_deletion(&row, known.at(), floor)?;
        let at = Value::Number(tombstone.cast_signed());
        let name = Value::Text(tag.as_str());
        let written = match known {
            Tombstone::At(_) => D::change(lent, D::STATEMENTS.raise_tombstone, &[at, name]).await,
            _ => D::change(lent, D::STATEMENTS.insert_tombstone, &[name, at]).await,
        };
        match written {
            Ok(1) => {}
            Ok(_) => return Err(self.not_set_up("the tombstone was not written")),
            Err(error) if is_duplicate(&error) => {
                return Err(self.not_set_up(
                    "leafd_tombstone has a tag that its collation takes for the same",
                ));
            }
            Err(error) => return Err(self.lacks_or_failed(&error)),
        }
        let read = Value::Number(row.max_id.get().unwrap_or_default());
        let deleted = D::change(lent, D::STATEMENTS.delete, &[Value::Text(&row.tag), read]).await;
        if deleted.map_err(|error| self.lacks_or_failed(&error))? == 1 {
            return Ok(DeletedTag { row, tombstone });
        }
        Err(self.changed_while_locked(&row))
    }

    fn lacks_or_failed(&self, error: &sqlx::Error) -> StoreError {
        if lack::<D>(error).is_some() { self.not_set_up(error) } else { self.failed(error) }
    }

    fn not_set_up(&self, why: impl std::fmt::Display) -> StoreError {
        StoreError::NotSetUp(format!(
            "{}: {why}. Tags that are deleted leave their highest end in the table \
             leafd_tombstone, so that a new tag of the same name repeats no ID. `leafd schema` \
             prints the table. leafd needs SELECT, INSERT and UPDATE on it, and to delete tags \
             DELETE on leaf_alloc",
            self.described
        ))
    }

    async fn set_step_on(
        &self,
        lent: &mut Lent<D>,
        tag: &BizTag,
        step: u64,
    ) -> Result<(), StoreError> {
        let row = self.locked(lent, tag).await?;
        let values = [Value::Number(step.cast_signed()), Value::Text(&row.tag)];
        let changed = D::change(lent, D::STATEMENTS.set_step, &values).await;
        changed.map(drop).map_err(|error| self.failed(&error))
    }

    async fn lease_row(&self, tag: &BizTag, ask: LeaseAsk) -> Result<Leased, StoreError> {
        let mut lent = self.lend().await?;
        self.within(async {
            self.begin(&mut lent).await?;
            let outcome = self.lease_on(&mut lent, tag, ask).await;
            self.end(lent, outcome).await
        })
        .await
    }

    async fn raise_row(&self, tag: &BizTag, floor: u64) -> Result<Option<i64>, StoreError> {
        let mut lent = self.lend().await?;
        self.within(async {
            self.begin(&mut lent).await?;
            let outcome = self.raise_on(&mut lent, tag, floor).await;
            self.end(lent, outcome).await
        })
        .await
    }

    /// Which statement reads a page.
    async fn page_statement(&self, lent: &mut Lent<D>) -> Result<&'static str, StoreError> {
        let Some(order) = D::STATEMENTS.order else { return Ok(D::STATEMENTS.page) };
        let rows = D::read(lent, order.collation, &[]).await;
        let rows = rows.map_err(|error| self.failed(&error))?;
        let by_bytes = rows.first().is_some_and(|row| (order.is_by_bytes)(&row.tag));
        Ok(if by_bytes { D::STATEMENTS.page } else { order.sorted_page })
    }

    async fn page_of(&self, after: &str, limit: usize) -> Result<Vec<Row>, StoreError> {
        let mut lent = self.lend().await?;
        let rows = async {
            self.begin_reading(&mut lent).await?;
            let rows = async {
                let statement = self.page_statement(&mut lent).await?;
                // One more, for the row of `after` itself. A collation that pads with blanks takes
                // another one for equal, which comes after it.
                let most = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
                let values = [Value::Text(after), Value::Number(most)];
                let rows = D::read(&mut lent, statement, &values).await;
                rows.map_err(|error| self.failed(&error))
            };
            let rows = rows.await;
            self.end(lent, rows).await
        };
        // Without an index all rows are read: that it takes its time says nothing about a lease.
        let most = self.timeout * LONG_READ;
        let rows = tokio::time::timeout(most, rows).await;
        let mut rows = rows.unwrap_or_else(|_| Err(StoreError::Busy(self.no_answer(most))))?;
        rows.retain(|row| row.tag.as_str() > after);
        rows.truncate(limit);
        Ok(rows)
    }

    async fn find_rows(&self, tags: &[BizTag]) -> Result<Vec<Row>, StoreError> {
        let mut found = Vec::new();
        let mut parts: Vec<_> = tags.chunks(FIND_AT_ONCE).collect();
        while let Some(part) = parts.pop() {
            match self.find_part(part).await {
                // To a collation more may be equal than to leafd.
                Ok(rows) => found.extend(
                    rows.into_iter().filter(|row| part.iter().any(|tag| tag.as_str() == row.tag)),
                ),
                // The column cannot even be compared with one of them, so that one is not in it.
                Err(StoreError::NoSuchTag) => {
                    let (left, right) = part.split_at(part.len() / 2);
                    parts.extend([left, right].into_iter().filter(|half| half.len() < part.len()));
                    parts.retain(|part| !part.is_empty());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    async fn find_part(&self, tags: &[BizTag]) -> Result<Vec<Row>, StoreError> {
        let Some(last) = tags.last() else { return Ok(Vec::new()) };
        let few = tags.len() <= FIND_FEW;
        let length = if few { FIND_FEW } else { FIND_AT_ONCE };
        let names = tags.iter().chain(std::iter::repeat(last)).take(length);
        let values: Vec<_> = names.map(|tag| Value::Text(tag.as_str())).collect();
        let mut lent = self.lend().await?;
        self.within(async {
            self.begin_reading(&mut lent).await?;
            let rows = D::read(&mut lent, D::find(few), &values).await;
            let rows = rows.map_err(|error| match blame::<D>(&error) {
                Blame::Value => StoreError::NoSuchTag,
                Blame::Server | Blame::Call => self.failed(&error),
            });
            self.end(lent, rows).await
        })
        .await
    }

    async fn row(&self, tag: &BizTag) -> Result<Row, StoreError> {
        let mut lent = self.lend().await?;
        self.within(async {
            self.begin_reading(&mut lent).await?;
            let row = self.one(&mut lent, D::STATEMENTS.one, tag).await;
            self.end(lent, row).await
        })
        .await
    }

    async fn insert(&self, tag: &BizTag, new: NewTag<'_>) -> Result<CreatedTag, StoreError> {
        let mut lent = self.lend().await?;
        let made = self.within(async {
            self.begin(&mut lent).await?;
            let outcome = self.create_on(&mut lent, tag, new).await;
            self.end(lent, outcome).await
        });
        match made.await {
            Err(StoreError::Exists) => Err(self.why_exists(tag).await),
            outcome => outcome,
        }
    }

    /// The database has refused a second row of this name.
    async fn why_exists(&self, tag: &BizTag) -> StoreError {
        let read = async {
            let mut lent = self.lend().await?;
            self.within(async {
                self.begin_reading(&mut lent).await?;
                let rows =
                    D::read(&mut lent, D::STATEMENTS.one, &[Value::Text(tag.as_str())]).await;
                self.end(lent, rows.map_err(|error| self.failed(&error))).await
            })
            .await
        };
        match read.await {
            Ok(rows) if rows.iter().any(|row| row.tag == tag.as_str()) => StoreError::Exists,
            Ok(rows) if rows.is_empty() => StoreError::Busy(format!(
                "{}: another host deleted the tag just now",
                self.described
            )),
            Ok(_) => StoreError::BadRow(
                "the table has a tag that its collation takes for the same; give the column \
                 biz_tag the collation that `leafd schema` shows"
                    .into(),
            ),
            Err(error) => error,
        }
    }

    async fn delete_row(&self, tag: &BizTag, floor: u64) -> Result<DeletedTag, StoreError> {
        let mut lent = self.lend().await?;
        self.within(async {
            self.begin(&mut lent).await?;
            let outcome = self.delete_on(&mut lent, tag, floor).await;
            self.end(lent, outcome).await
        })
        .await
    }

    /// A row that was made is in the database itself when this returns, and not in a log beside it
    /// that can be lost. Calls that come together share one checkpoint.
    async fn checkpoint(&self) {
        if !D::CHECKPOINTS {
            return;
        }
        let Some(turn) = self.checkpoints.turn().await else { return };
        let outcome = async {
            let mut lent = self.lend().await?;
            let covers = turn.covers();
            let whole = self.within(async {
                D::checkpoint(&mut lent).await.map_err(|error| self.failed(&error))
            });
            let whole = whole.await?;
            lent.give_back();
            Ok::<_, StoreError>(whole.then_some(covers))
        };
        match outcome.await {
            Ok(Some(covers)) => turn.done(covers),
            // The row is on disk, and so is its high-water mark in the journal.
            Ok(None) => tracing::warn!(
                store = self.described,
                "a new tag is in the database's write-ahead log alone, since another process \
                 reads the database; do not remove its -wal file"
            ),
            Err(error) => tracing::warn!("a new tag is in the write-ahead log alone: {error}"),
        }
    }

    async fn update_step(&self, tag: &BizTag, step: u64) -> Result<(), StoreError> {
        let mut lent = self.lend().await?;
        self.within(async {
            self.begin(&mut lent).await?;
            let outcome = self.set_step_on(&mut lent, tag, step).await;
            self.end(lent, outcome).await
        })
        .await
    }

    async fn look_again(&self) -> Result<(), StoreError> {
        let mut lent = self.lend().await?;
        self.within(async {
            for statement in [&self.begin_writing, D::STATEMENTS.probe, "ROLLBACK"] {
                let outcome = D::execute(&mut lent, statement).await;
                outcome.map_err(|error| self.failed(&error))?;
            }
            // A look now and then must not keep a connection from being idle.
            if self.keeps_connections {
                lent.give_back()
            } else {
                lent.say_goodbye().await
            }
            Ok(())
        })
        .await
    }

    async fn prove_row(&self, tag: &BizTag) -> Result<(), StoreError> {
        let mut lent = self.lend().await?;
        self.within(async {
            self.begin(&mut lent).await?;
            let outcome = self.rewrite_on(&mut lent, tag).await;
            self.end(lent, outcome).await
        })
        .await
    }

    async fn rewrite_on(&self, lent: &mut Lent<D>, tag: &BizTag) -> Result<(), StoreError> {
        let row = self.locked(lent, tag).await?;
        let max_id = row.max_id.required("max_id")?;
        let here = u64::try_from(max_id).map_err(|_| StoreError::NoSuchTag)?;
        let above = max_id.checked_add(1).ok_or(StoreError::NoSuchTag)?;
        // A database leaves out a write that changes nothing. Should this not be one transaction (a
        // table without them), the row is put back only if nobody has leased from it meanwhile.
        self.set_max_id(lent, &row, above.unsigned_abs()).await?;
        let raised = Row { max_id: above.into(), ..row };
        self.set_max_id(lent, &raised, here).await
    }

    async fn try_out(&self) -> Result<(), StoreError> {
        let open = async { self.connections.open().await.map_err(|error| self.down(&error)) };
        let mut connection = self.within(open).await?;
        self.within(async {
            for statement in [&self.begin_writing, D::STATEMENTS.probe, "ROLLBACK"] {
                let outcome = D::execute(&mut connection, statement).await;
                outcome.map_err(|error| self.failed(&error))?;
            }
            // It has answered; a goodbye that fails changes nothing.
            let _ = sqlx::Connection::close(connection).await;
            Ok(())
        })
        .await
    }
}

fn blame<D: Dialect>(error: &sqlx::Error) -> Blame {
    match error {
        sqlx::Error::Database(error) => D::blame(&**error),
        // What the row holds cannot be read, or the tag not be written.
        sqlx::Error::ColumnDecode { .. }
        | sqlx::Error::Decode(_)
        | sqlx::Error::Encode(_)
        | sqlx::Error::TypeNotFound { .. } => Blame::Call,
        _ => Blame::Server,
    }
}

fn lack<D: Dialect>(error: &sqlx::Error) -> Option<Lack> {
    error.as_database_error().and_then(D::lack)
}

fn is_duplicate(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|error| error.is_unique_violation())
}

impl<D: Dialect> Store for Sql<D> {
    fn describe(&self) -> String {
        if !self.connections.guard().is_nameless() {
            return self.described.clone();
        }
        format!(
            "{} (without the table leafd_identity, or without the right to read it, so leafd would \
             not notice another database at this address; `leafd schema` prints the table, and \
             GRANT SELECT gives the right)",
            self.described
        )
    }

    fn guard(&self) -> Option<&Arc<DatabaseGuard>> {
        Some(self.connections.guard())
    }

    fn lease<'a>(
        &'a self,
        tag: &'a BizTag,
        ask: LeaseAsk,
    ) -> BoxFuture<'a, Result<Leased, StoreError>> {
        Box::pin(self.lease_row(tag, ask))
    }

    fn look(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.look_again())
    }

    fn prove<'a>(&'a self, tag: &'a BizTag) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.prove_row(tag))
    }

    fn probe(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.try_out())
    }

    fn page<'a>(
        &'a self,
        after: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Row>, StoreError>> {
        Box::pin(self.page_of(after, limit))
    }

    fn find<'a>(&'a self, tags: &'a [BizTag]) -> BoxFuture<'a, Result<Vec<Row>, StoreError>> {
        Box::pin(self.find_rows(tags))
    }

    fn show<'a>(&'a self, tag: &'a BizTag) -> BoxFuture<'a, Result<Row, StoreError>> {
        Box::pin(self.row(tag))
    }

    fn create<'a>(
        &'a self,
        tag: &'a BizTag,
        new: NewTag<'a>,
    ) -> BoxFuture<'a, Result<CreatedTag, StoreError>> {
        Box::pin(async move {
            let made = self.insert(tag, new).await?;
            self.checkpoint().await;
            Ok(made)
        })
    }

    fn delete<'a>(
        &'a self,
        tag: &'a BizTag,
        floor: u64,
    ) -> BoxFuture<'a, Result<DeletedTag, StoreError>> {
        Box::pin(async move {
            let deleted = self.delete_row(tag, floor).await?;
            self.checkpoint().await;
            Ok(deleted)
        })
    }

    fn raise<'a>(
        &'a self,
        tag: &'a BizTag,
        floor: u64,
    ) -> BoxFuture<'a, Result<Option<i64>, StoreError>> {
        Box::pin(self.raise_row(tag, floor))
    }

    fn set_step<'a>(&'a self, tag: &'a BizTag, step: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.update_step(tag, step))
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.connections.close())
    }
}
