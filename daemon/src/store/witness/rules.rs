//! The rules: when a host may lease, and what a visit to the table changes in it. No IO; time comes in as an
//! argument. A visit runs alone: the shell holds the lock of the fleet's row for as long as it takes.

use std::collections::BTreeSet;
use std::time::Duration;

use super::memory::{Kept, WitnessMemory};
use super::mutated;
use super::table::{FORGET_S, FleetRow, HostName, HostRow, Presence, WitnessTable};

/// A host whose row another one has seen unchanged for this long is written off: no epoch waits for it, and it
/// joins again before it leases.
pub(crate) const AWAY: Duration = Duration::from_secs(300);

/// How often a host writes its row. A database that goes back further than that, without another start of its
/// server, shows every host a row that is older than it left it.
pub(crate) const BEAT: Duration = Duration::from_secs(60);

/// An epoch that no host has witnessed stays open until a host has seen it open for this long, so that one that is
/// alive can come.
pub(crate) const SETTLE: Duration = Duration::from_secs(10);

/// The same for an epoch that only hosts have confirmed that do not know who came after them: a host that is alive
/// writes twice in this time.
pub(crate) const LONG_SETTLE: Duration = Duration::from_secs(2 * BEAT.as_secs());

/// What a host does about those that do not confirm an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MissingHosts {
    /// It waits until they do, or until an operator says what is lost.
    Wait,
    /// After some time, it moves every row forward, and goes on without them.
    Skip {
        /// How long it has to see an epoch open first.
        after: Duration,
        /// By how many IDs.
        margin: u64,
    },
}

/// What shows that the database is not as it was left.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LossSign {
    /// It runs on another server, or in another start of it.
    #[error(
        "the database runs in another start of its server, or on another one ({is}, it was {was})"
    )]
    Server {
        /// For which the last epoch was opened.
        was: String,
        /// That serves now.
        is: String,
    },
    /// It does not know the last epoch.
    #[error("the table leafd_witness is at epoch {is}, but this host has seen epoch {was}")]
    Epoch {
        /// What this host has seen.
        was: u64,
        /// What the table says.
        is: u64,
    },
    /// The row of another host is older than this one has seen it.
    #[error("the row of {shown} in leafd_witness is older than this host has seen it, or gone")]
    Other {
        /// What people call the host.
        shown: String,
    },
    /// The row of this host is older than it left it.
    #[error("this host's row in leafd_witness is older than it left it (write {is} of {was})")]
    Witness {
        /// What this host wrote last.
        was: u64,
        /// What the row says; 0 without a row.
        is: u64,
    },
}

/// Why nothing may be leased now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Hold {
    /// The database may have lost leases, and no epoch is open for that yet.
    #[error("it may have lost the latest leases: {0}")]
    Lost(LossSign),
    /// An epoch is open.
    #[error(
        "it may have lost the latest leases, and epoch {epoch} is open until every host has moved its tags above what it knows"
    )]
    Open {
        /// Which one.
        epoch: u64,
    },
    /// This host is not among those that an epoch waits for.
    #[error("this host has yet to join the others in the table leafd_witness")]
    NotJoined,
    /// This host has not confirmed the epoch.
    #[error("this host has yet to confirm epoch {epoch} of the table leafd_witness")]
    Unconfirmed {
        /// Which one.
        epoch: u64,
    },
}

/// What a transaction sees of the table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen<'a> {
    pub(crate) fleet: Option<&'a FleetRow>,
    pub(crate) own: Option<&'a HostRow>,
    /// The start of the server that executes the transaction.
    pub(crate) server: &'a str,
}

/// What a host knows that a lease is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeaseBasis {
    epoch: u64,
    nonce: u64,
    own_beat: u64,
    kept: Kept,
    known_as: Option<u64>,
}

impl LeaseBasis {
    pub(crate) fn of(memory: &WitnessMemory) -> Self {
        Self {
            epoch: memory.epoch,
            nonce: memory.nonce,
            own_beat: memory.own_beat(),
            kept: memory.kept,
            known_as: memory.known_as,
        }
    }
}

