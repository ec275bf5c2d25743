//! Drives one connection with blocking writes and reads, so that the latency is that of the daemon
//! and of two system calls and nothing else.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use super::link::{Break, Link, lost};
use super::socket::{self, ReconnectDelay};
use super::watchdog::Watchdog;
use super::{Nanos, READ_LEN, Run, TICK, nanos};
use crate::exit::Failure;

/// Runs until the plan is complete.
pub(super) fn drive(run: &mut Run<'_>) -> Result<(), Failure> {
    let mut link = Link::new(run.plan);
    let mut buffer = vec![0; READ_LEN];
    let mut back_off = ReconnectDelay::new();
    while !run.is_over() {
        match connect(run) {
            Err(error) => run.meter.failed_connect(error.to_string()),
            Ok((mut stream, watchdog)) => {
                link.reset(run.now());
                let (link, buffer, back_off) = (&mut link, &mut buffer, &mut back_off);
                match converse(&mut stream, &watchdog, link, buffer, run, back_off) {
                    Ok(()) => return Ok(()),
                    Err(Break::Fatal(failure)) => return Err(failure),
                    Err(Break::Lost(why)) => run.meter.disconnect(why, link.in_flight()),
                }
            }
        }
        let now = run.now();
        sleep(run, now.saturating_add(nanos(back_off.next())));
    }
    Ok(())
}

fn connect(run: &Run<'_>) -> io::Result<(UnixStream, Watchdog)> {
    let stream = socket::open(&run.plan.socket)?;
    stream.set_nonblocking(false)?;
    let watchdog = Watchdog::watch(&stream, run.patience())?;
    Ok((stream, watchdog))
}

/// Sends requests and reads answers until the run is over and no answer is outstanding.
fn converse(
    stream: &mut UnixStream,
    watchdog: &Watchdog,
    link: &mut Link,
    buffer: &mut [u8],
    run: &mut Run<'_>,
    back_off: &mut ReconnectDelay,
) -> Result<(), Break> {
    loop {
        if run.is_over() {
            if link.in_flight() == 0 {
                return Ok(());
            }
        } else {
            link.refill(run.now());
            if !link.outgoing().is_empty() {
                stream.write_all(link.outgoing()).map_err(lost)?;
                link.wrote(link.outgoing().len());
            } else if let Some(until) = link.idle_until(run.now()) {
                sleep(run, until);
                watchdog.pet();
                continue;
            }
        }
        let len = match stream.read(buffer) {
            Ok(0) => {
                return Err(Break::Lost(
                    "leafd closed the connection, or did not answer in time".to_owned(),
                ));
            }
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(lost(error)),
        };
        let now = run.now();
        run.tick(now);
        link.take(buffer.get(..len).unwrap_or_default(), now, &mut run.meter)?;
        watchdog.pet();
        *back_off = ReconnectDelay::new();
    }
}

/// Sleeps until `until`, or until the run ends.
fn sleep(run: &mut Run<'_>, until: Nanos) {
    loop {
        let now = run.now();
        run.tick(now);
        if run.is_over() || now >= until {
            return;
        }
        thread::sleep(Duration::from_nanos(until - now).min(TICK));
    }
}
