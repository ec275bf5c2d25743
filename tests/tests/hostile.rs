//! Malformed and invalid messages. Each gets the error that names its fault, ends at most its own
//! connection, and affects no other client.

use std::net::Shutdown;
use std::path::Path;

use leaf_client::wire::{
    Call, ErrorCode, MAGIC, MAX_TAGS_PER_PAGE, MAX_WORKERS_PER_PAGE, Reply, Response, UNSOLICITED,
    VERSION,
};
use leafd_tests::daemon::Home;
use leafd_tests::malformed::{self, Malformed};
use leafd_tests::raw::{Raw, frame, frame_of, hello, segment, snowflakes};
use leafd_tests::watch::{Bystanders, peak_mib};

/// The highest peak of memory. An idle daemon has 15 MiB.
const MOST_MIB: u64 = 40;

/// Runs `act` on a daemon that serves other clients meanwhile.
fn beside_others(act: impl FnOnce(&Path)) {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let daemon = home.start();
    let others = Bystanders::of(&home);
    act(&home.socket());
    others.noticed_nothing();
    let peak = peak_mib(&daemon);
    println!("peak of {peak} MiB");
    assert!(peak < MOST_MIB, "{peak} MiB");
    daemon.stop();
}

/// Asserts that the call is refused with `code` and `detail`, and that the connection goes on.
fn is_refused(raw: &mut Raw, call: Call<'_>, code: ErrorCode, detail: u64) {
    let asked = format!("{call:?}");
    match raw.ask(7, call) {
        Reply::Error(error) => {
            assert_eq!((error.code(), error.detail), (code, detail), "{asked}: {error}");
        }
        other => panic!("{asked} is answered with {other:?}"),
    }
    assert!(matches!(raw.ask(8, Call::Time), Reply::Time { .. }));
}

/// Sends a malformed request and checks the answer.
fn is_refused_as_stated(raw: &mut Raw, entry: &Malformed) {
    let Malformed { name, answer, bytes, .. } = entry;
    // Shows which entry it is if the test hangs.
    eprintln!("sending {name}");
    raw.send(bytes);
    let (id, error) = raw.refusal();
    let found = (id, error.code, error.code().name(), error.detail);
    let expected = (answer.id, answer.error, answer.name.as_str(), answer.detail);
    assert_eq!(found, expected, "{name}: {error}");
    assert!(!error.message.is_empty(), "{name}: {error:?}");
    if error.code() == ErrorCode::FrameTooLarge {
        let announced = u32::from_be_bytes(*bytes.first_chunk().unwrap());
        assert!(error.message.contains(&announced.to_string()), "{name}: {error}");
    }
}

#[test]
fn every_malformed_request_is_refused_as_the_protocol_says() {
    beside_others(|socket| {
        for entry in malformed::entries() {
            let mut raw =
                if entry.before_hello { Raw::connect(socket) } else { Raw::greeted(socket) };
            is_refused_as_stated(&mut raw, &entry);
            let name = &entry.name;
            if entry.closes {
                assert_eq!(raw.receive(), None, "{name}: the connection stays open");
            } else {
                let reply = raw.ask(6, Call::Time);
                assert!(matches!(reply, Reply::Time { .. }), "{name}: {reply:?}");
            }
        }
    });
}

#[test]
fn malformed_requests_that_do_not_close_the_connection_can_follow_each_other_on_it() {
    beside_others(|socket| {
        let mut raw = Raw::greeted(socket);
        let entries = malformed::entries();
        let survived: Vec<_> =
            entries.iter().filter(|entry| !entry.closes && !entry.before_hello).collect();
        assert!(survived.len() > 1, "{survived:?}");
        for entry in survived {
            is_refused_as_stated(&mut raw, entry);
        }
        assert!(matches!(raw.ask(6, Call::Time), Reply::Time { .. }));
    });
}

#[test]
fn a_frame_that_is_too_long_is_refused_by_its_length_after_the_answers_to_earlier_requests() {
    beside_others(|socket| {
        let mut raw = Raw::greeted(socket);
        raw.send(&[frame(5, Call::Time), u32::MAX.to_be_bytes().to_vec()].concat());
        assert!(matches!(raw.receive(), Some(Response { id: 5, reply: Reply::Time { .. } })));
        let (id, error) = raw.refusal();
        assert_eq!((id, error.code()), (UNSOLICITED, ErrorCode::FrameTooLarge));
        assert!(error.message.contains(&u32::MAX.to_string()), "{error}");
        assert_eq!(raw.receive(), None);
    });
}

#[test]
fn a_frame_as_long_as_allowed_is_read_and_a_configured_lower_limit_holds() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path()).with("SOCKET_MAX_REQUEST_BYTES", "1600");
    let daemon = home.start();
    let mut raw = Raw::greeted(&home.socket());
    raw.send(&frame_of(&[0xff; 1600]));
    assert_eq!(raw.refusal().1.code(), ErrorCode::UnknownCall);
    let (tag, text) = ("🦀".repeat(128), "🦀".repeat(256));
    let call = Call::TagCreate { tag: &tag, step: 0, first: 1, description: &text };
    assert!(matches!(raw.ask(3, call), Reply::Tags(tags) if tags[0].description == text));
    let error = raw.is_closed_with(&1601_u32.to_be_bytes(), ErrorCode::FrameTooLarge);
    assert_eq!(error.detail, 1600);
    daemon.stop();
}