/// What shows that the database has lost something, if it does.
pub(crate) fn loss_sign(basis: &LeaseBasis, seen: &Seen<'_>) -> Option<LossSign> {
    let (epoch, server) = seen.fleet.map_or((0, ""), |fleet| (fleet.epoch, &*fleet.server));
    if epoch > 0 && server != seen.server && !mutated!(IgnoreServer) {
        return Some(LossSign::Server { was: server.to_owned(), is: seen.server.to_owned() });
    }
    let nonce = seen.fleet.map_or(0, |fleet| fleet.nonce);
    let is_other = epoch == basis.epoch && basis.epoch > 0 && nonce != basis.nonce;
    if (epoch < basis.epoch || is_other) && !mutated!(IgnoreWitness) {
        return Some(LossSign::Epoch { was: basis.epoch, is: epoch });
    }
    let (was, is) = (basis.own_beat, seen.own.map_or(0, |own| own.beat));
    (is < was && !mutated!(IgnoreWitness)).then_some(LossSign::Witness { was, is })
}

/// Whether this host may lease in a transaction that sees this.
///
/// # Errors
/// Why it may not.
pub(crate) fn may_lease(basis: &LeaseBasis, seen: &Seen<'_>) -> Result<(), Hold> {
    if let Some(sign) = loss_sign(basis, seen) {
        return Err(Hold::Lost(sign));
    }
    let Some(fleet) = seen.fleet else { return Err(Hold::NotJoined) };
    let epoch = fleet.epoch;
    if fleet.open && !mutated!(LeaseWhileOpen) {
        return Err(Hold::Open { epoch });
    }
    let own = seen.own.filter(|own| own.presence == Presence::Here);
    let own = own.ok_or(Hold::NotJoined)?;
    if basis.known_as != Some(own.joined) && !mutated!(LeaseBeforeAllKnow) {
        return Err(Hold::NotJoined);
    }
    // A crash must not forget what the lease rests on.
    if basis.kept.roster_of(epoch, fleet.nonce) < own.joined {
        return Err(Hold::NotJoined);
    }
    if own.confirmed < epoch {
        return Err(Hold::Unconfirmed { epoch });
    }
    Ok(())
}

/// The epoch for which this host has moved the rows of its tags above what it knows. A database that goes back
/// uses a number again, but not a nonce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Raised {
    pub(crate) epoch: u64,
    pub(crate) nonce: u64,
}

/// What a visit needs to know besides the table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Visit<'a> {
    /// What people call this host.
    pub(crate) shown: &'a str,
    /// The start of the server.
    pub(crate) server: &'a str,
    /// A random number, for an epoch that this visit opens.
    pub(crate) nonce: u64,
    /// The database's clock, in seconds since 1970.
    pub(crate) now_s: u64,
    pub(crate) raised: Option<Raised>,
    pub(crate) missing: MissingHosts,
    /// How long ago this process visited last. After [`AWAY`], others may have written this host off, and may
    /// have gone on without it knowing them.
    pub(crate) last_visit: Option<Duration>,
    /// For how long this process has seen the epoch of the table open.
    pub(crate) open_for: Duration,
    /// Hosts that this one has seen silent for [`AWAY`].
    pub(crate) silent: &'a BTreeSet<HostName>,
    /// Whether this host stops: it leases nothing from now on.
    pub(crate) leaves: bool,
}

/// What a visit makes of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Visited {
    /// The table as it is to be.
    pub(crate) table: WitnessTable,
    /// Set if every row of a tag has to move forward by this in the same transaction.
    pub(crate) skip: Option<u64>,
    /// Set if the visit opened an epoch.
    pub(crate) opened: Option<LossSign>,
    /// Whether the visit closed an epoch.
    pub(crate) closed: bool,
    /// The hosts that left so long ago that their rows may be deleted.
    pub(crate) forgotten: Vec<HostName>,
}

