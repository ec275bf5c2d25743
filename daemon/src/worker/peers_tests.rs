use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use leaf_client::wire::{WireError, decode_request, encode_response};
use proptest::prelude::*;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::Barrier;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::*;
use crate::transport::peer::PeerListener;

const NOW_MS: u64 = 1_700_000_000_000;

/// Long enough for whoever answers, on a slow machine as well.
const LIMIT: Duration = Duration::from_secs(4);

/// How long something may take before a test gives up. No test measures time by it.
const PATIENCE: Duration = Duration::from_secs(60);

fn clock(now_ms: u64) -> Environment {
    Environment::with_time(move || now_ms)
}

/// A leafd whose clock stands at `now_ms`.
fn leafd(now_ms: u64) -> (String, DropGuard) {
    let listener = PeerListener::bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
    tokio::spawn(listener.serve(clock(now_ms), stop.clone()));
    (address.to_string(), stop.drop_guard())
}

async fn bind() -> (String, TcpListener) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    (listener.local_addr().unwrap().to_string(), listener)
}

/// Who says `words` to everyone, whatever is asked, and then nothing.
async fn babbler(words: impl Into<Vec<u8>>) -> String {
    let (address, listener) = bind().await;
    let words = words.into();
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(&words).await;
            open.push(stream);
        }
    });
    address
}

fn answers(answers: impl IntoIterator<Item = (u64, Reply)>) -> Vec<u8> {
    let mut out = Vec::new();
    for (id, reply) in answers {
        encode_response(&Response { id, reply }, &mut out);
    }
    out
}

fn hello(version: u16) -> Reply {
    Reply::Hello { version, max_count: 0, max_in_flight: 1 }
}

fn peer_time(offset_ms: i64, round_trip_ms: u64) -> PeerTime {
    let round_trip = Duration::from_millis(round_trip_ms);
    PeerTime { peer: "192.0.2.1:1".into(), offset_ms, round_trip }
}

#[tokio::test]
async fn peers_that_answer_count_and_peers_that_are_silent_refuse_or_talk_nonsense_do_not() {
    let (good, _good) = leafd(NOW_MS);
    let (ahead, _ahead) = leafd(NOW_MS + 7000);
    // The kernel takes the connection; nobody ever answers on it.
    let (silent, _silent) = bind().await;
    // A port that is taken and on which nobody listens.
    let held = TcpSocket::new_v4().unwrap();
    held.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let refusing = held.local_addr().unwrap().to_string();
    let time = |id| (id, Reply::Time { unix_ms: NOW_MS });
    let error = Reply::Error(WireError::new(leaf_client::wire::ErrorCode::Forbidden, "no"));
    let peers = vec![
        silent,
        refusing,
        babbler("HTTP/1.1 400 Bad Request\r\n\r\n").await,
        babbler([0xff; 64]).await,
        babbler(answers([(1, hello(1))])).await,
        babbler(answers([(1, hello(1))]).split_off(9)).await,
        babbler(answers([(1, hello(0)), time(2)])).await,
        babbler(answers([(1, hello(VERSION + 1)), time(2)])).await,
        babbler(answers([(3, hello(1)), time(2)])).await,
        babbler(answers([(1, hello(1)), time(1)])).await,
        babbler(answers([(1, hello(1)), (2, error)])).await,
        good.clone(),
        "not an address".into(),
        "localhost:1".into(),
        "127.0.0.1".into(),
        "127.0.0.1:0".into(),
        "127.0.0.1:99999".into(),
        "".into(),
        ahead.clone(),
    ];
    let asking = tokio::spawn(ask_all(peers, clock(NOW_MS), LIMIT));
    let mut times = timeout(PATIENCE, asking).await.expect("to end by itself").unwrap();
    times.sort_by_key(|time| time.offset_ms);
    let [first, second] = times.as_slice() else { panic!("{times:?}") };
    assert_eq!((&first.peer, &second.peer), (&good, &ahead));
    // Both clocks stand still, so that half the round trip is all that is between them.
    let half = |time: &PeerTime| i64::try_from(time.round_trip.as_micros() / 2000).unwrap();
    assert_eq!(first.offset_ms, -half(first));
    assert_eq!(second.offset_ms, 7000 - half(second));
}

#[tokio::test]
async fn a_time_at_either_end_of_the_number_is_an_offset_like_any_other() {
    let (least, _least) = leafd(0);
    let (most, _most) = leafd(u64::MAX);
    let mut times = ask_all(vec![most, least], clock(NOW_MS), LIMIT).await;
    times.sort_by_key(|time| time.offset_ms);
    let offsets: Vec<_> = times.iter().map(|time| time.offset_ms).collect();
    let [behind, i64::MAX] = offsets.as_slice() else { panic!("{offsets:?}") };
    assert!(*behind <= -i64::try_from(NOW_MS).unwrap(), "{behind}");
    assert!(matches!(verdict(&times, 5000), Verdict::Differs { .. }));
}

#[tokio::test]
async fn ipv6_addresses_are_written_in_brackets() {
    let listener = match PeerListener::bind("[::1]:0".parse().unwrap()) {
        Ok(listener) => listener,
        // A machine without IPv6.
        Err(error) => return assert_eq!(error.kind(), io::ErrorKind::AddrNotAvailable),
    };
    let peer = listener.local_addr().unwrap().to_string();
    assert!(peer.starts_with("[::1]:"), "{peer}");
    tokio::spawn(listener.serve(clock(NOW_MS), CancellationToken::new()));
    assert_eq!(ask_all(vec![peer], clock(NOW_MS), LIMIT).await.len(), 1);
}

