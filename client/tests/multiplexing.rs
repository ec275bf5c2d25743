//! Many callers share the one connection of an asynchronous client.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests panic")]

mod common;

use std::collections::HashSet;
use std::time::Duration;

use common::{patient, runtime};
use futures_util::FutureExt;
use futures_util::future::join_all;
use leaf_client::testing::{FakeDaemon, Fault};
use leaf_client::{Client, Error, ErrorCode, WireError};

/// Waits until `done` returns `true`. Fails after ten seconds.
async fn until(done: impl Fn() -> bool) {
    for _ in 0..10_000 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(done());
}

#[tokio::test]
async fn answers_out_of_order_reach_their_callers() {
    let daemon = FakeDaemon::start().unwrap();
    let client = Client::connect(patient(&daemon)).await.unwrap();
    let tags: Vec<_> = (1..=8).map(|n| (format!("tag-{n}"), n * 1000)).collect();
    for (tag, first) in &tags {
        client.tag_create(tag, 0, *first, "").await.unwrap();
    }
    daemon.answer_in_reverse(8);
    let ids = join_all(tags.iter().map(|(tag, _)| client.next(tag))).await;
    for ((tag, first), id) in tags.iter().zip(ids) {
        assert_eq!(id.unwrap(), *first, "{tag}");
    }
}

#[tokio::test]
async fn a_request_without_an_answer_delays_no_other() {
    let daemon = FakeDaemon::start().unwrap();
    let client = Client::new(patient(&daemon));
    daemon.fault_after(0, Fault::Silence);
    let slow = tokio::spawn({
        let client = client.clone();
        async move { client.next("slow").await }
    });
    until(|| daemon.requests() == 1).await;
    for id in 1..100 {
        assert_eq!(client.next("fast").await.unwrap(), id);
    }
    assert!(!slow.is_finished());
    assert_eq!(daemon.connections(), 1);
    slow.abort();
}

#[tokio::test]
async fn many_callers_share_one_connection() {
    let daemon = FakeDaemon::start().unwrap();
    let client = Client::new(patient(&daemon));
    let callers = (0..1000).map(|n| {
        let client = client.clone();
        tokio::spawn(async move {
            let mut ids = Vec::new();
            for _ in 0..10 {
                ids.extend(client.next_many(&format!("tag-{}", n % 7), 3).await.unwrap());
            }
            (n % 7, ids)
        })
    });
    let mut seen = HashSet::new();
    for caller in join_all(callers).await {
        let (tag, ids) = caller.unwrap();
        for id in ids {
            assert!(seen.insert((tag, id)), "{id} of {tag} twice");
        }
    }
    assert_eq!(seen.len(), 30_000);
    assert_eq!(daemon.connections(), 1);
    assert!(daemon.peak_in_flight() > 1 && daemon.peak_in_flight() <= 1024);
}

#[tokio::test]
async fn requests_in_flight_never_exceed_the_daemons_limit() {
    let daemon = FakeDaemon::start().unwrap();
    daemon.set_limits(100, 4);
    daemon.answer_in_reverse(4);
    let client = Client::new(patient(&daemon));
    let ids = join_all((0..100).map(|_| client.next("order"))).await;
    let ids: HashSet<u64> = ids.into_iter().map(Result::unwrap).collect();
    assert_eq!(ids.len(), 100);
    assert_eq!(daemon.peak_in_flight(), 4);
}