/// What a visit of this host changes.
pub(crate) fn visit(memory: &WitnessMemory, table: &WitnessTable, visit: &Visit<'_>) -> Visited {
    let me = memory.me;
    let sign = sign_in(memory, table, visit.server);
    let mut after = table.clone();
    let mut fleet = after.fleet.take().unwrap_or_default();
    let was_closed = table.fleet.as_ref().is_some_and(|fleet| !fleet.open);
    let mut open_for = visit.open_for;

    // Of an epoch that this host has seen already, it may have raised its rows before the loss.
    let is_open_for_it = fleet.open && fleet.server == visit.server && fleet.epoch > memory.epoch;
    let opens = (sign.is_some() || table.fleet.is_none()) && !is_open_for_it;
    if opens {
        fleet.epoch = fleet.epoch.max(memory.epoch).saturating_add(1);
        fleet.open = true;
        fleet.witnessed = false;
        fleet.nonce = visit.nonce;
        visit.server.clone_into(&mut fleet.server);
        visit.shown.clone_into(&mut fleet.opener);
        fleet.opened_s = visit.now_s;
        after.hosts.values_mut().for_each(|row| row.base = row.beat);
        open_for = Duration::ZERO;
    }
    fleet.roster = fleet.roster.max(memory.roster);
    // Only the first visit in this epoch shows how this host came to it.
    let in_contact = visit.last_visit.is_some_and(|ago| ago < AWAY);
    let knows_all = memory.was_here() && in_contact && memory.epoch < fleet.epoch;
    fleet.witnessed |= knows_all || mutated!(CloseUnwitnessed);
    // In its first visit of an epoch, a host knows the rows of others as they were before.
    let is_first = (fleet.epoch, fleet.nonce) != (memory.epoch, memory.nonce);
    if fleet.open && is_first && !mutated!(ForgetRoster) {
        remind(memory, visit.now_s, &mut fleet, &mut after);
    }
    write_own(memory, visit, table, &mut fleet, &mut after);
    let closing = closing(me, &fleet, &after, open_for, visit.missing);
    after.fleet = Some(fleet);
    let skip = match closing {
        Closing::Stays => None,
        Closing::Unanimous => {
            close(&mut after);
            None
        }
        Closing::Skip(margin) => {
            go_on_without_missing(&mut after);
            Some(margin)
        }
    };
    // Of a host that is about to join or to leave, nobody may know yet whom it has written off.
    let may_judge = after
        .hosts
        .get(&me)
        .is_some_and(|own| own.presence == Presence::Here && memory.known_as == Some(own.joined));
    let forgotten = if was_closed && !opens && may_judge {
        write_off(me, &mut after, visit)
    } else {
        Vec::new()
    };
    let closed = !matches!(closing, Closing::Stays);
    Visited { table: after, skip, opened: sign.filter(|_| opens), closed, forgotten }
}

/// What shows a visitor that the database has lost something: as for a lease, and the rows of others.
fn sign_in(memory: &WitnessMemory, table: &WitnessTable, server: &str) -> Option<LossSign> {
    let (fleet, own) = (table.fleet.as_ref(), table.hosts.get(&memory.me));
    let sign = loss_sign(&LeaseBasis::of(memory), &Seen { fleet, own, server });
    // Whoever opened a later epoch has seen that they were older.
    let is_later = fleet.is_some_and(|fleet| fleet.epoch > memory.epoch);
    if sign.is_some() || is_later || mutated!(IgnoreWitness) {
        return sign;
    }
    let older = memory.hosts.iter().find(|(name, known)| match table.hosts.get(name) {
        Some(row) => row.beat < known.beat,
        // The rows of those that have left are deleted after a while.
        None => known.presence == Presence::Here,
    });
    older.map(|(_, known)| LossSign::Other { shown: known.shown.clone() })
}

/// The visitor's own row.
fn write_own(
    memory: &WitnessMemory,
    visit: &Visit<'_>,
    table: &WitnessTable,
    fleet: &mut FleetRow,
    after: &mut WitnessTable,
) {
    let me = memory.me;
    let is_raised = visit
        .raised
        .is_some_and(|raised| raised.epoch == fleet.epoch && raised.nonce == fleet.nonce)
        || mutated!(ConfirmUnraised);
    let came_back = table.hosts.get(&me).is_none_or(|own| own.beat < memory.own_beat());
    let presence = after.hosts.get(&me).map_or(Presence::Away, |own| own.presence);
    let awaited = presence.is_awaited();
    if !awaited && (fleet.open || visit.leaves) {
        return;
    }
    let mut own = after.hosts.remove(&me).unwrap_or_else(HostRow::new);
    if !awaited || came_back {
        fleet.roster = fleet.roster.saturating_add(1);
        own.joined = fleet.roster;
    }
    own.beat = own.beat.max(memory.own_beat()).saturating_add(1);
    own.roster = memory.kept_roster(fleet.epoch, fleet.nonce);
    if !awaited {
        own.presence = Presence::Here;
    }
    visit.shown.clone_into(&mut own.shown);
    own.seen_s = visit.now_s;
    if is_raised {
        own.confirmed = own.confirmed.max(fleet.epoch);
    }
    if visit.leaves && !fleet.open {
        own.presence = Presence::Left;
    }
    after.hosts.insert(me, own);
}

