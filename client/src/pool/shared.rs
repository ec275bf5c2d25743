//! What all handles of a pool share: the page that a fork wipes, and the way to this process's supply.

#![expect(unsafe_code, reason = "a pointer in the wiped page, and a shortcut to the page")]

use std::fmt;
use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::plan::ChunkRule;
use super::stats::PoolEvent;
use super::supply::Supply;
use super::tickets::Tickets;
use crate::blocking::Descriptor;
use crate::fork::{Wipeable, WipedPage};
use crate::options::Options;

/// Everything that the child of a fork must not have.
#[derive(Debug)]
#[repr(C)]
pub(super) struct PoolPage {
    pub(super) tickets: Tickets,
    /// Made at first use. Null in a child until its own first use.
    supply: AtomicPtr<Supply>,
}

// SAFETY: all fields are atomic. All zero is an empty pool without a supply.
unsafe impl Wipeable for PoolPage {}

/// Which IDs a pool gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    Tag(Box<str>),
    Snowflake,
}

/// Receives what happens in the background.
pub(super) type Listener = Arc<dyn Fn(&PoolEvent) + Send + Sync>;

/// The settings of a pool.
#[derive(Clone)]
pub(super) struct Settings {
    pub(super) source: Source,
    pub(super) options: Options,
    pub(super) rule: ChunkRule,
    /// How old an ID may be; `None`: any age.
    pub(super) max_age: Option<Duration>,
    pub(super) listener: Option<Listener>,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("source", &self.source)
            .field("options", &self.options)
            .field("rule", &self.rule)
            .field("max_age", &self.max_age)
            .finish_non_exhaustive()
    }
}

/// Shared by all handles and by the refill thread.
#[derive(Debug)]
pub(super) struct Shared {
    page: WipedPage<PoolPage>,
    pub(super) settings: Settings,
    /// Set when the last handle is gone.
    pub(super) closed: AtomicBool,
    /// The connection of this process's refill thread, so that a child can close its copy.
    pub(super) descriptor: Arc<Descriptor>,
}

impl Shared {
    pub(super) fn new(settings: Settings) -> io::Result<Self> {
        let (closed, descriptor) = (AtomicBool::new(false), Arc::default());
        Ok(Self { page: WipedPage::new()?, settings, closed, descriptor })
    }

    /// The boot time before which an ID is too old, in nanoseconds.
    pub(super) fn oldest(&self) -> u64 {
        let age = |age: Duration| u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
        self.settings.max_age.map_or(0, |max_age| boot_ns().saturating_sub(age(max_age)))
    }

    pub(super) fn page(&self) -> &PoolPage {
        self.page.get()
    }

    /// This process's supply, if it has one.
    pub(super) fn known_supply(&self) -> Option<&Supply> {
        // SAFETY: the pointer is null, or one that `supply` has put there in this process. It is freed
        // only when `self` is dropped.
        unsafe { self.page().supply.load(Ordering::Acquire).as_ref() }
    }

    /// This process's supply. Takes no lock.
    pub(super) fn supply(&self) -> &Supply {
        if let Some(supply) = self.known_supply() {
            return supply;
        }
        // In a child: the parent's connection stays the parent's. It is only closed here, never shut
        // down. If this is the pool's first process, there is none.
        self.descriptor.close_inherited();
        let fresh = Box::into_raw(Box::<Supply>::default());
        let place = &self.page().supply;
        match place.compare_exchange(null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: it was just made, and is freed only when `self` is dropped.
            Ok(_) => unsafe { &*fresh },
            Err(theirs) => {
                // SAFETY: nobody else has seen it.
                drop(unsafe { Box::from_raw(fresh) });
                // SAFETY: another thread of this process has put it there, as above.
                unsafe { &*theirs }
            }
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let supply = self.page().supply.load(Ordering::Acquire);
        if !supply.is_null() {
            // SAFETY: it came from a box, and nobody uses it without `self`.
            drop(unsafe { Box::from_raw(supply) });
        }
    }
}

/// A way to the page without two hops on every call.
#[derive(Debug, Clone)]
pub(super) struct PageRef {
    shared: Arc<Shared>,
    page: NonNull<PoolPage>,
}

// SAFETY: it is what `Arc<Shared>` is, and the pointer leads into what that owns.
unsafe impl Send for PageRef {}
// SAFETY: as above.
unsafe impl Sync for PageRef {}

impl PageRef {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let page = NonNull::from(shared.page());
        Self { shared, page }
    }

    #[inline(always)]
    pub(super) fn tickets(&self) -> &Tickets {
        // SAFETY: the page lives as long as `shared`, and does not move.
        unsafe { &self.page.as_ref().tickets }
    }

    pub(super) const fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

/// Nanoseconds since the machine started, suspended or not.
pub(super) fn boot_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(now.tv_nsec).unwrap_or(0))
}
