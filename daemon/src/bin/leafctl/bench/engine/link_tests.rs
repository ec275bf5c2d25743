//! Tests the window, the greeting and the breaks of one connection, without a socket.

use super::*;
use crate::bench::plan::tests::plan;
use crate::bench::verify::Verifier;
use leaf_client::wire::{ErrorCode, MAX_REQUEST_LEN, decode_request, encode_response};
use proptest::prelude::*;

fn meter() -> Meter {
    let mut meter = Meter::new(Some(Verifier::unordered())).unwrap();
    meter.start_recording(0);
    meter
}

fn encoded(answers: impl IntoIterator<Item = (u64, Reply)>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (id, reply) in answers {
        encode_response(&Response { id, reply }, &mut bytes);
    }
    bytes
}

fn hello(max_in_flight: u32) -> Vec<u8> {
    encoded([(HELLO, Reply::Hello { version: 1, max_count: 100_000, max_in_flight })])
}

fn error(code: ErrorCode) -> Reply {
    Reply::Error(WireError::new(code, "no").with_retry_after_ms(50))
}

/// Three IDs in two runs.
fn ids(first: u64) -> Reply {
    Reply::Ids { first: Run { first, count: 2 }, more: vec![Run { first: first + 1000, count: 1 }] }
}

/// IDs of the requests that the link sends now.
fn sent(link: &mut Link, now: Nanos) -> Vec<u64> {
    link.refill(now);
    let (mut rest, mut ids) = (link.outgoing(), Vec::new());
    while let Some((body, after)) = split_frame(rest, MAX_REQUEST_LEN).unwrap() {
        ids.push(decode_request(body).unwrap().id);
        rest = after;
    }
    link.wrote(link.outgoing().len());
    ids
}

fn serving(in_flight: u32, meter: &mut Meter) -> Link {
    let mut link = Link::new(&plan(in_flight));
    assert!(sent(&mut link, 0).is_empty());
    link.take(&hello(in_flight), 1, meter).unwrap();
    link
}

proptest! {
    #[test]
    fn answers_count_the_same_however_the_bytes_are_split(
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..40)
    ) {
        let mut meter = meter();
        let mut link = serving(5, &mut meter);
        let mut order = sent(&mut link, 1000);
        order.reverse();
        let mut bytes =
            encoded(order.iter().zip((1..).step_by(2)).map(|(&id, first)| (id, ids(first))));
        bytes.extend(encoded([(0, Reply::Goodbye)]));
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        for (from, to) in cuts.iter().zip(cuts.iter().skip(1)) {
            link.take(&bytes[*from..*to], 4000, &mut meter).unwrap();
        }
        prop_assert_eq!((meter.answered(), link.in_flight()), (5, 0));
        prop_assert_eq!((meter.latencies().len(), meter.latencies().min()), (5, 3000));
        let verifier = meter.verifier().unwrap();
        prop_assert_eq!((verifier.verified(), verifier.duplicates()), (15, 0));
        prop_assert_eq!(link.state, LinkState::Leaving);
    }
}

#[test]
fn each_answer_makes_room_for_one_new_request() {
    let mut meter = meter();
    let mut link = serving(3, &mut meter);
    let first = sent(&mut link, 10);
    assert_eq!(first.len(), 3);
    assert!(sent(&mut link, 20).is_empty());
    link.take(&encoded([(first[2], ids(1)), (first[0], ids(3))]), 30, &mut meter).unwrap();
    let second = sent(&mut link, 40);
    assert_eq!((second.len(), link.in_flight()), (2, 3));
    assert!(second.iter().all(|id| *id != 0 && !first.contains(id)));
}

#[test]
fn a_partial_write_is_finished_before_new_requests() {
    let mut meter = meter();
    let mut link = serving(2, &mut meter);
    link.refill(10);
    let whole = link.outgoing().to_vec();
    link.wrote(50);
    let first = decode_request(&whole[4..whole.len() / 2]).unwrap().id;
    link.take(&encoded([(first, ids(1))]), 20, &mut meter).unwrap();
    link.refill(30);
    assert_eq!(link.outgoing(), &whole[50..]);
    link.wrote(whole.len() - 50);
    assert_eq!(sent(&mut link, 40).len(), 1);
}

