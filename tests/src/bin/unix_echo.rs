//! A bare echo over a Unix socket, as a baseline for leafd: the cost of one message and its answer with
//! nothing in between. Blocking, with one thread per connection, in two processes:
//!
//! ```text
//! unix_echo serve PATH [--size N] [--answer-size N]
//! unix_echo bench PATH [--size N] [--answer-size N] [--duration 5s] [--warm-up 500ms]
//! ```
//!
//! Both sides need the same sizes. There are no timeouts, since each would cost a timer.

use std::error::Error;
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

const USAGE: &str = "usage: unix_echo serve|bench PATH [--size N] [--answer-size N] \
                     [--duration 5s] [--warm-up 500ms]";

/// Width of a latency bucket in ns.
const BUCKET_NS: u64 = 10;

/// Buckets cover latencies up to 10 ms; slower ones share the last bucket.
const BUCKETS: usize = 1_000_000;

fn main() -> ExitCode {
    let result = Arguments::parse(std::env::args().skip(1))
        .and_then(|arguments| if arguments.serves { serve(&arguments) } else { bench(&arguments) });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "unix_echo: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The command line.
#[derive(Debug)]
struct Arguments {
    serves: bool,
    path: PathBuf,
    /// Bytes of a message. The default is the size of a request for IDs of a tag of six letters.
    size: usize,
    /// Bytes of an answer. The default is the size of an answer with one run of IDs.
    answer_size: usize,
    duration: Duration,
    warm_up: Duration,
}

impl Arguments {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let serves = match words.next().as_deref() {
            Some("serve") => true,
            Some("bench") => false,
            _ => return Err(USAGE.into()),
        };
        let mut arguments = Self {
            serves,
            path: words.next().ok_or(USAGE)?.into(),
            size: 38,
            answer_size: 36,
            duration: Duration::from_secs(5),
            warm_up: Duration::from_millis(500),
        };
        while let Some(option) = words.next() {
            let value = words.next().ok_or(USAGE)?;
            match option.as_str() {
                "--size" => arguments.size = size(&value)?,
                "--answer-size" => arguments.answer_size = size(&value)?,
                "--duration" => arguments.duration = duration(&value)?,
                "--warm-up" => arguments.warm_up = duration(&value)?,
                _ => return Err(USAGE.into()),
            }
        }
        Ok(arguments)
    }
}

fn size(text: &str) -> Result<usize, Box<dyn Error>> {
    match text.parse()? {
        // An empty message would look like the end of the connection. Large ones would measure copying.
        size @ 1..=65_536 => Ok(size),
        _ => Err("a size is 1 to 65536 bytes".into()),
    }
}

fn duration(text: &str) -> Result<Duration, Box<dyn Error>> {
    let (number, unit) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(number), _) => (number, 1),
        (None, Some(number)) => (number, 1000),
        (None, None) => return Err(format!("{text:?} is not a duration; give 500ms or 5s").into()),
    };
    let ms = number.parse::<u64>()?.checked_mul(unit).ok_or("too long a duration")?;
    Ok(Duration::from_millis(ms))
}

/// Answers on every connection until the process ends.
fn serve(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let listener = UnixListener::bind(&arguments.path)
        .map_err(|error| format!("cannot listen at {}: {error}", arguments.path.display()))?;
    let (size, answer_size) = (arguments.size, arguments.answer_size);
    for stream in listener.incoming() {
        match stream {
            // However a connection ends, others go on.
            Ok(stream) => drop(thread::spawn(move || echo(stream, size, answer_size))),
            // For example out of descriptors, until another connection is closed.
            Err(_) => thread::sleep(Duration::from_millis(10)),
        }
    }
    Ok(())
}

fn echo(mut stream: UnixStream, size: usize, answer_size: usize) -> io::Result<()> {
    let mut message = vec![0; size];
    let answer = vec![b'a'; answer_size];
    loop {
        stream.read_exact(&mut message)?;
        stream.write_all(&answer)?;
    }
}

