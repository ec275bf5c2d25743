//! Real forks: pools and blocking clients go on in the child, each process by a connection of its own,
//! and the asynchronous client refuses there.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests panic")]
#![expect(unsafe_code, reason = "fork")]

mod common;

use std::collections::BTreeSet;
use std::future::Future;
use std::io::{PipeReader, Read, Write, pipe};
use std::os::unix::net::{UnixListener, UnixStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use common::patient;
use leaf_client::pool::{Pool, PoolStats};
use leaf_client::testing::{FakeDaemon, Fault};
use leaf_client::{Client, Error, blocking};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};

/// A child, and the numbers that it sends.
struct Child {
    pid: Pid,
    numbers: PipeReader,
}

impl Child {
    /// Forks. The child sends what `work` returns, and ends.
    fn doing(work: impl FnOnce() -> Vec<u64>) -> Self {
        let (numbers, mut sink) = pipe().unwrap();
        // SAFETY: glibc makes its allocator safe in the child, and the code under test takes no lock
        // that a thread of its parent may hold; that is what is tested.
        match unsafe { fork() }.unwrap() {
            ForkResult::Child => {
                drop(numbers);
                let sent = catch_unwind(AssertUnwindSafe(work)).is_ok_and(|all| {
                    let bytes: Vec<u8> = all.into_iter().flat_map(u64::to_ne_bytes).collect();
                    sink.write_all(&bytes).is_ok()
                });
                // SAFETY: ends the process without its parent's handlers.
                unsafe { nix::libc::_exit(i32::from(!sent)) }
            }
            ForkResult::Parent { child } => Self { pid: child, numbers },
        }
    }

    fn join(mut self) -> Vec<u64> {
        let mut bytes = Vec::new();
        self.numbers.read_to_end(&mut bytes).unwrap();
        let status = waitpid(self.pid, None).unwrap();
        assert!(matches!(status, WaitStatus::Exited(_, 0)), "{status:?}");
        bytes.chunks_exact(8).map(|it| u64::from_ne_bytes(it.try_into().unwrap())).collect()
    }
}

fn daemon() -> FakeDaemon {
    FakeDaemon::start().unwrap()
}

fn pool(daemon: &FakeDaemon) -> Pool {
    Pool::tag("orders").options(patient(daemon)).build().unwrap()
}

fn take(pool: &Pool, count: usize) -> Vec<u64> {
    (0..count).map(|_| pool.next().unwrap()).collect()
}

/// Descriptors of this process that are connected sockets.
fn sockets() -> usize {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap();
    let is_socket = |path: &Path| {
        std::fs::read_link(path).is_ok_and(|to| to.to_string_lossy().starts_with("socket:"))
    };
    entries.filter(|entry| is_socket(&entry.as_ref().unwrap().path())).count()
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(60), "gave up waiting: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Asserts that no ID is in two of the lists.
fn assert_distinct(lists: &[Vec<u64>]) {
    let all: BTreeSet<u64> = lists.iter().flatten().copied().collect();
    assert_eq!(all.len(), lists.iter().map(Vec::len).sum::<usize>(), "an ID came twice");
}

/// Ends the loops of other threads, also when the test fails: a scope waits for them.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_child_starts_with_an_empty_pool_and_the_parent_keeps_its_ids_and_its_connection() {
    let daemon = daemon();
    let pool = pool(&daemon);
    let mut mine = take(&pool, 10);
    let child = Child::doing(|| {
        assert_eq!(pool.try_next(), None);
        assert_eq!(pool.stats().issued, 0);
        take(&pool, 1_000)
    });
    let theirs = child.join();
    let connections = daemon.connections();
    mine.extend(take(&pool, 1_000));
    assert!(mine.is_sorted_by(|one, next| one < next));
    assert!(theirs.is_sorted_by(|one, next| one < next));
    assert_distinct(&[mine, theirs]);
    // One of each process.
    assert_eq!((connections, daemon.connections()), (2, 2));
}

