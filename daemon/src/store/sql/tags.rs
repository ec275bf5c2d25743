//! What an operator does to rows: making a tag, deleting it, changing its step. A deleted tag leaves a
//! tombstone, above which a new tag of the same name begins.

use super::Sql;
use super::connections::Lent;
use super::dialect::{Blame, Dialect, Lack, Value};
use super::failure::{blame, is_duplicate, lack};
use crate::ids::BizTag;
use crate::store::plan::{plan_creation, plan_deletion};
use crate::store::{CreatedTag, DeletedTag, NewTag, Row, StoreError};

/// Precedes a statement that may fail without ending the transaction.
const SAVE: &str = "SAVEPOINT leafd";

/// How often a tombstone that another host writes at the same time is tried.
const BURY_TRIES: u32 = 3;

/// Goes back to [`SAVE`].
const GO_BACK: &str = "ROLLBACK TO SAVEPOINT leafd";

/// What the database knows of an earlier, deleted tag of the same name.
enum Tombstone {
    /// The database has no table of tombstones.
    NotKept,
    /// No tag of this name was deleted.
    None,
    /// A new tag begins here or above.
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

impl<D: Dialect> Sql<D> {
    pub(super) async fn create_row(
        &self,
        tag: &BizTag,
        new: NewTag<'_>,
    ) -> Result<CreatedTag, StoreError> {
        self.wait_for_witness().await;
        let mut lent = self.lend().await?;
        let created = self.within(async {
            self.begin(&mut lent).await?;
            let outcome = self.create_on(&mut lent, tag, new).await;
            self.end(lent, outcome).await
        });
        match created.await {
            Err(StoreError::Exists) => Err(self.why_exists(tag).await),
            outcome => outcome,
        }
    }

    /// Makes the row first and reads the tombstone after it. In the other order, a host could read
    /// that there is no tombstone, another host delete the tag, and the first host make it again at
    /// its beginning.
    async fn create_on(
        &self,
        lent: &mut Lent<D>,
        tag: &BizTag,
        new: NewTag<'_>,
    ) -> Result<CreatedTag, StoreError> {
        self.check_witness(lent).await?;
        let values = [
            Value::Text(tag.as_str()),
            Value::Number(new.first.cast_signed()),
            Value::Number(new.step.cast_signed()),
            Value::Text(new.description),
        ];
        self.insert_on(lent, &values).await?;
        let tombstone = self.tombstone_on(lent, tag).await?;
        let first = plan_creation(new.first, tombstone.at(), new.step)?;
        if let Some(share) = self.share_on(lent).await? {
            share.plan_creation(new.first, first)?;
        }
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
            // A local disk that hangs is not the database's fault, and must not keep the row locked
            // for long.
            let written = tokio::time::timeout(self.timeout / 2, witness.begins_at(tag, first));
            written.await.unwrap_or_else(|_| {
                Err(StoreError::Busy("the state directory has not answered in time".into()))
            })?;
        }
        Ok(CreatedTag { first, knows_deleted: !matches!(tombstone, Tombstone::NotKept) })
    }