#[tokio::test]
async fn many_that_are_silent_do_not_take_the_turns_of_the_others() {
    let (silent, _silent) = bind().await;
    let (good, _good) = leafd(NOW_MS);
    let peers = [vec![silent; 4], vec![good; 2]].concat();
    let times = ask_some_at_once(peers, &clock(NOW_MS), LIMIT, 2).await;
    assert_eq!(times.len(), 2);
}

/// Answers the time only when `AT_ONCE` ask for it at the same time, and counts how many it has at
/// most.
async fn gather(listener: TcpListener, most: Arc<AtomicUsize>, at_once: usize) {
    let barrier = Arc::new(Barrier::new(at_once));
    let open = Arc::new(AtomicUsize::new(0));
    while let Ok((mut stream, _)) = listener.accept().await {
        let (barrier, open) = (Arc::clone(&barrier), Arc::clone(&open));
        most.fetch_max(open.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        tokio::spawn(async move {
            stream.write_all(&answers([(1, hello(1))])).await.unwrap();
            loop {
                let body = read_frame(&mut stream, 256).await.unwrap();
                if decode_request(&body).unwrap().call == Call::Time {
                    break;
                }
            }
            barrier.wait().await;
            open.fetch_sub(1, Ordering::Relaxed);
            let reply = Reply::Time { unix_ms: NOW_MS };
            stream.write_all(&answers([(2, reply)])).await.unwrap();
        });
    }
}

#[tokio::test]
async fn all_are_asked_at_the_same_time_but_no_more_than_so_many() {
    let (address, listener) = bind().await;
    let most = Arc::new(AtomicUsize::new(0));
    tokio::spawn(gather(listener, Arc::clone(&most), 4));
    let times = ask_some_at_once(vec![address; 12], &clock(NOW_MS), PATIENCE, 4).await;
    assert_eq!((times.len(), most.load(Ordering::Relaxed)), (12, 4));
}

#[tokio::test]
async fn a_fleet_of_1024_is_asked() {
    let (address, _stop) = leafd(NOW_MS);
    let times = ask_all(vec![address; 1024], clock(NOW_MS), PATIENCE).await;
    assert_eq!(times.len(), 1024);
}

#[tokio::test]
async fn no_peers_and_no_answers_are_the_same() {
    assert_eq!(ask_all(Vec::new(), clock(NOW_MS), LIMIT).await, []);
    let (silent, _silent) = bind().await;
    let times = ask_all(vec![silent], clock(NOW_MS), Duration::from_millis(50)).await;
    assert_eq!(verdict(&times, 5000), Verdict::NobodyAnswered);
}

#[test]
fn the_mean_is_judged_by_the_threshold_either_way() {
    let times = [peer_time(0, 1), peer_time(7000, 1)];
    assert_eq!(verdict(&times, 5000), Verdict::Agrees { mean_ms: 3500 });
    assert_eq!(verdict(&times, 3500), Verdict::Agrees { mean_ms: 3500 });
    assert_eq!(verdict(&times, 3499), Verdict::Differs { mean_ms: 3500 });
    let behind = [peer_time(-7000, 1)];
    assert_eq!(verdict(&behind, 7000), Verdict::Agrees { mean_ms: -7000 });
    assert_eq!(verdict(&behind, 6999), Verdict::Differs { mean_ms: -7000 });
    assert_eq!(verdict(&[peer_time(i64::MIN, 1)], 5000), Verdict::Differs { mean_ms: i64::MIN });
}

#[test]
fn an_answer_that_took_too_long_does_not_count() {
    let times = [peer_time(100, 1000), peer_time(-1400, 1001), peer_time(i64::MAX, 60_000)];
    assert_eq!(mean_offset_ms(&times), Some(100));
    assert_eq!(verdict(&times[1..], 5000), Verdict::NobodyAnswered);
}

#[test]
fn half_of_the_round_trip_is_taken_off() {
    // Asked at 1000, answered on the way at 1250, here at 1500: the clocks agree.
    assert_eq!(offset_ms(1250, 1000, Duration::from_millis(500)), 0);
    assert_eq!(offset_ms(8250, 1000, Duration::from_millis(500)), 7000);
    assert_eq!(offset_ms(0, 1000, Duration::from_millis(500)), -1250);
    assert_eq!(offset_ms(0, u64::MAX, Duration::MAX), i64::MIN);
    assert_eq!(offset_ms(u64::MAX, 0, Duration::ZERO), i64::MAX);
}

proptest! {
    #[test]
    fn no_answers_overflow_and_the_mean_lies_among_them(
        offsets in prop::collection::vec(any::<i64>(), 1..50),
    ) {
        let times: Vec<_> = offsets.iter().map(|&offset| peer_time(offset, 1)).collect();
        let mean = mean_offset_ms(&times).unwrap();
        let (least, most) = (offsets.iter().min().unwrap(), offsets.iter().max().unwrap());
        prop_assert!((*least..=*most).contains(&mean));
    }

    #[test]
    fn an_offset_is_right_to_the_millisecond_and_stays_within_its_range(
        theirs in any::<u64>(), sent in any::<u64>(), trip_us in any::<u64>(),
    ) {
        let offset = offset_ms(theirs, sent, Duration::from_micros(trip_us));
        let exact = i128::from(theirs) - i128::from(sent) - i128::from(trip_us) / 2000;
        prop_assert_eq!(i128::from(offset), exact.clamp(i64::MIN.into(), i64::MAX.into()));
    }
}
