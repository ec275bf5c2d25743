//! A web service with a pool: a handler takes an ID from memory and waits only if the pool is empty.
//!
//! ```sh
//! cargo run --release                                             # leafd, in another terminal
//! cargo run -p leaf-client --all-features --example axum_handler  # prints its address
//! curl -X POST http://127.0.0.1:PORT/orders
//! ```

#![expect(clippy::print_stdout, reason = "an example")]

use std::error::Error;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Router, serve};
use leaf_client::pool::{Pool, PoolEvent};
use tokio::net::TcpListener;

/// IDs are text in JSON: a number above 2^53 loses digits in JavaScript.
async fn create(State(orders): State<Pool>) -> Result<String, (StatusCode, String)> {
    match orders.next_async().await {
        Ok(id) => Ok(format!("{{\"id\":\"{id}\"}}\n")),
        Err(error) => Err((StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n"))),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let orders = Pool::tag("orders").on_event(report).build()?;
    let app = Router::new().route("/orders", post(create)).with_state(orders);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/orders", listener.local_addr()?);
    Ok(serve(listener, app).await?)
}

/// Once for each outage, not once for each request.
fn report(event: &PoolEvent) {
    match event {
        PoolEvent::OutageBegan { error, held } => eprintln!("no new IDs, {held} left: {error}"),
        PoolEvent::OutageEnded { after } => eprintln!("new IDs again after {after:?}"),
        _ => {}
    }
}
