//! Tables for a terminal: each column is as wide as its widest cell, and numbers are right-aligned.

use std::io::Write;

use crate::exit::Failure;
use crate::output::Output;

/// The alignment of a column's cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Rows below a heading.
#[derive(Debug)]
pub(crate) struct TextTable<const N: usize> {
    heading: [(&'static str, Align); N],
    rows: Vec<[String; N]>,
}

impl<const N: usize> TextTable<N> {
    pub(crate) fn new(heading: [(&'static str, Align); N]) -> Self {
        Self { heading, rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: [String; N]) {
        self.rows.push(cells);
    }

    pub(crate) fn print<W: Write>(&self, out: &mut Output<W>) -> Result<(), Failure> {
        let mut widths = self.heading.map(|(name, _)| name.chars().count());
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        out.line(self.joined(self.heading.iter().map(|(name, _)| *name), &widths))?;
        for row in &self.rows {
            out.line(self.joined(row.iter().map(String::as_str), &widths))?;
        }
        Ok(())
    }

    fn joined<'a>(&self, cells: impl Iterator<Item = &'a str>, widths: &[usize; N]) -> String {
        let mut line = String::new();
        for ((cell, (_, align)), &width) in cells.zip(&self.heading).zip(widths) {
            if !line.is_empty() {
                line.push_str("  ");
            }
            match align {
                Align::Left => line.push_str(&format!("{cell:<width$}")),
                Align::Right => line.push_str(&format!("{cell:>width$}")),
            }
        }
        line.truncate(line.trim_end().len());
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::tests::printed;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table =
            TextTable::new([("TAG", Align::Left), ("N", Align::Right), ("", Align::Left)]);
        table.row(["订单".to_owned(), "1".to_owned(), String::new()]);
        table.row(["order".to_owned(), "1,000".to_owned(), "x".to_owned()]);
        let lines = "TAG        N\n订单         1\norder  1,000  x\n";
        assert_eq!(printed(|out| table.print(out)), lines);
    }
}
