//! Tables: each column is as wide as its widest cell, and numbers are right-aligned. On a terminal, a
//! table gives up columns until it fits.

use std::io::Write;

use crate::exit::Failure;
use crate::output::Output;
use crate::text::{cut, width};

/// Spaces between columns.
const GAP: usize = 2;

/// The alignment of a column's cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// What becomes of a column where there is no room for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fit {
    /// It stays.
    Keep,
    /// It goes, the column with the highest number first.
    Drop(u8),
    /// Its cells are cut, to this width at the least. Without any text it goes.
    Cut(usize),
}

/// Rows below a heading.
#[derive(Debug)]
pub(crate) struct TextTable<const N: usize> {
    heading: [(&'static str, Align, Fit); N],
    rows: Vec<[String; N]>,
}

impl<const N: usize> TextTable<N> {
    pub(crate) fn new(heading: [(&'static str, Align); N]) -> Self {
        Self::that_fits(heading.map(|(name, align)| (name, align, Fit::Keep)))
    }

    /// A table that [`Self::lines`] can fit into a terminal.
    pub(crate) fn that_fits(heading: [(&'static str, Align, Fit); N]) -> Self {
        Self { heading, rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: [String; N]) {
        self.rows.push(cells);
    }

    /// Prints all columns in full.
    pub(crate) fn print<W: Write>(&self, out: &mut Output<W>) -> Result<(), Failure> {
        self.lines(None).into_iter().try_for_each(|line| out.line(line))
    }

    /// The heading and the rows: all columns in full, or what fits into `columns`.
    pub(crate) fn lines(&self, columns: Option<usize>) -> Vec<String> {
        let natural = self.natural_widths();
        let widths = match columns {
            None => natural.map(Some),
            Some(columns) => self.fitted(natural, columns),
        };
        let joined = |line: String| columns.map_or(line.clone(), |columns| cut(&line, columns));
        let heading = self.joined(self.heading.iter().map(|(name, ..)| *name), &widths);
        let rows = self.rows.iter().map(|row| self.joined(row.iter().map(String::as_str), &widths));
        std::iter::once(heading).chain(rows).map(joined).collect()
    }

    fn natural_widths(&self) -> [usize; N] {
        let mut widths = self.heading.map(|(name, ..)| width(name));
        for row in &self.rows {
            for (widest, cell) in widths.iter_mut().zip(row) {
                *widest = (*widest).max(width(cell));
            }
        }
        widths
    }

    /// The width of each column in a table that fits into `columns`; `None` for one that goes.
    fn fitted(&self, natural: [usize; N], columns: usize) -> [Option<usize>; N] {
        let mut widths = natural.map(Some);
        let mut cells = natural;
        for (at, (column, cell)) in widths.iter_mut().zip(&mut cells).enumerate() {
            let is_cut = self.heading.get(at).map(|(_, _, fit)| *fit);
            let Some(Fit::Cut(least)) = is_cut else { continue };
            *cell = (*cell).min(least);
            if self.rows.iter().all(|row| row.get(at).is_none_or(String::is_empty)) {
                *column = None;
            } else {
                *column = Some(*cell);
            }
        }
        while total(&widths) > columns {
            let ranks = self.heading.iter().zip(&mut widths);
            let droppable = ranks.filter_map(|((_, _, fit), column)| match fit {
                Fit::Drop(rank) if column.is_some() => Some((*rank, column)),
                _ => None,
            });
            let Some((_, column)) = droppable.max_by_key(|(rank, _)| *rank) else { break };
            *column = None;
        }
        // What is left goes to the columns that were cut, the first of them first.
        for (at, natural) in natural.into_iter().enumerate() {
            let spare = columns.saturating_sub(total(&widths));
            if let Some(Some(column)) = widths.get_mut(at) {
                *column = natural.min(*column + spare);
            }
        }
        widths
    }

    fn joined<'a>(
        &self,
        cells: impl Iterator<Item = &'a str>,
        widths: &[Option<usize>; N],
    ) -> String {
        let mut line = String::new();
        let mut first = true;
        for ((cell, (_, align, _)), column) in cells.zip(&self.heading).zip(widths) {
            let Some(column) = *column else { continue };
            if !first {
                line.push_str(&" ".repeat(GAP));
            }
            first = false;
            let cell = cut(cell, column);
            let padding = " ".repeat(column.saturating_sub(width(&cell)));
            match align {
                Align::Left => line.push_str(&format!("{cell}{padding}")),
                Align::Right => line.push_str(&format!("{padding}{cell}")),
            }
        }
        line.truncate(line.trim_end().len());
        line
    }
}

fn total(widths: &[Option<usize>]) -> usize {
    let columns = widths.iter().flatten();
    columns.clone().sum::<usize>() + GAP * columns.count().saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::tests::printed;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_on_the_terminal() {
        let mut table =
            TextTable::new([("TAG", Align::Left), ("N", Align::Right), ("", Align::Left)]);
        table.row(["订单".to_owned(), "1".to_owned(), String::new()]);
        table.row(["order".to_owned(), "1,000".to_owned(), "x".to_owned()]);
        let lines = "TAG        N\n订单       1\norder  1,000  x\n";
        assert_eq!(printed(|out| table.print(out)), lines);
    }

    fn table(error: &str) -> TextTable<4> {
        let mut table = TextTable::that_fits([
            ("TAG", Align::Left, Fit::Cut(4)),
            ("LEFT", Align::Right, Fit::Keep),
            ("STEP", Align::Right, Fit::Drop(1)),
            ("ERROR", Align::Left, Fit::Cut(5)),
        ]);
        table.row(["orders".to_owned(), "10".to_owned(), "1,000".to_owned(), error.to_owned()]);
        table
    }

    #[test]
    fn a_table_that_does_not_fit_drops_columns_and_then_cuts_cells() {
        let table = table("it is full");
        assert_eq!(table.lines(Some(40))[1], "orders    10  1,000  it is full");
        assert_eq!(table.lines(Some(31))[1], "orders    10  1,000  it is full");
        assert_eq!(table.lines(Some(30))[1], "orders    10  1,000  it is fu…");
        assert_eq!(table.lines(Some(24))[1], "ord…    10  1,000  it i…");
        assert_eq!(table.lines(Some(20))[1], "orders    10  it is…");
        assert_eq!(table.lines(Some(17))[1], "ord…    10  it i…");
        assert_eq!(table.lines(Some(8))[1], "ord…   …");
        for columns in 1..60 {
            assert!(table.lines(Some(columns)).iter().all(|line| width(line) <= columns));
        }
    }

    #[test]
    fn a_column_without_text_goes_where_room_counts_and_stays_for_programs() {
        let table = table("");
        assert_eq!(table.lines(Some(80))[0], "TAG     LEFT   STEP");
        assert_eq!(table.lines(None)[0], "TAG     LEFT   STEP  ERROR");
    }
}
