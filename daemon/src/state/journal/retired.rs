//! What is left of the tags of past days that have left the journal one by one: a line for each series of them.
//! `invoices-20261121` and `invoices-20261122` are of the series `invoices`. Without this, each day would leave
//! a line for ever.

use std::collections::HashMap;

use leaf_client::form::Day;

use crate::ids::BizTag;

/// The tags of past days that have left, by series.
///
/// For each series, the latest day of which a tag has left and the highest of their marks. Both only rise. So
/// whatever the clock or the database does, no such tag goes on below what this host has seen of its series.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RetiredDays(HashMap<Box<str>, RetiredSeries>);

/// What is left of one series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RetiredSeries {
    /// The latest day of which a tag has left.
    pub(crate) through: Day,
    /// The highest mark of all of them.
    pub(crate) floor: u64,
}

/// The series and the day in the name of a tag that has them: `invoices-20261122`.
pub(crate) fn series_of(name: &str) -> Option<(&str, Day)> {
    let (series, day) = name.rsplit_once('-')?;
    if series.is_empty() { None } else { Some((series, day.parse().ok()?)) }
}

impl RetiredDays {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many series there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn knows(&self, series: &str) -> bool {
        self.0.contains_key(series)
    }

    /// Where a tag that nothing else is known of starts, if it is of one of these days; otherwise 0.
    pub(crate) fn floor_of(&self, name: &str) -> u64 {
        if self.is_empty() {
            return 0;
        }
        let left = series_of(name)
            .and_then(|(series, day)| self.0.get(series).filter(|retired| day <= retired.through));
        left.map_or(0, |retired| retired.floor)
    }

    /// Takes in tags of a series, up to a day, with this mark.
    pub(crate) fn add(&mut self, series: &str, RetiredSeries { through, floor }: RetiredSeries) {
        match self.0.get_mut(series) {
            Some(known) => {
                known.through = known.through.max(through);
                known.floor = known.floor.max(floor);
            }
            None => drop(self.0.insert(series.into(), RetiredSeries { through, floor })),
        }
    }

    /// None of these tags goes on below `base` either.
    #[must_use]
    pub(crate) fn not_below(mut self, base: u64) -> Self {
        self.0.values_mut().for_each(|retired| retired.floor = retired.floor.max(base));
        self
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &RetiredSeries)> {
        self.0.iter().map(|(series, retired)| (&**series, retired))
    }

    /// The latest tag of each series, and the mark of all.
    pub(super) fn latest(&self) -> impl Iterator<Item = (BizTag, u64)> {
        self.iter().filter_map(|(series, retired)| {
            Some((BizTag::new(&retired.through.tag(series)).ok()?, retired.floor))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(text: &str) -> Day {
        text.parse().unwrap()
    }

    #[test]
    fn only_a_name_that_ends_in_a_hyphen_and_a_date_of_the_calendar_has_a_day() {
        for (name, found) in [
            ("invoices-20261122", Some(("invoices", "20261122"))),
            ("a-b-20240229", Some(("a-b", "20240229"))),
            ("é-19700101", Some(("é", "19700101"))),
            ("invoices-20230229", None),
            ("invoices-2026112", None),
            ("invoices-202611222", None),
            ("invoices20261122", None),
            ("-20261122", None),
            ("20261122", None),
            ("invoices-20261122-", None),
            ("invoices-２0261122", None),
            ("orders", None),
        ] {
            assert_eq!(series_of(name), found.map(|(series, text)| (series, day(text))), "{name}");
        }
    }

    #[test]
    fn the_floor_is_that_of_the_days_of_its_series_up_to_the_latest_and_both_only_rise() {
        let mut retired = RetiredDays::default();
        assert_eq!(retired.floor_of("a-20260101"), 0);
        for (series, through, floor) in [
            ("a", "20260105", 500),
            ("a", "20260103", 900),
            ("a", "20260104", 700),
            ("b", "20260109", 5),
        ] {
            retired.add(series, RetiredSeries { through: day(through), floor });
        }
        for (name, floor) in [
            ("a-20260105", 900),
            ("a-20200101", 900),
            ("a-20260106", 0),
            ("b-20260105", 5),
            ("c-20200101", 0),
            ("orders", 0),
            ("a", 0),
        ] {
            assert_eq!(retired.floor_of(name), floor, "{name}");
        }
        let mut latest: Vec<_> = retired.latest().collect();
        latest.sort_unstable();
        let named = |name: &str| BizTag::new(name).unwrap();
        assert_eq!(latest, [(named("a-20260105"), 900), (named("b-20260109"), 5)]);
        let raised = retired.not_below(600);
        assert_eq!((raised.floor_of("a-20260105"), raised.floor_of("b-20260109")), (900, 600));
    }
}
