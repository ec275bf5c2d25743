//! What is left of the tags of past days that have left the journal: one number for all of them. Without it,
//! each day would leave a line for ever.

use leaf_client::form::Day;

/// The tags of days that are over, which the journal no longer knows one by one.
///
/// Both values only rise. So whatever the clock or the database does, no such tag goes on below what this host
/// has seen of any of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RetiredDays {
    /// The latest day of which a tag has left.
    through: Option<Day>,
    /// The highest of their high-water marks.
    floor: u64,
}

/// The day in the name of a tag that has one: `invoices-20261122`.
pub(crate) fn day_of(name: &str) -> Option<Day> {
    let (base, day) = name.rsplit_once('-')?;
    if base.is_empty() { None } else { day.parse().ok() }
}

impl RetiredDays {
    /// No tag has left.
    pub(crate) const NONE: Self = Self { through: None, floor: 0 };

    pub(crate) fn is_none(&self) -> bool {
        self.through.is_none()
    }

    /// Where a tag that nothing else is known of starts, if it is of one of these days; otherwise 0.
    pub(crate) fn floor_of(&self, name: &str) -> u64 {
        if self.is_none() {
            return 0;
        }
        day_of(name).filter(|day| Some(*day) <= self.through).map_or(0, |_| self.floor)
    }

    /// Takes in a tag of `day` with this high-water mark.
    pub(crate) fn add(&mut self, day: Day, mark: u64) {
        self.through = self.through.max(Some(day));
        self.floor = self.floor.max(mark);
    }

    /// None of these tags goes on below `base` either.
    #[must_use]
    pub(crate) fn not_below(self, base: u64) -> Self {
        let floor = if self.is_none() { 0 } else { self.floor.max(base) };
        Self { floor, ..self }
    }

    /// As the journal's first line has it: `DAY:FLOOR`. `None` if no tag has left.
    pub(super) fn write(&self) -> Option<String> {
        self.through.map(|day| format!("{day}:{}", self.floor))
    }

    pub(super) fn read(text: &str) -> Option<Self> {
        let (day, floor) = text.split_once(':')?;
        Some(Self { through: Some(day.parse().ok()?), floor: floor.parse().ok()? })
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
            ("invoices-20261122", Some("20261122")),
            ("a-b-20240229", Some("20240229")),
            ("é-19700101", Some("19700101")),
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
            assert_eq!(day_of(name), found.map(day), "{name}");
        }
    }

    #[test]
    fn the_floor_is_that_of_all_days_up_to_the_latest_and_both_only_rise() {
        let mut retired = RetiredDays::NONE;
        assert_eq!(retired.floor_of("a-20260101"), 0);
        assert_eq!(retired.not_below(99), RetiredDays::NONE);
        retired.add(day("20260105"), 500);
        retired.add(day("20260103"), 900);
        retired.add(day("20260104"), 700);
        for (name, floor) in
            [("a-20260105", 900), ("b-20200101", 900), ("a-20260106", 0), ("orders", 0)]
        {
            assert_eq!(retired.floor_of(name), floor, "{name}");
        }
        assert_eq!(retired.not_below(10).floor_of("a-20260105"), 900);
        assert_eq!(retired.not_below(1000).floor_of("a-20260105"), 1000);
    }

    #[test]
    fn what_is_written_is_read_back_and_nothing_else_is() {
        let mut retired = RetiredDays::NONE;
        assert_eq!(retired.write(), None);
        retired.add(day("20260105"), u64::MAX);
        let text = retired.write().unwrap();
        assert_eq!(text, "20260105:18446744073709551615");
        assert_eq!(RetiredDays::read(&text), Some(retired));
        for wrong in ["", "20260105", "20260105:", ":5", "20260105:-1", "20261305:5", "x:5"] {
            assert_eq!(RetiredDays::read(wrong), None, "{wrong}");
        }
    }
}
