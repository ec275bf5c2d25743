//! Ends of connections that the daemon announces, and errors that concern a connection as a whole.

use std::time::{Duration, Instant};

use super::{Scenario, scenario};
use crate::conformance::driver::PATIENCE;
use crate::conformance::frames;
use crate::conformance::stage::Stage;

pub(super) const ALL: &[Scenario] = &[
    scenario("goodbye_idle", "A goodbye between two calls fails no call", goodbye_idle),
    scenario("goodbye_answer", "An answer that follows a goodbye is used", goodbye_answer),
    scenario(
        "goodbye_repeat",
        "A call that gets no answer after a goodbye is repeated on a new connection",
        goodbye_repeat,
    ),
    scenario(
        "goodbye_with_answer",
        "A goodbye right behind an answer is heeded: the next call uses a new connection",
        goodbye_with_answer,
    ),
    scenario(
        "goodbye_silences",
        "After a goodbye, nothing more is sent on a connection, even if it stays open",
        goodbye_silences,
    ),
    scenario("shutting_down", "Error 309 to a call repeats it on a new connection", shutting_down),
    scenario("stopping_connection", "Error 309 with ID 0 is a goodbye", stopping_connection),
    scenario(
        "forbidden_connection",
        "Error 206 with ID 0 fails the calls in flight at once, without another attempt",
        forbidden_connection,
    ),
    scenario(
        "forbidden_while_idle",
        "An error that waits to be read is given although writing fails",
        forbidden_while_idle,
    ),
    scenario(
        "malformed_connection",
        "Errors 1xx and 2xx with ID 0 fail the calls in flight and end the connection",
        malformed_connection,
    ),
    scenario(
        "temporary_connection",
        "Errors 3xx with ID 0 repeat the calls in flight on a new connection",
        temporary_connection,
    ),
];

fn goodbye_idle(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let client = stage.open();
    for id in 1..=4 {
        let peer = stage.gets(&mut fake, &client, id);
        fake.send(peer, &frames::goodbye());
        fake.close(peer);
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn goodbye_answer(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let client = stage.open();
    for id in 1..=4 {
        let line = stage.next(&client);
        let asked = fake.request();
        let answer = [frames::goodbye(), frames::ids(asked.id, &[(id, 1)])];
        fake.send(asked.peer, &answer.concat());
        // The stream need not end at once.
        if id % 2 == 0 {
            fake.close(asked.peer);
        }
        assert_eq!(stage.wait(line).id(), id);
        fake.close(asked.peer);
    }
}

fn goodbye_repeat(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let client = stage.open();
    stage.gets(&mut fake, &client, 1);
    let line = stage.next(&client);
    let asked = fake.request();
    fake.send(asked.peer, &frames::goodbye());
    std::thread::sleep(Duration::from_millis(30));
    fake.close(asked.peer);
    let again = fake.request();
    assert_ne!(again.peer, asked.peer, "after a goodbye nothing more is sent");
    fake.give(&again, 2);
    assert_eq!(stage.wait(line).id(), 2);
}

fn goodbye_with_answer(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let client = stage.open();
    stage.gets(&mut fake, &client, 1);
    let line = stage.next(&client);
    let asked = fake.request();
    let bytes = [frames::ids(asked.id, &[(2, 1)]), frames::goodbye()].concat();
    fake.send(asked.peer, &bytes);
    assert_eq!(stage.wait(line).id(), 2);
    let old = asked.peer;
    let line = stage.next(&client);
    let began = Instant::now();
    let mut closed = false;
    let answer = stage.serve(&mut fake, line, |fake, asked| {
        // A request may cross with the goodbye.
        if asked.peer == old {
            assert!(!closed);
            fake.close(old);
            closed = true;
        } else {
            fake.give(&asked, 3);
        }
    });
    assert_eq!(answer.id(), 3);
    assert!(began.elapsed() < PATIENCE);
}

fn goodbye_silences(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let client = stage.open();
    stage.gets(&mut fake, &client, 1);
    let line = stage.next(&client);
    let asked = fake.request();
    // The goodbye is read before the answer.
    let bytes = [frames::goodbye(), frames::ids(asked.id, &[(2, 1)])].concat();
    fake.send(asked.peer, &bytes);
    assert_eq!(stage.wait(line).id(), 2);
    let line = stage.next(&client);
    let next = fake.request();
    assert_ne!(next.peer, asked.peer, "it asks on a connection that said goodbye");
    fake.give(&next, 3);
    assert_eq!(stage.wait(line).id(), 3);
}

fn shutting_down(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let client = stage.open();
    stage.gets(&mut fake, &client, 1);
    let line = stage.next(&client);
    let asked = fake.request();
    fake.send(asked.peer, &frames::error(asked.id, 309));
    let again = fake.request();
    assert_ne!(again.peer, asked.peer, "it repeats on the connection of a daemon that stops");
    fake.give(&again, 2);
    assert_eq!(stage.wait(line).id(), 2);
}

fn stopping_connection(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let client = stage.open();
    stage.gets(&mut fake, &client, 1);
    let line = stage.next(&client);
    let asked = fake.request();
    fake.send(asked.peer, &frames::error(0, 309));
    fake.close(asked.peer);
    let again = fake.request();
    fake.give(&again, 2);
    assert_eq!(stage.wait(line).id(), 2);
}

fn forbidden_connection(stage: &mut Stage<'_>) {
    let mut fake = stage.fake();
    let client = stage.open();
    let peer = stage.gets(&mut fake, &client, 1);
    let line = stage.next(&client);
    let asked = fake.request();
    fake.send(asked.peer, &frames::error_with(0, 206, 0, 42));
    let failure = stage.wait(line).refused(206);
    assert!(!failure.temporary && failure.all["detail"] == "42", "{}", failure.all);
    // It is useless even if the daemon does not close it.
    fake.wait_closed(asked.peer);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(fake.connects(), peer + 1, "it tries again");
}

fn forbidden_while_idle(stage: &mut Stage<'_>) {
    for _ in 0..3 {
        let mut fake = stage.fake();
        let client = stage.open();
        let peer = stage.gets(&mut fake, &client, 1);
        fake.send(peer, &frames::error(0, 206));
        fake.close(peer);
        std::thread::sleep(Duration::from_millis(30));
        // A client that reads all the time may have taken note of it already, and connects again.
        let line = stage.next(&client);
        let answer = stage.serve(&mut fake, line, |fake, asked| {
            fake.send(asked.peer, &frames::error(0, 206));
        });
        answer.refused(206);
    }
}

fn malformed_connection(stage: &mut Stage<'_>) {
    for number in [103, 105, 199, 250, 999] {
        let mut fake = stage.fake();
        let client = stage.open();
        stage.gets(&mut fake, &client, 1);
        let line = stage.next(&client);
        let asked = fake.request();
        fake.send(asked.peer, &frames::error(0, number));
        stage.wait(line).refused(u64::from(number));
        fake.wait_closed(asked.peer);
        let peer = stage.gets(&mut fake, &client, 2);
        assert_ne!(peer, asked.peer);
    }
}

fn temporary_connection(stage: &mut Stage<'_>) {
    for number in [300, 301, 302, 399] {
        let mut fake = stage.fake();
        let client = stage.open();
        stage.gets(&mut fake, &client, 1);
        let line = stage.next(&client);
        let asked = fake.request();
        fake.send(asked.peer, &frames::error(0, number));
        let again = fake.request();
        assert_ne!(again.peer, asked.peer);
        fake.give(&again, 2);
        assert_eq!(stage.wait(line).id(), 2);
    }
}
