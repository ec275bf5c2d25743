//! The HTTP server. [`transport`] starts and stops it, on a thread of its own: `accept` takes
//! connections, `roster` decides which of them make room for others, and `connection` lives through
//! each over a `stream`. `exchange` answers one request: it looks the path up in the table of
//! `router`, lets `guard` refuse what a browser or a stranger must not ask, and calls the handler of
//! one of the families of routes: `health`, `leaf`, `metrics`, `api`, `page`. A `caller` has the
//! sessions in which [`crate::service`] decides what a request means.

mod accept;
mod answer;
mod api;
mod body;
mod caller;
mod connection;
mod exchange;
mod facts;
mod forms;
mod guard;
mod health;
mod leaf;
mod limits;
mod metrics;
mod page;
mod peer;
mod problem;
mod query;
mod request;
mod roster;
mod route;
mod router;
mod server;
mod stream;
pub(crate) mod transport;
mod watchers;
mod wrong_tokens;