#[test]
fn a_pool_that_was_made_before_the_fork_and_never_used_costs_the_parent_nothing() {
    let daemon = daemon();
    let pool = pool(&daemon);
    let children: Vec<Child> = (0..4).map(|_| Child::doing(|| take(&pool, 300))).collect();
    let lists: Vec<Vec<u64>> = children.into_iter().map(Child::join).collect();
    assert_distinct(&lists);
    assert_eq!(daemon.connections(), 4);
    assert_eq!(pool.stats().leased, 0);
}

#[test]
fn a_child_closes_its_copy_of_the_connection_and_no_other_descriptor() {
    let daemon = daemon();
    let pool = pool(&daemon);
    take(&pool, 1);
    let (mut kept, mut other) = UnixStream::pair().unwrap();
    let child = Child::doing(|| {
        let before = sockets();
        take(&pool, 1);
        // Its own connection came, and the parent's went.
        let after = sockets();
        kept.write_all(b"x").unwrap();
        vec![u64::try_from(before).unwrap(), u64::try_from(after).unwrap()]
    });
    let counts = child.join();
    assert_eq!(counts.first(), counts.last());
    other.read_exact(&mut [0]).unwrap();
    take(&pool, 500);
    assert_eq!(daemon.connections(), 2);
}

#[test]
fn a_fork_of_a_fork_repeats_no_id() {
    let daemon = daemon();
    let pool = pool(&daemon);
    let mine = take(&pool, 50);
    let child = Child::doing(|| {
        let mut ids = take(&pool, 50);
        let grandchild = Child::doing(|| {
            let mut ids = take(&pool, 50);
            ids.extend(Child::doing(|| take(&pool, 50)).join());
            ids
        });
        ids.extend(grandchild.join());
        ids.extend(take(&pool, 50));
        ids
    });
    assert_distinct(&[mine, child.join(), take(&pool, 50)]);
}

#[test]
fn forks_while_other_threads_take_and_refill_repeat_no_id() {
    const FORKS: usize = 150;
    let daemon = daemon();
    let pool = Pool::tag("orders")
        .options(patient(&daemon).timeout(Duration::from_secs(120)))
        .max_chunk(500)
        .build()
        .unwrap();
    let done = AtomicBool::new(false);
    let lists = thread::scope(|scope| {
        let _end = SetOnDrop(&done);
        let takers: Vec<_> = (0..3)
            .map(|number| {
                let (pool, done) = (pool.clone(), &done);
                scope.spawn(move || {
                    let local = pool.local().unwrap();
                    let mut mine = Vec::new();
                    while !done.load(Ordering::Relaxed) {
                        if number == 0 {
                            mine.push(local.next().unwrap());
                        } else {
                            mine.push(pool.next().unwrap());
                        }
                        if mine.len() % 64 == 0 {
                            thread::sleep(Duration::from_micros(100));
                        }
                    }
                    mine
                })
            })
            .collect();
        let local = pool.local().unwrap();
        let mut lists = Vec::new();
        let mut mine = Vec::new();
        for _ in 0..FORKS {
            mine.push(local.next().unwrap());
            let child = Child::doing(|| {
                let mut ids = take(&pool, 30);
                ids.extend((0..30).map(|_| local.next().unwrap()));
                ids
            });
            lists.push(child.join());
        }
        lists.push(mine);
        done.store(true, Ordering::Relaxed);
        lists.extend(takers.into_iter().map(|taker| taker.join().unwrap()));
        lists
    });
    assert_distinct(&lists);
    assert!(lists.iter().map(Vec::len).sum::<usize>() > FORKS * 60);
}

#[test]
fn a_local_handle_is_empty_in_the_child_and_may_be_dropped_there() {
    let daemon = daemon();
    let pool = Pool::tag("orders").options(patient(&daemon)).min_chunk(4_000).build().unwrap();
    take(&pool, 1);
    let local = pool.local().unwrap();
    let mut mine = vec![local.next().unwrap()];
    let theirs = Child::doing(|| {
        assert_eq!(local.try_next(), None);
        let used: Vec<u64> = (0..500).map(|_| local.next().unwrap()).collect();
        drop(local);
        used
    })
    .join();
    let dropped = Child::doing(|| {
        let other = pool.local();
        drop(other);
        take(&pool, 2)
    })
    .join();
    let local = pool.local().unwrap();
    mine.extend((0..500).map(|_| local.next().unwrap()));
    assert_distinct(&[mine, theirs, dropped]);
}

