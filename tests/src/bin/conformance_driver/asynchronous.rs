//! The asynchronous client on tokio: each line is a task.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::UNIX_EPOCH;

use leaf_client::Client;
use leaf_client::pool::Pool;
use serde_json::json;
use tokio::sync::oneshot;

use crate::blocking::on_pool;
use crate::common::{
    self, Line, Outcome, closed, error, in_child, many, one, plain_error, without_client,
};
use crate::{messages, storm};

#[derive(Default)]
struct Driver {
    clients: Mutex<HashMap<String, Option<Client>>>,
    pools: Mutex<HashMap<String, Option<Pool>>>,
    /// How to cancel the lines in flight.
    cancels: Mutex<HashMap<u64, oneshot::Sender<()>>>,
}

/// Answers lines until the end of the input.
pub fn run() {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().expect("a runtime");
    let driver = Arc::new(Driver::default());
    for text in std::io::stdin().lines() {
        let line = Line::read(&text.expect("a line"));
        let (cancel, cancelled) = oneshot::channel();
        lock(&driver.cancels).insert(line.id(), cancel);
        let driver = Arc::clone(&driver);
        runtime.spawn(async move {
            let outcome = tokio::select! {
                outcome = driver.obey(&line) => outcome,
                Ok(()) = cancelled => Err(plain_error("cancelled", "the future was dropped")),
            };
            lock(&driver.cancels).remove(&line.id());
            common::answer(line.id(), outcome);
        });
    }
    runtime.shutdown_background();
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Driver {
    async fn obey(&self, line: &Line) -> Outcome {
        if let Some(outcome) = without_client(line) {
            return outcome;
        }
        match line.op() {
            "about" => Ok(common::about("async", true)),
            "open" => {
                let client = Client::new(line.options());
                lock(&self.clients).insert(line.text("client").to_owned(), Some(client));
                Ok(json!({}))
            }
            "close" => {
                lock(&self.clients).insert(line.text("client").to_owned(), None);
                Ok(json!({}))
            }
            "cancel" => {
                let target = line.0["target"].as_u64().expect("a line");
                if let Some(cancel) = lock(&self.cancels).remove(&target) {
                    let _ = cancel.send(());
                }
                Ok(json!({}))
            }
            "storm" => Ok(storm::of_tasks(line).await),
            op if op.starts_with("pool_") => self.on_pool(line).await,
            _ => self.call(line).await,
        }
    }

    async fn call(&self, line: &Line) -> Outcome {
        let name = line.text("client");
        let known = lock(&self.clients).get(name).cloned();
        let known = known.unwrap_or_else(|| panic!("no client {name}"));
        let mut client = known.ok_or_else(closed)?;
        if let Some(timeout) = line.timeout() {
            client = client.with_timeout(timeout);
        }
        match line.op() {
            "next" => one(client.next(line.text("tag")).await),
            "next_many" => many(client.next_many(line.text("tag"), line.number("count")).await),
            "snowflake" => one(client.snowflake().await),
            "snowflakes" => many(client.snowflake_many(line.number("count")).await),
            "time" => {
                let time = client.time().await.map_err(|failed| error(&failed))?;
                let since = time.duration_since(UNIX_EPOCH).expect("a time after 1970");
                Ok(json!({"unix_ms": since.as_millis().to_string()}))
            }
            "status" => {
                let status = client.status().await.map_err(|failed| error(&failed))?;
                Ok(messages::status(&status))
            }
            "fork_next" => {
                let tag = line.text("tag").to_owned();
                let forked = tokio::task::spawn_blocking(move || {
                    in_child(|| {
                        // The parent's runtime does not work here; the client has to notice by itself.
                        let mut runtime = tokio::runtime::Builder::new_current_thread();
                        let runtime = runtime.enable_all().build().expect("a runtime");
                        one(runtime.block_on(client.next(&tag)))
                    })
                });
                forked.await.expect("the child's result")
            }
            other => Err(plain_error("unsupported", other)),
        }
    }

    async fn on_pool(&self, line: &Line) -> Outcome {
        if ["pool_open", "pool_close"].contains(&line.op()) {
            return crate::blocking::obey_pool(&mut lock(&self.pools), line);
        }
        let name = line.text("pool");
        let known = lock(&self.pools).get(name).cloned();
        let known = known.unwrap_or_else(|| panic!("no pool {name}"));
        let pool = known.ok_or_else(closed)?;
        match (line.op(), line.timeout()) {
            ("pool_next", None) => one(pool.next_async().await),
            ("pool_next", Some(timeout)) => one(pool.next_async_within(timeout).await),
            // These block.
            _ => {
                let line = line.clone();
                let done = tokio::task::spawn_blocking(move || on_pool(&pool, &line));
                done.await.expect("no panic")
            }
        }
    }
}
