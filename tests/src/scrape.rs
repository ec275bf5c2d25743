//! Scrapes a daemon as Prometheus does, and reads what comes back. Speaks HTTP/1.0 by hand, so that no
//! answer is chunked.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::PATIENCE;
use crate::daemon::Home;

/// Asks for OpenMetrics, as Prometheus does.
pub const OPEN_METRICS: &str = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5";

/// Where the daemon of `home` serves HTTP, after it has started this many times.
#[must_use]
pub fn address(home: &Home, starts: usize) -> SocketAddr {
    let log = home.log().wait_times("serving HTTP; try: curl http://", starts);
    let (_, rest) = log.rsplit_once("curl http://").expect("the address");
    let (address, _) = rest.split_once('/').expect("a path");
    address.parse().expect("an address")
}

/// The answer to a `GET`.
#[derive(Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The lines of the head, in lower case.
    pub head: String,
    /// The body.
    pub body: String,
}

/// Sends a `GET` with this header `Accept`.
#[must_use]
pub fn get(address: SocketAddr, path: &str, accept: &str) -> Answer {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\nAccept: {accept}\r\n\r\n")
        .expect("it reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {text}"));
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
    Answer {
        status: status.unwrap_or_else(|| panic!("no status: {head}")),
        head: head.to_lowercase(),
        body: body.to_owned(),
    }
}

/// A scrape.
#[derive(Debug)]
pub struct Scrape {
    /// The whole text.
    pub text: String,
    samples: Vec<Sample>,
}

#[derive(Debug)]
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

/// Scrapes the daemon at `address`.
#[must_use]
pub fn scrape(address: SocketAddr) -> Scrape {
    scrape_as(address, OPEN_METRICS)
}

/// Scrapes the daemon at `address`, with this header `Accept`.
#[must_use]
pub fn scrape_as(address: SocketAddr, accept: &str) -> Scrape {
    let answer = get(address, "/metrics", accept);
    assert_eq!(answer.status, 200, "{answer:?}");
    let lines = answer.body.lines().filter(|line| !line.starts_with('#'));
    let samples = lines.map(sample).collect();
    Scrape { text: answer.body, samples }
}

fn sample(line: &str) -> Sample {
    let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value: {line}"));
    let (name, labels) = series.split_once('{').unwrap_or((series, ""));
    let labels = labels.trim_end_matches('}').split_terminator("\",");
    let labels = labels.map(|label| {
        let (name, value) = label.split_once("=\"").unwrap_or_else(|| panic!("{line}"));
        (name.to_owned(), value.trim_end_matches('"').to_owned())
    });
    let value = value.parse().unwrap_or_else(|error| panic!("{line}: {error}"));
    Sample { name: name.to_owned(), labels: labels.collect(), value }
}

impl Scrape {
    /// The value of the sample with this name that has these labels, perhaps among others.
    #[must_use]
    pub fn find(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let has = |sample: &&Sample| {
            let has = |(label, value): &(&str, &str)| {
                sample.labels.get(*label).is_some_and(|found| found == value)
            };
            sample.name == name && labels.iter().all(has)
        };
        self.samples.iter().find(has).map(|sample| sample.value)
    }

    /// As [`Self::find`], for a sample that has to be there.
    #[must_use]
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let found = self.find(name, labels);
        found.unwrap_or_else(|| panic!("there is no {name}{labels:?} in\n{}", self.text))
    }

    /// The values of a label, over all samples with this name.
    #[must_use]
    pub fn values_of(&self, name: &str, label: &str) -> BTreeSet<&str> {
        let samples = self.samples.iter().filter(|sample| sample.name == name);
        samples.filter_map(|sample| sample.labels.get(label).map(String::as_str)).collect()
    }

    /// The names in the comments `# TYPE`, with their types.
    #[must_use]
    pub fn types(&self) -> BTreeMap<&str, &str> {
        let types = self.text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        types.map(|line| line.split_once(' ').expect("a type")).collect()
    }

    /// The labels of the samples of each name; `le` of a histogram is left out.
    #[must_use]
    pub fn labels(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let mut labels = BTreeMap::<_, BTreeSet<_>>::new();
        for sample in &self.samples {
            let names = sample.labels.keys().map(String::as_str).filter(|name| *name != "le");
            labels.entry(sample.name.as_str()).or_default().extend(names);
        }
        labels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_read_with_and_without_labels() {
        let samples = ["a_total 3", "b{x=\"1\",y=\"a, b\"} 2.5", "c{le=\"+Inf\"} 1e3"].map(sample);
        let scrape = Scrape { text: String::new(), samples: samples.into() };
        assert_eq!(scrape.value("a_total", &[]), 3.0);
        assert_eq!(scrape.value("b", &[("y", "a, b")]), 2.5);
        assert_eq!(scrape.find("b", &[("y", "b")]), None);
        assert_eq!(scrape.value("c", &[("le", "+Inf")]), 1000.0);
        assert_eq!(scrape.labels()["b"], BTreeSet::from(["x", "y"]));
    }
}
