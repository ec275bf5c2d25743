//! Rows of the witness table as the statements read and write them.

use crate::store::Row;
use crate::store::witness::keeper::WitnessFacts;
use crate::store::witness::table::{FleetRow, HostRow, Presence};

/// The word for the fleet's row while an epoch is open.
const OPEN: &str = "open";

/// Stands for a row that is not there.
const NO_ROW: &str = "-";

/// A row as it is written.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Written<'a> {
    /// Beat, base, confirmed, roster, joined, seen.
    pub(super) numbers: [i64; 6],
    pub(super) presence: &'a str,
    pub(super) server: &'a str,
    pub(super) shown: &'a str,
}

/// Numbers in the table are far below 2^63.
fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

impl<'a> Written<'a> {
    pub(super) fn host(row: &'a HostRow) -> Self {
        let numbers = [row.beat, row.base, row.confirmed, row.roster, row.joined, row.seen_s];
        let numbers = numbers.map(number);
        Self { numbers, presence: row.presence.word(), server: "", shown: &row.shown }
    }

    pub(super) fn fleet(row: &'a FleetRow) -> Self {
        let witnessed = u64::from(row.witnessed);
        let numbers = [row.nonce, 0, row.epoch, row.roster, witnessed, row.opened_s].map(number);
        let presence = if row.open { OPEN } else { "closed" };
        Self { numbers, presence, server: &row.server, shown: &row.opener }
    }
}

/// The columns of a row, in the order in which the statements put them together.
fn columns(text: &str) -> Option<([u64; 6], [&str; 3])> {
    let mut words = text.splitn(9, '|');
    let mut word = || words.next();
    let (beat, base, confirmed, presence) = (word()?, word()?, word()?, word()?);
    let (roster, joined, seen_s, server, shown) = (word()?, word()?, word()?, word()?, word()?);
    let numbers = [beat, base, confirmed, roster, joined, seen_s].map(str::parse);
    let [Ok(beat), Ok(base), Ok(confirmed), Ok(roster), Ok(joined), Ok(seen_s)] = numbers else {
        return None;
    };
    Some(([beat, base, confirmed, roster, joined, seen_s], [presence, server, shown]))
}

pub(super) fn host_row(text: &str) -> Option<HostRow> {
    let (numbers, [presence, _, shown]) = columns(text)?;
    let [beat, base, confirmed, roster, joined, seen_s] = numbers;
    let (presence, shown) = (Presence::read(presence), shown.to_owned());
    Some(HostRow { shown, presence, beat, base, confirmed, roster, joined, seen_s })
}

pub(super) fn fleet_row(text: &str) -> Option<FleetRow> {
    let (numbers, [state, server, opener]) = columns(text)?;
    let [nonce, _, epoch, roster, witnessed, opened_s] = numbers;
    Some(FleetRow {
        epoch,
        nonce,
        open: state.trim_end() == OPEN,
        witnessed: witnessed > 0,
        server: server.to_owned(),
        roster,
        opened_s,
        opener: opener.to_owned(),
    })
}

/// What a statement has read of the table: the server, the fleet's row, and this host's.
///
/// # Errors
/// When the session does not know the server, or a row makes no sense. For users.
pub(super) fn facts_of(row: &Row) -> Result<WitnessFacts, String> {
    let text = &row.description;
    let wrong = || format!("leafd_witness makes no sense: {text:?}");
    let mut parts = text.splitn(3, ';');
    let mut part = || parts.next().ok_or_else(wrong);
    let (server, fleet, own) = (part()?, part()?, part()?);
    // Nothing may be leased by this, and no epoch opened: a session that was opened before the table was found
    // does not know it, and would open an epoch for no server in turn with those that do.
    if server.is_empty() {
        let why = "leafd does not know which start of the server this is. Does a proxy exchange connections, or \
                   the server not tell its Uptime? Connect to the server itself";
        return Err(why.to_owned());
    }
    let fleet = match fleet {
        NO_ROW => None,
        text => Some(fleet_row(text).ok_or_else(wrong)?),
    };
    let own = match own {
        NO_ROW => None,
        text => Some(host_row(text).ok_or_else(wrong)?),
    };
    Ok(WitnessFacts { fleet, own, server: server.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(text: &str) -> Row {
        Row { tag: String::new(), max_id: 1.into(), step: 1.into(), description: text.to_owned() }
    }

    #[test]
    fn facts_are_read_as_they_were_written_and_nonsense_is_refused() {
        let own = "5|4|3|here|2|1|1700000000||web-1";
        let fleet = "77|0|3|open|9|1|1700000001|db/3306/1/1700000000|web 2|x";
        let facts = facts_of(&row(&format!("server;{fleet};{own}"))).unwrap();
        let fleet = facts.fleet.unwrap();
        assert_eq!((fleet.epoch, fleet.nonce, fleet.open, fleet.witnessed), (3, 77, true, true));
        assert_eq!((&*fleet.server, &*fleet.opener), ("db/3306/1/1700000000", "web 2|x"));
        let own = facts.own.unwrap();
        assert_eq!((own.beat, own.base, own.confirmed, own.presence), (5, 4, 3, Presence::Here));
        let nobody = facts_of(&row("server;-;-")).unwrap();
        assert_eq!((nobody.fleet, nobody.own), (None, None));
        for text in [
            "",
            ";-;-",
            "server",
            "server;-",
            "server;x;-",
            "server;-;1|2|here|3",
            "s;-1|0|0|open|0|0|0||;-",
        ] {
            assert!(facts_of(&row(text)).is_err(), "{text}");
        }
    }
}
