//! Starting a thread in a child that was forked at any moment. `std::thread` cannot: it takes a lock of
//! the standard library while a thread starts or ends, and a child may have inherited that lock held.

#![expect(unsafe_code, reason = "pthread_create")]

use std::ffi::{CStr, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;

/// What `std::thread` gives a thread by default.
const STACK_BYTES: usize = 2 * 1024 * 1024;

type Work = Box<dyn FnOnce() + Send>;

/// Starts a thread that nobody joins. The kernel knows it as `name`, of at most 15 bytes.
///
/// # Errors
/// If the system has no room for another thread.
pub(crate) fn start_thread(
    name: &'static CStr,
    work: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    let work: Work = Box::new(move || {
        // Only debuggers read it.
        let _ = rustix::thread::set_name(name);
        work();
    });
    let argument = Box::into_raw(Box::new(work));
    // SAFETY: `run` takes what `argument` points to, once.
    let started = unsafe { create(argument.cast()) };
    if started.is_err() {
        // SAFETY: no thread has it.
        drop(unsafe { Box::from_raw(argument) });
    }
    started
}

/// # Safety
/// `argument` is what [`run`] expects. If this fails, it still belongs to the caller.
unsafe fn create(argument: *mut c_void) -> io::Result<()> {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let attributes = attributes.as_mut_ptr();
    // SAFETY: the attributes are initialised by the first call, and destroyed after the last use.
    unsafe {
        check(libc::pthread_attr_init(attributes))?;
        let mut thread = MaybeUninit::<libc::pthread_t>::uninit();
        let started = check(libc::pthread_attr_setstacksize(attributes, STACK_BYTES))
            .and_then(|()| {
                let detached = libc::PTHREAD_CREATE_DETACHED;
                check(libc::pthread_attr_setdetachstate(attributes, detached))
            })
            .and_then(|()| {
                check(libc::pthread_create(thread.as_mut_ptr(), attributes, run, argument))
            });
        let _ = libc::pthread_attr_destroy(attributes);
        started
    }
}

/// These functions return the number of an error instead of setting `errno`.
fn check(result: i32) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(result)) }
}

extern "C" fn run(argument: *mut c_void) -> *mut c_void {
    // SAFETY: `start_thread` made it for this call.
    let work = unsafe { Box::from_raw(argument.cast::<Work>()) };
    // A panic ends this thread and not the process, as in a thread of the standard library.
    let _ = catch_unwind(AssertUnwindSafe(work));
    null_mut()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;
    use std::time::Duration;

    use super::*;
    use crate::testing_fork::in_child;

    #[test]
    fn a_thread_runs_with_its_name_and_its_panic_ends_it_alone() {
        let (sender, receiver) = sync_channel(1);
        start_thread(c"leaf-test", move || {
            sender.send(std::fs::read_to_string("/proc/thread-self/comm").unwrap()).unwrap();
            panic!("expected: a panic of a thread");
        })
        .unwrap();
        assert_eq!(receiver.recv_timeout(Duration::from_secs(60)).unwrap(), "leaf-test\n");
        // Its end of the channel is dropped.
        assert!(receiver.recv_timeout(Duration::from_secs(60)).is_err());
    }

    #[test]
    fn a_thread_starts_in_a_child_that_was_forked_while_others_start_and_end() {
        use std::sync::atomic::{AtomicBool, Ordering};
        /// Ends the other threads, also when the test fails: the scope waits for them.
        struct SetOnDrop<'a>(&'a AtomicBool);

        impl Drop for SetOnDrop<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }

        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _end = SetOnDrop(&done);
            for _ in 0..2 {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        std::thread::spawn(|| {}).join().unwrap();
                    }
                });
            }
            let forks = (0..200).all(|number| {
                number
                    == in_child(|| {
                        let (sender, receiver) = sync_channel(1);
                        start_thread(c"leaf-test", move || sender.send(number).unwrap()).unwrap();
                        receiver.recv_timeout(Duration::from_secs(60)).unwrap_or(u64::MAX)
                    })
            });
            assert!(forks);
        });
    }
}