#[test]
fn a_connection_that_ends_inside_a_frame_is_closed_after_its_earlier_requests_are_answered() {
    beside_others(|socket| {
        let whole = [hello(), frame(2, segment("orders", 1))].concat();
        for cut in 0..whole.len() {
            Raw::connect(socket).send(&whole[..cut]);
            let mut raw = Raw::connect(socket);
            raw.send(&whole[..cut]);
            raw.stream().shutdown(Shutdown::Write).unwrap();
            let answered = std::iter::from_fn(|| raw.receive()).count();
            assert_eq!(answered, usize::from(cut >= hello().len()), "cut at {cut}");
        }
        let mut raw = Raw::connect(socket);
        raw.send(&whole);
        raw.stream().shutdown(Shutdown::Write).unwrap();
        let answers: Vec<_> = std::iter::from_fn(|| raw.receive()).collect();
        assert!(matches!(answers[1].reply, Reply::Ids { .. }), "{answers:?}");
    });
}

#[test]
fn a_request_that_comes_byte_by_byte_is_answered() {
    beside_others(|socket| {
        let mut raw = Raw::connect(socket);
        let two = [hello(), frame(2, segment("orders", 1)), frame(3, Call::Time)].concat();
        for byte in two.chunks(1) {
            raw.send(byte);
            std::thread::yield_now();
        }
        // In any order, since the first request for a tag waits for a lease.
        let mut ids: Vec<_> = (0..3).filter_map(|_| Some(raw.receive()?.id)).collect();
        ids.sort_unstable();
        assert_eq!(ids, [1, 2, 3]);
    });
}

#[test]
fn a_client_of_a_future_version_is_answered_with_the_daemons_own() {
    beside_others(|socket| {
        for version in [VERSION, 99, u16::MAX] {
            let mut raw = Raw::connect(socket);
            let reply = raw.ask(1, Call::Hello { magic: MAGIC, version });
            assert!(matches!(reply, Reply::Hello { version: VERSION, .. }), "{reply:?}");
            assert!(matches!(raw.ask(2, segment("orders", 1)), Reply::Ids { .. }));
        }
    });
}

#[test]
fn a_count_of_0_or_above_the_limit_is_refused_with_the_limit_and_the_connection_goes_on() {
    beside_others(|socket| {
        let mut raw = Raw::greeted(socket);
        for count in [0, 100_001, u32::MAX] {
            is_refused(&mut raw, segment("orders", count), ErrorCode::BadCount, 100_000);
            is_refused(&mut raw, snowflakes(count), ErrorCode::BadCount, 100_000);
        }
        for limit in [0, MAX_TAGS_PER_PAGE + 1, u32::MAX] {
            let call = Call::TagList { after: "", limit };
            is_refused(&mut raw, call, ErrorCode::BadCount, u64::from(MAX_TAGS_PER_PAGE));
        }
        for limit in [0, MAX_WORKERS_PER_PAGE + 1, u32::MAX] {
            let call = Call::WorkerList { from: 0, limit };
            is_refused(&mut raw, call, ErrorCode::BadCount, u64::from(MAX_WORKERS_PER_PAGE));
        }
        assert!(matches!(raw.ask(9, segment("orders", 100_000)), Reply::Ids { .. }));
    });
}

#[test]
fn a_name_that_no_tag_can_have_is_refused_in_every_call_and_the_connection_goes_on() {
    beside_others(|socket| {
        let mut raw = Raw::greeted(socket);
        let names =
            ["", "\0", "a\nb", "\x1b[31mred", "\u{85}", &"é".repeat(129), &"x".repeat(1000)];
        for tag in names {
            is_refused(&mut raw, segment(tag, 1), ErrorCode::BadTag, 0);
            is_refused(&mut raw, Call::TagShow { tag }, ErrorCode::BadTag, 0);
            is_refused(&mut raw, Call::TagSetStep { tag, step: 1 }, ErrorCode::BadTag, 0);
            is_refused(&mut raw, Call::TagDelete { tag }, ErrorCode::BadTag, 0);
            let call = Call::TagCreate { tag, step: 0, first: 1, description: "" };
            is_refused(&mut raw, call, ErrorCode::BadTag, 0);
        }
        assert!(matches!(raw.ask(9, segment(&"é".repeat(128), 1)), Reply::Ids { .. }));
    });
}

#[test]
fn values_that_no_tag_can_have_get_typed_refusals_and_the_connection_goes_on() {
    beside_others(|socket| {
        let mut raw = Raw::greeted(socket);
        let long = "x".repeat(257);
        let create =
            |step, first, description| Call::TagCreate { tag: "t", step, first, description };
        let max_step = 100_000_000;
        is_refused(&mut raw, create(max_step + 1, 1, ""), ErrorCode::BadStep, max_step.into());
        is_refused(&mut raw, create(1, 1, &long), ErrorCode::BadDescription, 0);
        for first in [u64::MAX, 1 << 63, i64::MAX as u64] {
            is_refused(&mut raw, create(1, first, ""), ErrorCode::BadCount, i64::MAX as u64 - 1);
        }
        for step in [0, u32::MAX] {
            let call = Call::TagSetStep { tag: "bystander", step };
            is_refused(&mut raw, call, ErrorCode::BadStep, max_step.into());
        }
        is_refused(&mut raw, Call::TagShow { tag: "t" }, ErrorCode::UnknownTag, 0);
    });
}
