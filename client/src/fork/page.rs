//! Anonymous memory that the kernel clears in the child of a `fork` (`MADV_WIPEONFORK`, Linux 4.14).

#![expect(unsafe_code, reason = "mapping memory, and using it as a value")]

use std::ffi::c_void;
use std::io;
#[cfg(feature = "blocking")]
use std::marker::PhantomData;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

#[cfg(not(miri))]
use rustix::mm::{Advice, madvise};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Mapped memory. It is all zero, and all zero again in each child.
#[derive(Debug)]
struct Page {
    start: NonNull<c_void>,
    len: usize,
}

impl Page {
    /// Maps at least `len` bytes.
    fn map(len: usize) -> io::Result<Self> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: the kernel chooses an address that is not in use.
        let start = unsafe { mmap_anonymous(null_mut(), len, access, flags) }?;
        let start = NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?;
        let page = Self { start, len };
        // Miri knows neither this nor forks.
        #[cfg(not(miri))]
        // SAFETY: the memory was just mapped, and nothing else knows it.
        unsafe { madvise(start.as_ptr(), len, Advice::LinuxWipeOnFork) }?;
        Ok(page)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: whoever owns the page has ended every use of it.
        let unmapped = unsafe { munmap(self.start.as_ptr(), self.len) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

// SAFETY: it is memory, owned by one value, that any thread may use.
unsafe impl Send for Page {}
// SAFETY: a shared `Page` only tells where it is.
unsafe impl Sync for Page {}

/// A number in a wiped page that is mapped at its first use and never unmapped.
#[derive(Debug)]
pub(super) struct WipedNumber(AtomicPtr<AtomicU64>);

impl WipedNumber {
    pub(super) const fn new() -> Self {
        Self(AtomicPtr::new(null_mut()))
    }

    /// The number, if its page is mapped.
    #[inline]
    pub(super) fn get(&self) -> Option<&'static AtomicU64> {
        // SAFETY: the pointer is null, or it points to the start of a page that is never unmapped. All
        // zero is a valid number.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    /// The number; `None` if the kernel cannot wipe a page. Takes no lock.
    pub(super) fn get_or_map(&self) -> Option<&'static AtomicU64> {
        if self.get().is_none() {
            let page = Page::map(size_of::<AtomicU64>()).ok()?;
            let (none, fresh) = (null_mut(), page.start.cast().as_ptr());
            // If another thread was faster, this page is unmapped again.
            if self.0.compare_exchange(none, fresh, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                std::mem::forget(page);
            }
        }
        self.get()
    }
}

/// A type that may lie in a wiped page.
///
/// # Safety
/// All bytes zero is a valid value, every field is atomic, it needs no drop, and its alignment is at
/// most that of a page.
#[cfg(feature = "blocking")]
pub(crate) unsafe trait Wipeable: Sync {}

/// A value that is all zero at first, and all zero again in each child.
#[cfg(feature = "blocking")]
#[derive(Debug)]
pub(crate) struct WipedPage<T> {
    page: Page,
    holds: PhantomData<T>,
}

#[cfg(feature = "blocking")]
impl<T: Wipeable> WipedPage<T> {
    /// Maps the memory.
    ///
    /// # Errors
    /// If there is no memory, or if the kernel cannot wipe it (`EINVAL`, before Linux 4.14).
    pub(crate) fn new() -> io::Result<Self> {
        const { assert!(align_of::<T>() <= 4096 && !std::mem::needs_drop::<T>()) };
        Ok(Self { page: Page::map(size_of::<T>())?, holds: PhantomData })
    }

    /// The value.
    #[inline(always)]
    pub(crate) fn get(&self) -> &T {
        // SAFETY: the memory is large and aligned enough, lives as long as `self`, and all zero, which
        // it is at first and in a child, is a valid `T`.
        unsafe { self.page.start.cast::<T>().as_ref() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_need_a_number_at_once_share_one_and_unmap_the_other_pages() {
        static NUMBER: WipedNumber = WipedNumber::new();
        assert!(NUMBER.get().is_none());
        let add = || NUMBER.get_or_map().unwrap().fetch_add(1, Ordering::Relaxed);
        let mut seen = std::thread::scope(|scope| {
            [(); 3].map(|()| scope.spawn(add)).map(|thread| thread.join().unwrap())
        });
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 2]);
    }

    #[cfg(feature = "blocking")]
    #[test]
    fn a_page_holds_its_value_at_one_place_wherever_it_is_moved() {
        #[derive(Debug)]
        #[repr(C)]
        struct Two(AtomicU64, AtomicU64);
        // SAFETY: both fields are atomic, and zero is valid.
        unsafe impl Wipeable for Two {}

        let page = WipedPage::<Two>::new().unwrap();
        let before: *const Two = page.get();
        page.get().1.store(7, Ordering::Relaxed);
        let moved = Box::new(page);
        assert!(std::ptr::eq(before, moved.get()));
        assert_eq!(moved.get().0.load(Ordering::Relaxed), 0);
        assert_eq!(moved.get().1.load(Ordering::Relaxed), 7);
    }
}
