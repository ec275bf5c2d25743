//! `leafctl decode --layouts`: the layouts that have names.

use std::io::Write;

use leaf_client::{LAYOUT_PRESETS, Layout};
use leafd::rfc3339::rfc3339;
use serde::Serialize;

use crate::exit::Failure;
use crate::output::{Output, grouped};
use crate::table::{Align, TextTable};

/// A layout, as `--json` prints it.
#[derive(Debug, Serialize)]
struct NamedLayout {
    name: &'static str,
    layout: String,
    workers: u64,
    ids_per_second: u64,
    end: String,
    end_unix_ms: u64,
}

impl NamedLayout {
    fn of(name: &'static str, layout: Layout) -> Self {
        Self {
            name,
            layout: layout.to_string(),
            workers: layout.max_worker() + 1,
            ids_per_second: (layout.max_sequence() + 1) * 1000 / layout.unit_ms(),
            end: rfc3339(layout.end_ms()),
            end_unix_ms: layout.end_ms(),
        }
    }
}

/// Prints them all, with the first time that each has no room for.
///
/// # Errors
/// `Output`.
pub(super) fn print<W: Write>(json: bool, out: &mut Output<W>) -> Result<(), Failure> {
    let layouts = LAYOUT_PRESETS.map(|(name, layout)| NamedLayout::of(name, layout));
    if json {
        return layouts.iter().try_for_each(|layout| out.json(layout));
    }
    let mut table = TextTable::new([
        ("NAME", Align::Left),
        ("WORKERS", Align::Right),
        ("IDS/S PER WORKER", Align::Right),
        ("END", Align::Left),
        ("LAYOUT", Align::Left),
    ]);
    for layout in layouts {
        let end = layout.end.get(..10).unwrap_or_default().to_owned();
        let (workers, rate) = (grouped(layout.workers), grouped(layout.ids_per_second));
        table.row([layout.name.to_owned(), workers, rate, end, layout.layout]);
    }
    table.print(out)
}
