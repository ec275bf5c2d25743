//! What the table `leafd_witness` holds: a row for the fleet's epoch, and one for each host.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::environment::Environment;

/// The row of a host that has left, or was written off, is deleted after this, in seconds by the database's
/// clock. A loss that reaches back further may bring such a host back, and then waits for it in vain.
pub(crate) const FORGET_S: u64 = 7 * 24 * 3600;

/// Names a host in the table: 128 random bits of its state directory. A directory that is restored or copied,
/// or that lost its journal, gets a new one, since it no longer knows all that it leased under the old one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct HostName(u128);

impl HostName {
    /// The place of the fleet's row, which no host has.
    pub(crate) const FLEET: Self = Self(0);

    /// A new name.
    ///
    /// # Errors
    /// When the system has no random bytes.
    pub(crate) fn random(environment: &Environment) -> std::io::Result<Self> {
        let mut bytes = [0; 16];
        environment.fill_random(&mut bytes)?;
        Ok(Self(u128::from_be_bytes(bytes).max(1)))
    }

    #[cfg(test)]
    pub(crate) const fn of_number(number: u128) -> Self {
        Self(number)
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Reads a host's name, or that of the fleet's row.
impl FromStr for HostName {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = digits.then(|| u128::from_str_radix(text, 16).ok()).flatten();
        number.map(Self).ok_or(())
    }
}

/// Whether a host may lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    /// It may, so every epoch waits for it.
    Here,
    /// It said goodbye after its last lease, and has to join again before the next one.
    Left,
    /// It was silent for so long that others wrote it off. It has to join again before it leases.
    Away,
    /// It is in the table only because a loss took its leaving back. An epoch waits for it too, but it does not
    /// know who came after it.
    Lapsed,
}

impl Presence {
    /// The word in the table and in the file.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Here => "here",
            Self::Left => "left",
            Self::Away => "away",
            Self::Lapsed => "lapsed",
        }
    }

    /// The presence with this word. One of a later version is a reason to wait for the host.
    pub(crate) fn read(word: &str) -> Self {
        match word.trim_end() {
            "left" => Self::Left,
            "away" => Self::Away,
            "lapsed" => Self::Lapsed,
            _ => Self::Here,
        }
    }

    /// Whether an epoch waits for the host.
    pub(crate) const fn is_awaited(self) -> bool {
        matches!(self, Self::Here | Self::Lapsed)
    }
}

/// The row of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostRow {
    /// What people call the host.
    pub(crate) shown: String,
    pub(crate) presence: Presence,
    /// Rises with every change that the host itself makes.
    pub(crate) beat: u64,
    /// The beat with which the row came into the epoch.
    pub(crate) base: u64,
    /// The last epoch for which this host has moved the rows of all its tags above what it knows.
    pub(crate) confirmed: u64,
    /// The roster that this host has on its own disk.
    pub(crate) roster: u64,
    /// The roster with which this host came.
    pub(crate) joined: u64,
    /// When the row was last written, in seconds since 1970 by the database's clock.
    pub(crate) seen_s: u64,
}

impl HostRow {
    /// The row of a host that was never here.
    pub(crate) const fn new() -> Self {
        Self {
            shown: String::new(),
            presence: Presence::Away,
            beat: 0,
            base: 0,
            confirmed: 0,
            roster: 0,
            joined: 0,
            seen_s: 0,
        }
    }
}

/// The fleet's row.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FleetRow {
    pub(crate) epoch: u64,
    /// Tells the epoch from others of this number, which a loss has taken back.
    pub(crate) nonce: u64,
    /// Whether some host has not confirmed the epoch yet. Nobody leases meanwhile.
    pub(crate) open: bool,
    /// Whether a host has visited since that was [`Presence::Here`] until then, and in contact. It knows every
    /// host that has ever leased.
    pub(crate) witnessed: bool,
    /// The start of the server for which the epoch was opened.
    pub(crate) server: String,
    /// Rises whenever a host comes.
    pub(crate) roster: u64,
    /// When the epoch was opened, in seconds since 1970 by the database's clock.
    pub(crate) opened_s: u64,
    /// Who opened it.
    pub(crate) opener: String,
}

/// All rows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct WitnessTable {
    /// `None`: no host has been here yet.
    pub(crate) fleet: Option<FleetRow>,
    pub(crate) hosts: BTreeMap<HostName, HostRow>,
}

impl WitnessTable {
    /// The hosts that an epoch waits for and that have not confirmed it.
    pub(crate) fn missing(&self) -> impl Iterator<Item = (&HostName, &HostRow)> {
        let epoch = self.fleet.as_ref().map_or(0, |fleet| fleet.epoch);
        self.hosts.iter().filter(move |(_, row)| row.presence.is_awaited() && row.confirmed < epoch)
    }
}
