//! The blocking client: one line after the other, on the only thread of the driver, so that it can fork.

use std::collections::HashMap;
use std::time::{Duration, UNIX_EPOCH};

use leaf_client::Error;
use leaf_client::blocking::Client;
use leaf_client::pool::Pool;
use serde_json::{Value, json};

use crate::common::{
    self, Line, Outcome, closed, error, in_child, many, one, plain_error, stats, without_client,
};
use crate::{messages, storm};

/// Clients by name; none once closed.
#[derive(Default)]
struct Driver {
    clients: HashMap<String, Option<(Client, Duration)>>,
    pools: HashMap<String, Option<Pool>>,
}

/// Answers lines until the end of the input.
pub fn run() {
    let mut driver = Driver::default();
    for text in std::io::stdin().lines() {
        let line = Line::read(&text.expect("a line"));
        common::answer(line.id(), driver.obey(&line));
    }
}

impl Driver {
    fn obey(&mut self, line: &Line) -> Outcome {
        if let Some(outcome) = without_client(line) {
            return outcome;
        }
        match line.op() {
            "about" => Ok(common::about("blocking", false)),
            "open" => {
                let client = Client::new(line.options());
                let timeout = line.timeout().unwrap_or(Duration::from_secs(5));
                self.clients.insert(line.text("client").to_owned(), Some((client, timeout)));
                Ok(json!({}))
            }
            "close" => {
                self.clients.insert(line.text("client").to_owned(), None);
                Ok(json!({}))
            }
            "storm" => Ok(storm::of_processes(line)),
            op if op.starts_with("pool_") => obey_pool(&mut self.pools, line),
            _ => self.call(line),
        }
    }

    fn call(&mut self, line: &Line) -> Outcome {
        let name = line.text("client");
        let known = self.clients.get_mut(name).unwrap_or_else(|| panic!("no client {name}"));
        let (client, timeout) = known.as_mut().ok_or_else(closed)?;
        client.set_timeout(line.timeout().unwrap_or(*timeout));
        match line.op() {
            "next" => one(client.next(line.text("tag"))),
            "next_many" => many(client.next_many(line.text("tag"), line.number("count"))),
            "snowflake" => one(client.snowflake()),
            "snowflakes" => many(client.snowflake_many(line.number("count"))),
            "time" => {
                let time = client.time().map_err(|failed| error(&failed))?;
                let since = time.duration_since(UNIX_EPOCH).expect("a time after 1970");
                Ok(json!({"unix_ms": since.as_millis().to_string()}))
            }
            "status" => {
                client.status().map(|it| messages::status(&it)).map_err(|failed| error(&failed))
            }
            "fork_next" => in_child(|| one(client.next(line.text("tag")))),
            other => Err(plain_error("unsupported", other)),
        }
    }
}

/// The ops on pools, which are the same in both modes but for waiting.
pub fn obey_pool(pools: &mut HashMap<String, Option<Pool>>, line: &Line) -> Outcome {
    let name = line.text("pool");
    match line.op() {
        "pool_open" => {
            let pool = line.pool().map_err(|failed| error(&failed))?;
            pools.insert(name.to_owned(), Some(pool));
            return Ok(json!({}));
        }
        "pool_close" => {
            pools.insert(name.to_owned(), None);
            return Ok(json!({}));
        }
        _ => {}
    }
    let known = pools.get(name).unwrap_or_else(|| panic!("no pool {name}"));
    let pool = known.as_ref().ok_or_else(closed)?;
    on_pool(pool, line)
}

/// An op on an open pool.
pub fn on_pool(pool: &Pool, line: &Line) -> Outcome {
    match line.op() {
        "pool_next" => one(next(pool, line.timeout())),
        "pool_try_next" => {
            let runs: Vec<Value> =
                pool.try_next().iter().map(|id| json!([id.to_string(), 1])).collect();
            Ok(json!({"runs": runs}))
        }
        "pool_next_many" => many(pool.next_many(line.number("count"))),
        "pool_stats" => Ok(stats(pool.stats())),
        "pool_fork_next" => in_child(|| one(pool.next())),
        other => Err(plain_error("unsupported", other)),
    }
}

fn next(pool: &Pool, timeout: Option<Duration>) -> Result<u64, Error> {
    match timeout {
        Some(timeout) => pool.next_within(timeout),
        None => pool.next(),
    }
}