#[test]
fn a_child_goes_on_although_a_thread_of_its_parent_waits_and_another_refills() {
    let mut daemon = FakeDaemon::stopped().unwrap();
    let pool = pool(&daemon);
    thread::scope(|scope| {
        // They hold locks and wait on conditions at the moment of the fork.
        let waiting: Vec<_> = (0..4).map(|_| scope.spawn(|| pool.next().unwrap())).collect();
        wait_until("callers that wait", || pool.stats().waits == 4);
        let children: Vec<Child> = (0..20).map(|_| Child::doing(|| take(&pool, 5))).collect();
        daemon.restart().unwrap();
        let mut lists: Vec<Vec<u64>> = children.into_iter().map(Child::join).collect();
        lists.push(waiting.into_iter().map(|it| it.join().unwrap()).collect());
        assert_distinct(&lists);
    });
}

#[test]
fn a_future_that_waited_before_the_fork_goes_on_in_both_processes() {
    let mut daemon = FakeDaemon::stopped().unwrap();
    let pool = pool(&daemon);
    let mut future = pin!(pool.next_async());
    let mut context = Context::from_waker(Waker::noop());
    assert!(future.as_mut().poll(&mut context).is_pending());
    let child = Child::doing(|| {
        loop {
            match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(id) => return vec![id.unwrap()],
                Poll::Pending => thread::sleep(Duration::from_millis(1)),
            }
        }
    });
    daemon.restart().unwrap();
    let theirs = child.join();
    let mut mine = Vec::new();
    wait_until("the ID of the parent", || {
        if let Poll::Ready(id) = future.as_mut().poll(&mut context) {
            mine.push(id.unwrap());
        }
        !mine.is_empty()
    });
    assert_distinct(&[mine, theirs]);
}

#[test]
fn a_blocking_client_goes_on_in_both_processes_each_by_its_own_connection() {
    let daemon = daemon();
    let mut client = blocking::Client::new(patient(&daemon));
    let mut mine = vec![client.next("orders").unwrap()];
    let theirs = Child::doing(|| (0..100).map(|_| client.next("orders").unwrap()).collect()).join();
    mine.extend((0..100).map(|_| client.next("orders").unwrap()));
    assert_distinct(&[mine, theirs]);
    assert_eq!(daemon.connections(), 2);
    // Dropped without a call, the child's copy leaves the parent's connection as it is.
    Child::doing(|| {
        drop(client);
        Vec::new()
    })
    .join();
    let mut client = blocking::Client::new(patient(&daemon));
    client.next("orders").unwrap();
    Child::doing(|| Vec::from([client.next("orders").unwrap()])).join();
    client.next("orders").unwrap();
    assert_eq!(daemon.connections(), 4);
}

/// A listener that nobody accepts from: with a full backlog, connecting hangs.
struct FullListener {
    folder: std::path::PathBuf,
    _listener: UnixListener,
    _waiting: UnixStream,
}

impl FullListener {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("leaf-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("full.sock");
        let listener = UnixListener::bind(&path).unwrap();
        // SAFETY: it only changes how many connections may wait.
        unsafe { nix::libc::listen(std::os::fd::AsRawFd::as_raw_fd(&listener), 0) };
        let waiting = UnixStream::connect(&path).unwrap();
        Self { folder, _listener: listener, _waiting: waiting }
    }

    fn options(&self) -> leaf_client::Options {
        leaf_client::Options::at(self.folder.join("full.sock"))
    }
}