#[test]
fn an_unexpected_answer_ends_the_run() {
    for (twice, answer) in [(true, ids(1)), (false, ids(1)), (true, Reply::Time { unix_ms: 1 })] {
        let mut meter = meter();
        let mut link = serving(1, &mut meter);
        let id = sent(&mut link, 10)[0];
        let other = if twice { id } else { id + 1 };
        let bytes = encoded([(id, ids(1)), (other, answer)]);
        let Err(Break::Fatal(failure)) = link.take(&bytes, 20, &mut meter) else {
            panic!("taken");
        };
        assert_eq!(failure.code(), 76);
    }
}

#[test]
fn an_answer_with_a_wrong_number_of_ids_ends_the_run() {
    let mut meter = meter();
    let mut link = serving(1, &mut meter);
    let id = sent(&mut link, 10)[0];
    let short = Reply::Ids { first: Run { first: 1, count: 2 }, more: vec![] };
    let result = link.take(&encoded([(id, short)]), 20, &mut meter);
    assert!(matches!(result, Err(Break::Fatal(Failure::Protocol(_)))), "{result:?}");
}

#[test]
fn after_a_refused_request_the_link_counts_it_and_pauses() {
    let mut meter = meter();
    let mut link = serving(1, &mut meter);
    let id = sent(&mut link, 10)[0];
    let refusal = encoded([(id, error(ErrorCode::StoreUnavailable))]);
    link.take(&refusal, 20, &mut meter).unwrap();
    assert_eq!((meter.error_count(), meter.answered(), link.in_flight()), (1, 0, 0));
    assert_eq!(link.idle_until(30), Some(50_000_020));
    assert!(sent(&mut link, 50_000_019).is_empty());
    assert_eq!(link.idle_until(50_000_020), None);
    assert_eq!(sent(&mut link, 50_000_020).len(), 1);
}

#[test]
fn after_goodbye_nothing_is_sent_until_a_new_connection() {
    let mut meter = meter();
    let mut link = serving(2, &mut meter);
    let before = sent(&mut link, 10);
    link.take(&encoded([(0, Reply::Goodbye), (before[0], ids(1))]), 20, &mut meter).unwrap();
    assert!(sent(&mut link, 30).is_empty());
    assert_eq!(link.in_flight(), 1);
    link.reset(40);
    assert_eq!(link.in_flight(), 0);
    link.take(&hello(2), 50, &mut meter).unwrap();
    let after = sent(&mut link, 60);
    assert!(after.len() == 2 && !after.contains(&before[1]));
}

#[test]
fn a_temporarily_refused_greeting_is_retried() {
    let mut meter = meter();
    let mut link = Link::new(&plan(1));
    let full = encoded([(0, error(ErrorCode::TooManyConnections))]);
    assert!(matches!(link.take(&full, 1, &mut meter), Err(Break::Lost(_))));
    assert_eq!(meter.error_count(), 1);
    let old = encoded([(HELLO, error(ErrorCode::VersionUnsupported))]);
    assert!(matches!(link.take(&old, 1, &mut meter), Err(Break::Fatal(_))));
}

#[test]
fn a_window_above_the_daemons_limit_is_wrong_usage() {
    let mut link = Link::new(&plan(65));
    match link.take(&hello(64), 1, &mut meter()) {
        Err(Break::Fatal(failure)) => assert_eq!(failure.code(), 64),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_silent_link_is_stuck_only_while_it_waits_for_an_answer() {
    let mut meter = meter();
    let mut link = serving(1, &mut meter);
    let hour = nanos(Duration::from_secs(3600));
    assert!(!link.is_stuck(hour, Duration::from_secs(1)));
    sent(&mut link, hour);
    assert!(!link.is_stuck(hour + 1_000_000_000, Duration::from_secs(1)));
    assert!(link.is_stuck(hour + 1_000_000_001, Duration::from_secs(1)));
}
