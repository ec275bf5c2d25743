//! Reading rows: one, those of some tags for the refresh, and pages of the whole table for lists.

use super::connections::Lent;
use super::dialect::{Blame, Dialect, FIND_FEW, Value};
use super::failure::blame;
use super::{LONG_READ, Sql};
use crate::ids::BizTag;
use crate::store::{FIND_AT_ONCE, Row, StoreError};

impl<D: Dialect> Sql<D> {
    pub(super) async fn row(&self, tag: &BizTag) -> Result<Row, StoreError> {
        let mut lent = self.lend().await?;
        self.within(async {
            self.begin_reading(&mut lent).await?;
            let row = self.one(&mut lent, self.statements.one, tag).await;
            self.end(lent, row).await
        })
        .await
    }

    pub(super) async fn find_rows(&self, tags: &[BizTag]) -> Result<Vec<Row>, StoreError> {
        let mut found = Vec::new();
        let mut parts: Vec<_> = tags.chunks(FIND_AT_ONCE).collect();
        while let Some(part) = parts.pop() {
            match self.find_part(part).await {
                // A collation may treat more tags as equal than leafd does.
                Ok(rows) => found.extend(
                    rows.into_iter().filter(|row| part.iter().any(|tag| tag.as_str() == row.tag)),
                ),
                // The column cannot be compared with one of these tags, so it does not hold that
                // one. Halving the part finds the tag.
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
            let rows = D::read(&mut lent, D::find(self.tables, few), &values).await;
            let rows = rows.map_err(|error| match blame::<D>(&error) {
                Blame::Value => StoreError::NoSuchTag,
                Blame::Server | Blame::Call => self.failed(&error),
            });
            self.end(lent, rows).await
        })
        .await
    }

    pub(super) async fn page_of(&self, after: &str, limit: usize) -> Result<Vec<Row>, StoreError> {
        let mut lent = self.lend().await?;
        let rows = async {
            self.begin_reading(&mut lent).await?;
            let rows = async {
                let statement = self.page_statement(&mut lent).await?;
                // One more, for the row of `after` itself. With a collation that pads with blanks,
                // another row that compares equal comes after it.
                let most = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
                let values = [Value::Text(start_of_page(after)), Value::Number(most)];
                let rows = D::read(&mut lent, statement, &values).await;
                rows.map_err(|error| self.failed(&error))
            };
            let rows = rows.await;
            self.end(lent, rows).await
        };
        // Without an index the database reads all rows. A slow list says nothing about leases, so
        // it fails as busy, not as down.
        let most = self.timeout * LONG_READ;
        let rows = tokio::time::timeout(most, rows).await;
        let mut rows = rows.unwrap_or_else(|_| Err(StoreError::Busy(self.no_answer(most))))?;
        rows.retain(|row| row.tag.as_str() > after);
        rows.truncate(limit);
        Ok(rows)
    }

    /// The statement that reads a page in byte order: by the index if the index has that order.
    async fn page_statement(&self, lent: &mut Lent<D>) -> Result<&'static str, StoreError> {
        let Some(order) = &self.statements.order else { return Ok(self.statements.page) };
        let rows = D::read(lent, order.collation, &[]).await;
        let rows = rows.map_err(|error| self.failed(&error))?;
        let by_bytes = rows.first().is_some_and(|row| (order.is_by_bytes)(&row.tag));
        Ok(if by_bytes { self.statements.page } else { order.sorted_page })
    }
}

/// `after` up to its first U+0000, which PostgreSQL refuses in any text. Every text that follows `after` also
/// follows what is left of it, and the caller drops the others.
fn start_of_page(after: &str) -> &str {
    after.split_once('\0').map_or(after, |(start, _)| start)
}