impl Drop for FullListener {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn a_child_closes_the_socket_by_which_its_parent_was_connecting() {
    let full = FullListener::new("fork-connecting");
    let pool = Pool::tag("orders").options(full.options()).build().unwrap();
    // The parent is a child itself: only there no other test opens or closes a socket.
    let counts = Child::doing(|| {
        let idle = sockets();
        pool.next_within(Duration::ZERO).unwrap_err();
        wait_until("the refill thread connects", || sockets() > idle);
        let counts = Child::doing(|| {
            let before = sockets();
            // The child's first use closes it. Its own thread then opens another.
            assert_eq!(pool.stats(), PoolStats::default());
            let error = pool.next_within(Duration::ZERO).unwrap_err();
            assert!(matches!(error, Error::DeadlineExceeded { .. }), "{error}");
            wait_until("the child's thread connects", || sockets() == before);
            thread::sleep(Duration::from_millis(20));
            [before, sockets()].map(|count| u64::try_from(count).unwrap()).into()
        })
        .join();
        assert!(sockets() > idle, "the parent's own is still there");
        counts
    })
    .join();
    assert_eq!(counts.len(), 2);
    assert_eq!(counts.first(), counts.last());
}

#[test]
fn a_blocking_client_that_was_connecting_connects_anew_in_the_child() {
    let full = FullListener::new("fork");
    let options = full.options().timeout(Duration::from_millis(100));
    let mut client = blocking::Client::new(options);
    client.next("orders").unwrap_err();
    Child::doing(|| {
        // The parent's attempt, whose thread does not exist here, is forgotten and not waited for.
        let error = client.next("orders").unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }), "{error}");
        Vec::new()
    })
    .join();
}

#[test]
fn an_asynchronous_client_refuses_in_the_child_and_works_in_the_parent() {
    let daemon = daemon();
    let runtime = common::runtime();
    let client = Client::new(patient(&daemon));
    assert_eq!(runtime.block_on(client.next("orders")).unwrap(), 1);
    Child::doing(|| {
        // The parent's runtime cannot be used here. A call is refused before it needs one.
        let inherited = client.clone();
        {
            let mut call = pin!(inherited.next("orders"));
            match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(Err(Error::Forked)) => {}
                other => panic!("{other:?}"),
            }
        }
        drop(inherited);
        let fresh = Client::new(patient(&daemon));
        vec![common::runtime().block_on(fresh.next("orders")).unwrap()]
    })
    .join();
    assert_eq!(runtime.block_on(client.next("orders")).unwrap(), 3);
    assert_eq!(daemon.connections(), 2);
}

#[test]
fn an_answer_that_arrived_before_the_fork_is_handed_out_by_the_parent_alone() {
    let daemon = daemon();
    let runtime = common::runtime();
    let client = Client::new(patient(&daemon));
    let ids = runtime.block_on(async {
        client.next("orders").await.unwrap();
        let call = tokio::spawn({
            let client = client.clone();
            async move { client.next("orders").await }
        });
        // The answer is in the memory of both processes, and nobody has taken it.
        while daemon.requests() < 2 {
            tokio::task::yield_now().await;
        }
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        let mut fresh = pin!(client.next("orders"));
        let polled =
            std::future::poll_fn(|context| Poll::Ready(fresh.as_mut().poll(context))).await;
        assert!(polled.is_pending());
        let child = Child::doing(|| {
            let polled = fresh.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            u64::from(matches!(polled, Poll::Ready(Ok(_)))).to_ne_bytes().map(u64::from).to_vec()
        });
        assert_eq!(child.join().iter().sum::<u64>(), 0, "the child got the parent's ID");
        [call.await.unwrap().unwrap(), fresh.await.unwrap()]
    });
    assert_eq!(ids, [2, 3]);
}

#[test]
fn a_child_in_an_outage_gets_the_error_and_then_ids() {
    let mut daemon = daemon();
    let pool = Pool::tag("orders").options(common::hasty(&daemon)).build().unwrap();
    take(&pool, 1);
    daemon.fault_always(Some(Fault::Close));
    let (mut ready, mut go) = pipe().unwrap();
    let child = Child::doing(|| {
        let error = pool.next().unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }), "{error}");
        go.write_all(b"x").unwrap();
        let mut ids = Vec::new();
        wait_until("an ID in the child", || {
            ids.extend(pool.next().ok());
            !ids.is_empty()
        });
        ids
    });
    ready.read_exact(&mut [0]).unwrap();
    daemon.fault_always(None);
    daemon.restart().unwrap();
    let theirs = child.join();
    assert_distinct(&[theirs, vec![1]]);
}
