//! A finding: what a check saw, how bad it is, what to do, and where the manual says more.

use serde::Serialize;

/// How bad a finding is. The order is that of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Something does not work, or IDs can come twice.
    Bad,
    /// It works, and a foreseeable event would end that.
    Warn,
    /// Worth knowing; nothing has to be done.
    Note,
    /// The check could not look.
    Unknown,
    /// All is well.
    Ok,
}

impl Level {
    /// Every level, in the order of the report.
    pub const ALL: [Self; 5] = [Self::Bad, Self::Warn, Self::Note, Self::Unknown, Self::Ok];

    /// The word in the report.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Bad => "BAD",
            Self::Warn => "WARN",
            Self::Note => "NOTE",
            Self::Unknown => "?",
            Self::Ok => "ok",
        }
    }
}

macro_rules! checks {
    ($($(#[$meta:meta])* $variant:ident $name:literal $page:literal,)+) => {
        /// What is checked. Each check has a name, an entry in `docs/operations/doctor.md`, and a
        /// place in the manual that says more.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Check {
            $($(#[$meta])* $variant,)+
        }

        impl Check {
            /// Every check, in the order of the report.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The name in the report.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// The page of the manual, and its heading.
            #[must_use]
            pub const fn page(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!("docs/", $page),)+
                }
            }
        }
    };
}

checks! {
    /// Whether leafd would start with the configuration.
    Configuration "configuration" "operations/configure.md",
    /// Whether leafd runs and answers.
    Daemon "daemon" "operations/README.md#at-three-in-the-morning",
    /// Whether leafctl and leafd are of one version.
    Version "version" "operations/upgrade.md#upgrade-and-downgrade",
    /// Whether the running leafd has the settings of this configuration.
    Settings "settings" "operations/configure.md#reload",
    /// Whether clients find the socket, and who may connect.
    Socket "socket" "operations/access.md",
    /// Whether leafd may open enough files for its connections.
    OpenFiles "open-files" "operations/install-systemd.md#drop-ins",
    /// Whether the kernel synchronises the clock.
    Clock "clock" "operations/worker-ids.md#clocks",
    /// Whether leafd can issue snowflake IDs now.
    Snowflake "snowflake" "operations/runbook.md#no-snowflake-ids",
    /// When the layout's time field ends.
    Layout "layout" "operations/worker-ids.md#change-layout-tree-or-registry",
    /// Whether several hosts may have the default worker ID.
    WorkerId "worker-id" "operations/worker-ids.md#number-the-hosts-yourself",
    /// Whether the registry of worker IDs answers, and has some left.
    Registry "registry" "operations/worker-ids.md#an-outage-of-the-registry",
    /// Whether a Java Leaf writes the tree, and leafd knows.
    JavaLeaf "java-leaf" "migrating-from-leaf.md#snowflake-ids",
    /// Whether the state directory outlives a reboot.
    StateLasts "state-lasts" "operations/state.md",
    /// Whether the state directory can go back in time.
    Snapshots "snapshots" "operations/state.md#restored-or-copied-state",
    /// Whether leafd can write to its state directory.
    StateFiles "state-files" "operations/state.md",
    /// Whether the disk has room.
    Disk "disk" "operations/capacity.md#memory-processor-disk",
    /// Whether the store answers and takes leases.
    Store "store" "operations/outages.md#an-outage",
    /// Whether the database's user has the rights that leafd needs.
    Rights "store-rights" "operations/databases.md",
    /// Whether leafd's own tables are there.
    Tables "store-tables" "operations/databases.md#delete-a-tag",
    /// Whether the columns can hold what leafd writes.
    Columns "store-columns" "operations/capacity.md#segment-ids",
    /// Whether a crash of the database server loses leases.
    Durability "store-durability" "operations/databases.md",
    /// Whether a failover of the database loses leases.
    Replication "store-replication" "operations/outages.md#failover",
    /// Whether memory outlasts an outage of the store.
    Steps "steps" "operations/capacity.md#which-step",
}

impl Serialize for Check {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// What one check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The check.
    pub check: Check,
    /// How bad it is.
    pub level: Level,
    /// One line.
    pub title: String,
    /// What was seen, and what it means; may be empty.
    pub detail: String,
    /// What to do; empty if there is nothing to do.
    pub remedy: String,
}

impl Finding {
    pub(super) fn new(check: Check, level: Level, title: impl Into<String>) -> Self {
        let (detail, remedy) = (String::new(), String::new());
        Self { check, level, title: title.into(), detail, remedy }
    }

    pub(super) fn bad(check: Check, title: impl Into<String>) -> Self {
        Self::new(check, Level::Bad, title)
    }

    pub(super) fn warn(check: Check, title: impl Into<String>) -> Self {
        Self::new(check, Level::Warn, title)
    }

    pub(super) fn note(check: Check, title: impl Into<String>) -> Self {
        Self::new(check, Level::Note, title)
    }

    pub(super) fn unknown(check: Check, title: impl Into<String>) -> Self {
        Self::new(check, Level::Unknown, title)
    }

    pub(super) fn ok(check: Check, title: impl Into<String>) -> Self {
        Self::new(check, Level::Ok, title)
    }

    pub(super) fn because(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }

    pub(super) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = remedy.into();
        self
    }
}