    async fn insert_on(&self, lent: &mut Lent<D>, values: &[Value<'_>]) -> Result<(), StoreError> {
        match D::change(lent, self.statements.insert, values).await {
            Ok(_) => Ok(()),
            Err(error) if is_duplicate(&error) => Err(StoreError::Exists),
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// Why the database refused a second row of this name.
    async fn why_exists(&self, tag: &BizTag) -> StoreError {
        let read = async {
            let mut lent = self.lend().await?;
            self.within(async {
                self.begin_reading(&mut lent).await?;
                let rows =
                    D::read(&mut lent, self.statements.one, &[Value::Text(tag.as_str())]).await;
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
                "the table has another tag that its collation treats as equal; give the column \
                 biz_tag the collation that `leafd schema` shows"
                    .into(),
            ),
            Err(error) => error,
        }
    }

    pub(super) async fn delete_row(
        &self,
        tag: &BizTag,
        floor: u64,
    ) -> Result<DeletedTag, StoreError> {
        self.wait_for_witness().await;
        let mut lent = self.lend().await?;
        self.within(async {
            self.begin(&mut lent).await?;
            let outcome = self.delete_on(&mut lent, tag, floor).await;
            self.end(lent, outcome).await
        })
        .await
    }

    async fn delete_on(
        &self,
        lent: &mut Lent<D>,
        tag: &BizTag,
        floor: u64,
    ) -> Result<DeletedTag, StoreError> {
        self.check_witness(lent).await?;
        let row = self.locked(lent, tag).await?;
        let known = self.tombstone_on(lent, tag).await?;
        if matches!(known, Tombstone::NotKept) {
            return Err(self
                .not_set_up(format_args!("the table {} is missing", self.statements.tombstones)));
        }
        let tombstone = plan_deletion(&row, known.at(), floor)?;
        let written = self.write_tombstone(lent, tag, &known, tombstone).await;
        written.map_err(|error| match error {
            StoreError::Exists => self.equal_tombstone(),
            error => error,
        })?;
        let read = Value::Number(row.max_id.get().unwrap_or_default());
        let deleted = D::change(lent, self.statements.delete, &[Value::Text(&row.tag), read]).await;
        if deleted.map_err(|error| self.failed_or_not_set_up(&error))? == 1 {
            return Ok(DeletedTag { row, tombstone });
        }
        Err(self.changed_while_locked(&row))
    }

    fn equal_tombstone(&self) -> StoreError {
        self.not_set_up(format_args!(
            "{} has another tag that its collation treats as equal",
            self.statements.tombstones
        ))
    }

    /// The tombstone of a tag that may have no row.
    pub(super) async fn tombstone_of(&self, tag: &BizTag) -> Result<Option<u64>, StoreError> {
        let mut lent = self.lend().await?;
        self.within(async {
            self.begin(&mut lent).await?;
            let outcome = self.tombstone_on(&mut lent, tag).await.map(|known| known.at());
            self.end(lent, outcome).await
        })
        .await
    }

    /// Writes a tombstone for a tag without a row, or raises the one that is there.
    pub(super) async fn bury_tag(&self, tag: &BizTag, at: u64) -> Result<(), StoreError> {
        // No row of the tag is locked, so another host may write its first tombstone at the same time.
        for _ in 0..BURY_TRIES {
            let mut lent = self.lend().await?;
            let buried = self.within(async {
                self.begin(&mut lent).await?;
                let outcome = self.bury_on(&mut lent, tag, at).await;
                self.end(lent, outcome).await
            });
            match buried.await {
                Err(StoreError::Exists) => {}
                outcome => return outcome,
            }
        }
        Err(self.equal_tombstone())
    }

    async fn bury_on(&self, lent: &mut Lent<D>, tag: &BizTag, at: u64) -> Result<(), StoreError> {
        let known = self.tombstone_on(lent, tag).await?;
        if known.at().is_some_and(|known| known >= at) {
            return Ok(());
        }
        self.write_tombstone(lent, tag, &known, at).await
    }

    async fn write_tombstone(
        &self,
        lent: &mut Lent<D>,
        tag: &BizTag,
        known: &Tombstone,
        tombstone: u64,
    ) -> Result<(), StoreError> {
        let at = Value::Number(tombstone.cast_signed());
        let name = Value::Text(tag.as_str());
        let written = match known {
            Tombstone::At(_) => D::change(lent, self.statements.raise_tombstone, &[at, name]).await,
            _ => D::change(lent, self.statements.insert_tombstone, &[name, at]).await,
        };
        match written {
            Ok(1) => Ok(()),
            Ok(_) => Err(self.not_set_up("the tombstone was not written")),
            Err(error) if is_duplicate(&error) => Err(StoreError::Exists),
            Err(error) => Err(self.failed_or_not_set_up(&error)),
        }
    }

    /// The tombstone of a tag. If the caller holds the lock of the tag's row, nobody else writes a
    /// tombstone until the transaction ends.
    async fn tombstone_on(
        &self,
        lent: &mut Lent<D>,
        tag: &BizTag,
    ) -> Result<Tombstone, StoreError> {
        D::execute(lent, SAVE).await.map_err(|error| self.failed(&error))?;
        match D::read(lent, self.statements.tombstone, &[Value::Text(tag.as_str())]).await {
            Ok(rows) => {
                // As with tags, rows that only the collation treats as equal are other tags.
                let Some(row) = rows.into_iter().find(|row| row.tag == tag.as_str()) else {
                    return Ok(Tombstone::None);
                };
                let column = format!("{}.max_id", self.statements.tombstones);
                let max_id = row.max_id.required(&column)?;
                u64::try_from(max_id)
                    .map(Tombstone::At)
                    .map_err(|_| StoreError::BadRow(format!("{column} is {max_id}; set it right")))
            }
            Err(error) => {
                let known = match lack::<D>(&error) {
                    Some(Lack::Table) => Tombstone::NotKept,
                    Some(Lack::Right) => return Err(self.not_set_up(&error)),
                    // The column cannot even be compared with this tag, so it does not hold it.
                    None if blame::<D>(&error) == Blame::Value => Tombstone::None,
                    None => return Err(self.failed(&error)),
                };
                D::execute(lent, GO_BACK).await.map_err(|error| self.failed(&error))?;
                Ok(known)
            }
        }
    }

    pub(super) async fn update_step(&self, tag: &BizTag, step: u64) -> Result<Row, StoreError> {
        let mut lent = self.lend().await?;
        self.within(async {
            self.begin(&mut lent).await?;
            let outcome = self.set_step_on(&mut lent, tag, step).await;
            self.end(lent, outcome).await
        })
        .await
    }

    async fn set_step_on(
        &self,
        lent: &mut Lent<D>,
        tag: &BizTag,
        step: u64,
    ) -> Result<Row, StoreError> {
        let row = self.locked(lent, tag).await?;
        let values = [Value::Number(step.cast_signed()), Value::Text(&row.tag)];
        let changed = D::change(lent, self.statements.set_step, &values).await;
        changed.map(|_| row).map_err(|error| self.failed(&error))
    }

    /// When this returns, created and deleted rows are in the database file itself, and not only in
    /// a log beside it that can be lost. Calls that come together share one checkpoint.
    pub(super) async fn checkpoint(&self) {
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
                "a new tag is only in the database's write-ahead log, because another process \
                 reads the database; do not remove its -wal file"
            ),
            Err(error) => tracing::warn!("a new tag is only in the write-ahead log: {error}"),
        }
    }
}