/// Sends one message at a time, and prints the latencies.
fn bench(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let path = &arguments.path;
    let mut stream = UnixStream::connect(path)
        .map_err(|error| format!("cannot connect to {}: {error}", path.display()))?;
    let message = vec![b'm'; arguments.size];
    let mut answer = vec![0; arguments.answer_size];
    let mut exchange = || -> io::Result<u64> {
        let start = Instant::now();
        stream.write_all(&message)?;
        stream.read_exact(&mut answer)?;
        Ok(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    };
    let warm_up = Instant::now();
    while warm_up.elapsed() < arguments.warm_up {
        exchange()?;
    }
    let mut latencies = Latencies::new();
    let start = Instant::now();
    let mut elapsed = Duration::ZERO;
    while elapsed < arguments.duration {
        latencies.record(exchange()?);
        elapsed = start.elapsed();
    }
    let us = |ns: u64| ns as f64 / 1000.0;
    let report = serde_json::json!({
        "size": arguments.size,
        "answer_size": arguments.answer_size,
        "requests": latencies.count,
        "requests_per_second": latencies.count as f64 / elapsed.as_secs_f64(),
        "latency_us": {
            "p50": us(latencies.quantile(0.5)),
            "p90": us(latencies.quantile(0.9)),
            "p99": us(latencies.quantile(0.99)),
            "p99_9": us(latencies.quantile(0.999)),
            "max": us(latencies.max),
        },
    });
    writeln!(io::stdout(), "{report}")?;
    Ok(())
}

/// Counts of latencies in buckets of equal width.
#[derive(Debug)]
struct Latencies {
    buckets: Vec<u32>,
    count: u64,
    max: u64,
}

impl Latencies {
    fn new() -> Self {
        Self { buckets: vec![0; BUCKETS], count: 0, max: 0 }
    }

    fn record(&mut self, ns: u64) {
        let bucket = usize::try_from(ns / BUCKET_NS).unwrap_or(usize::MAX).min(BUCKETS - 1);
        if let Some(count) = self.buckets.get_mut(bucket) {
            *count = count.saturating_add(1);
        }
        self.count += 1;
        self.max = self.max.max(ns);
    }

    /// The latency in ns that this share of the exchanges did not exceed, rounded up to a bucket.
    fn quantile(&self, share: f64) -> u64 {
        let rank = ((self.count as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, count) in (1..).zip(&self.buckets) {
            seen += u64::from(*count);
            if seen >= rank && bucket < BUCKETS as u64 {
                return (bucket * BUCKET_NS).min(self.max);
            }
        }
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(line: &str) -> Result<Arguments, Box<dyn Error>> {
        Arguments::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn the_command_line_is_read_with_its_defaults() {
        let bench = arguments("bench /s --duration 100ms --size 7").unwrap();
        assert_eq!((bench.size, bench.answer_size), (7, 36));
        assert_eq!(bench.duration, Duration::from_millis(100));
        for wrong in ["", "serve", "run /s", "bench /s --size", "bench /s --size 0", "bench /s x 1"]
        {
            assert!(arguments(wrong).is_err(), "{wrong:?}");
        }
        assert!(duration("5").is_err() && duration("99999999999999999999s").is_err());
    }

    #[test]
    fn quantiles_are_those_of_the_latencies_recorded() {
        let mut latencies = Latencies::new();
        assert_eq!(latencies.quantile(0.5), 0);
        (1..=1000).for_each(|us| latencies.record(us * 1000 - 1));
        assert_eq!(latencies.quantile(0.5), 500_000);
        assert_eq!(latencies.quantile(0.999), 999_000);
        latencies.record(3_000_000_000);
        assert_eq!(latencies.quantile(1.0), 3_000_000_000);
    }

    #[test]
    fn every_message_gets_an_answer_of_its_size() {
        let (mut client, server) = UnixStream::pair().unwrap();
        let server = thread::spawn(move || echo(server, 5, 3));
        for _ in 0..3 {
            client.write_all(b"hel").unwrap();
            client.write_all(b"lo").unwrap();
            let mut answer = [0; 3];
            client.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"aaa");
        }
        drop(client);
        assert!(server.join().unwrap().is_err());
    }
}