/// What becomes of an epoch.
enum Closing {
    Stays,
    Unanimous,
    Skip(u64),
}

fn closing(
    me: HostName,
    fleet: &FleetRow,
    after: &WitnessTable,
    open_for: Duration,
    policy: MissingHosts,
) -> Closing {
    if !fleet.open {
        return Closing::Stays;
    }
    let awaited = || after.hosts.values().filter(|row| row.presence.is_awaited());
    let own = after.hosts.get(&me);
    let confirmed =
        own.is_some_and(|own| own.presence.is_awaited() && own.confirmed == fleet.epoch);
    let settled = fleet.witnessed || open_for >= SETTLE;
    let lapsed = awaited().any(|row| row.presence == Presence::Lapsed);
    let vouched =
        !lapsed || awaited().any(|row| row.presence == Presence::Here) || open_for >= LONG_SETTLE;
    let all = awaited().all(|row| row.confirmed == fleet.epoch);
    if (settled && all && vouched) || (confirmed && mutated!(CloseWithoutAll)) {
        return Closing::Unanimous;
    }
    match policy {
        MissingHosts::Skip { after, margin } if confirmed && open_for >= after.max(SETTLE) => {
            Closing::Skip(margin)
        }
        _ => Closing::Stays,
    }
}

/// Restores the hosts of which this one remembers a later write than the table has. Their leases may be lost as
/// well, so the epoch waits for each. Those that had left by then do not know who came after them.
fn remind(memory: &WitnessMemory, now_s: u64, fleet: &mut FleetRow, table: &mut WitnessTable) {
    for (name, known) in &memory.known() {
        let row = table.hosts.get(name);
        let is_later = row.is_none_or(|row| {
            let only_written_off = row.base == known.beat && known.presence == Presence::Away;
            row.base < known.beat || (only_written_off && row.presence == Presence::Here)
        });
        if !is_later {
            continue;
        }
        let mut restored = row.cloned().unwrap_or_else(HostRow::new);
        known.shown.clone_into(&mut restored.shown);
        restored.presence = match known.presence {
            Presence::Here => Presence::Here,
            _ => Presence::Lapsed,
        };
        restored.beat = restored.beat.max(known.beat);
        restored.base = known.beat;
        restored.seen_s = restored.seen_s.max(now_s);
        fleet.roster = fleet.roster.saturating_add(1);
        restored.joined = fleet.roster;
        table.hosts.insert(*name, restored);
    }
}

/// Closes the epoch. Whoever had left by the loss has left again.
fn close(table: &mut WitnessTable) {
    let lapsed = table.hosts.values_mut().filter(|row| row.presence == Presence::Lapsed);
    lapsed.for_each(|row| row.presence = Presence::Left);
    if let Some(fleet) = &mut table.fleet {
        fleet.open = false;
    }
}

/// Closes the epoch without those that have not confirmed it. The rows and tombstones of all tags have to move
/// forward far enough in the same transaction.
pub(crate) fn go_on_without_missing(table: &mut WitnessTable) {
    let missing: Vec<_> = table.missing().map(|(name, _)| *name).collect();
    for name in missing {
        if let Some(row) = table.hosts.get_mut(&name) {
            row.presence = Presence::Away;
        }
    }
    close(table);
}

/// Writes off those that are silent, and returns those that left long ago.
fn write_off(me: HostName, table: &mut WitnessTable, visit: &Visit<'_>) -> Vec<HostName> {
    let is_old = |row: &HostRow| {
        !row.presence.is_awaited() && visit.now_s.saturating_sub(row.seen_s) > FORGET_S
    };
    let old = table.hosts.iter().filter(|(name, row)| **name != me && is_old(row));
    let forgotten = old.map(|(name, _)| *name).collect();
    let others = table.hosts.iter_mut().filter(|(name, _)| **name != me);
    for (name, row) in others {
        if row.presence == Presence::Here && visit.silent.contains(name) {
            row.presence = Presence::Away;
        }
    }
    forgotten
}

/// Whether every host that an epoch would wait for knows this one from its own disk, this one included.
pub(crate) fn all_know(memory: &WitnessMemory, table: &WitnessTable) -> bool {
    let Some(own) = table.hosts.get(&memory.me) else { return false };
    let mut here = table.hosts.values().filter(|row| row.presence == Presence::Here);
    own.presence == Presence::Here && here.all(|row| row.roster >= own.joined)
}
