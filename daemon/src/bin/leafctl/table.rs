//! Columns for people: as wide as their widest cell, numbers to the right.

use std::io::Write;

use crate::exit::Failure;
use crate::output::Output;

/// Where a column's cells stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    /// Texts.
    Left,
    /// Numbers.
    Right,
}

/// Rows under a heading.
#[derive(Debug)]
pub(crate) struct Table<const N: usize> {
    heading: [(&'static str, Align); N],
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    /// A table without rows.
    pub(crate) fn new(heading: [(&'static str, Align); N]) -> Self {
        Self { heading, rows: Vec::new() }
    }

    /// Adds a row at the end.
    pub(crate) fn row(&mut self, cells: [String; N]) {
        self.rows.push(cells);
    }

    /// Writes the heading and the rows.
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

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new([("TAG", Align::Left), ("N", Align::Right), ("", Align::Left)]);
        table.row(["订单".to_owned(), "1".to_owned(), String::new()]);
        table.row(["order".to_owned(), "1,000".to_owned(), "x".to_owned()]);
        let mut bytes = Vec::new();
        let mut out = Output::to(&mut bytes);
        table.print(&mut out).unwrap();
        out.finish().unwrap();
        drop(out);
        let lines = "TAG        N\n订单         1\norder  1,000  x\n";
        assert_eq!(String::from_utf8(bytes).unwrap(), lines);
    }
}
