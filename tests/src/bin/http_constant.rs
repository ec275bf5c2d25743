//! A bare hyper that answers a constant: what an answer over HTTP costs at least on this machine.
//! `http_constant 127.0.0.1:8737` serves until it is killed. It runs on one thread, as leafd does.

use std::convert::Infallible;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

fn main() {
    let address = std::env::args().nth(1).expect("an address: IP:PORT");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(serve(&address));
}

async fn serve(address: &str) {
    let listener = TcpListener::bind(address).await.expect("the address is free");
    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        stream.set_nodelay(true).expect("no delay");
        tokio::spawn(
            http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)),
        );
    }
}

async fn answer(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::new(Bytes::from_static(b"1234567"))))
}