#[tokio::test]
async fn dropped_futures_leave_no_request_behind() {
    let daemon = FakeDaemon::start().unwrap();
    daemon.set_limits(100, 8);
    let client = Client::new(patient(&daemon));
    client.next("order").await.unwrap();

    // Abandoned calls fill seven of the eight places.
    daemon.fault_always(Some(Fault::Silence));
    tokio::select! {
        ids = join_all((0..7).map(|_| client.next("order"))) => panic!("{ids:?}"),
        () = until(|| daemon.requests() == 8) => {}
    }
    daemon.fault_always(None);
    assert_eq!(client.next("order").await.unwrap(), 2);
    assert_eq!((daemon.connections(), daemon.peak_in_flight()), (1, 8));

    // When they fill all eight, the client replaces the connection and loses no queued call.
    daemon.fault_always(Some(Fault::Silence));
    let before = daemon.requests();
    tokio::select! {
        id = client.next("order") => panic!("{id:?}"),
        () = until(|| daemon.requests() > before) => {}
    }
    daemon.fault_always(None);
    assert_eq!(client.next("order").await.unwrap(), 3);
    assert_eq!(daemon.connections(), 2);

    // A call that is dropped before the task runs is never sent.
    let before = daemon.requests();
    for _ in 0..100 {
        assert!(client.next("order").now_or_never().is_none());
    }
    assert_eq!(client.next("order").await.unwrap(), 4);
    assert_eq!(daemon.requests(), before + 1);
}

#[tokio::test]
async fn a_broken_peer_fails_the_calls_in_flight_and_no_queued_call() {
    let daemon = FakeDaemon::start().unwrap();
    daemon.set_limits(100, 2);
    daemon.fault_after(1, Fault::Raw(vec![0xFF; 8]));
    daemon.fault_after(0, Fault::Silence);
    let client = Client::new(patient(&daemon));
    let results = join_all((0..4).map(|_| client.next("order"))).await;
    let failed: Vec<_> = results.iter().map(Result::is_err).collect();
    assert_eq!(failed, [true, true, false, false]);
    assert!(matches!(results[0], Err(Error::Protocol(_))));
}

#[tokio::test]
async fn an_error_about_the_connection_reaches_its_callers() {
    let daemon = FakeDaemon::start().unwrap();
    let client = Client::new(patient(&daemon));
    let error = WireError::new(ErrorCode::FrameTooLarge, "too long");
    daemon.fault_after(0, Fault::CloseWith(error));
    let refused = client.next("order").await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::FrameTooLarge));
    assert_eq!(client.next("order").await.unwrap(), 1);
}

#[tokio::test]
async fn dropping_the_last_handle_ends_the_connection() {
    let daemon = FakeDaemon::start().unwrap();
    let client = Client::connect(patient(&daemon)).await.unwrap();
    let other = client.with_timeout(Duration::from_secs(60));
    drop(client);
    assert_eq!(other.next("order").await.unwrap(), 1);
    assert_eq!(daemon.open_connections(), 1);
    drop(other);
    until(|| daemon.open_connections() == 0).await;
    assert_eq!(daemon.connections(), 1);
}

#[test]
fn callers_in_several_runtimes_share_a_connection() {
    let daemon = FakeDaemon::start().unwrap();
    let client = Client::new(patient(&daemon));
    let home = runtime();
    home.block_on(async {
        client.time().await.unwrap();
        let callers: Vec<_> = (0..4)
            .map(|_| {
                let client = client.clone();
                std::thread::spawn(move || runtime().block_on(client.next_many("order", 10)))
            })
            .collect();
        until(|| callers.iter().all(std::thread::JoinHandle::is_finished)).await;
        callers.into_iter().for_each(|caller| drop(caller.join().unwrap().unwrap()));
    });
    assert_eq!(daemon.connections(), 1);
}

#[test]
fn a_client_outlives_the_runtime_of_its_connection() {
    let daemon = FakeDaemon::start().unwrap();
    let client = Client::new(patient(&daemon));
    for id in 1..4 {
        assert_eq!(runtime().block_on(client.next("order")).unwrap(), id);
    }
    assert_eq!(daemon.connections(), 3);
}

#[test]
fn without_a_runtime_a_call_fails_and_does_not_panic() {
    let daemon = FakeDaemon::start().unwrap();
    let client = Client::new(patient(&daemon));
    let error = client.next("order").now_or_never().unwrap().unwrap_err();
    assert!(error.to_string().contains("needs a tokio runtime"), "{error}");
}
