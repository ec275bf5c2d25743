use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use tokio::net::TcpSocket;

use super::Proxy;
use crate::PATIENCE;

/// How long a test waits to see that something does not happen.
const A_WHILE: Duration = Duration::from_millis(200);

/// Starts a server that says hello and then echoes. It runs as long as the process.
fn echo() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut out = stream.try_clone().unwrap();
                let _ = out.write_all(b"hello");
                let _ = std::io::copy(&mut &stream, &mut out);
                let _ = out.shutdown(Shutdown::Write);
            });
        }
    });
    port
}

fn connect(proxy: &Proxy) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn greeted(proxy: &Proxy) -> TcpStream {
    let stream = connect(proxy);
    hears(&stream, "hello");
    stream
}

fn hears(mut stream: &TcpStream, text: &str) {
    let mut buffer = vec![0; text.len()];
    stream.read_exact(&mut buffer).unwrap();
    assert_eq!(buffer, text.as_bytes());
}

fn hears_nothing(mut stream: &TcpStream) {
    stream.set_read_timeout(Some(A_WHILE)).unwrap();
    let heard = stream.read(&mut [0]).map_err(|error| error.kind());
    assert!(matches!(heard, Err(ErrorKind::WouldBlock)), "{heard:?}");
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
}

fn is_reset(mut stream: &TcpStream) {
    let heard = stream.read(&mut [0]).map_err(|error| error.kind());
    assert!(matches!(heard, Err(ErrorKind::ConnectionReset)), "{heard:?}");
}

fn says(mut stream: &TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).unwrap();
}

fn wait_for_connections(proxy: &Proxy, count: usize) {
    let began = Instant::now();
    while proxy.connections() != count {
        assert!(began.elapsed() < PATIENCE, "{} connections", proxy.connections());
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn everything_passes_in_both_directions_up_to_the_end_of_each() {
    let proxy = Proxy::to(echo());
    let stream = greeted(&proxy);
    let sent: Vec<u8> = (0..8_000_000_u32).map(|byte| byte.to_le_bytes()[0]).collect();
    let received = std::thread::scope(|scope| {
        scope.spawn(|| {
            (&stream).write_all(&sent).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
        });
        let mut received = Vec::new();
        (&stream).read_to_end(&mut received).unwrap();
        received
    });
    assert!(received == sent, "{} bytes", received.len());
    wait_for_connections(&proxy, 0);
}

#[test]
fn clients_are_reset_if_the_server_is_not_there() {
    // Bound but not listening, so that nobody else gets the port.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let proxy = Proxy::to(socket.local_addr().unwrap().port());
    is_reset(&connect(&proxy));
}

#[test]
fn held_bytes_arrive_in_order_once_the_network_passes_again() {
    let proxy = Proxy::to(echo());
    let (old, leaving) = (greeted(&proxy), greeted(&proxy));
    proxy.hold();
    let new = connect(&proxy);
    for text in ["one ", "two ", "three"] {
        says(&old, text);
        says(&new, text);
    }
    // The end of a connection is held too.
    leaving.shutdown(Shutdown::Write).unwrap();
    for stream in [&old, &new, &leaving] {
        hears_nothing(stream);
    }
    proxy.pass();
    hears(&old, "one two three");
    hears(&new, "helloone two three");
    assert_eq!((&leaving).read(&mut [0]).unwrap(), 0);
}

#[test]
fn a_cut_resets_open_connections_and_new_ones() {
    let proxy = Proxy::to(echo());
    let old = [greeted(&proxy), greeted(&proxy)];
    proxy.cut();
    assert_eq!(proxy.connections(), 0);
    old.iter().for_each(is_reset);
    is_reset(&connect(&proxy));
    // A cut also resets connections that were held or lost.
    proxy.hold();
    let held = connect(&proxy);
    wait_for_connections(&proxy, 1);
    proxy.lose();
    proxy.cut();
    is_reset(&held);
    proxy.pass();
    says(&greeted(&proxy), "again");
}

#[test]
fn a_reset_of_the_server_reaches_the_client() {
    let outer = Proxy::to(echo());
    let inner = Proxy::to(outer.port());
    let stream = greeted(&inner);
    outer.cut();
    is_reset(&stream);
    wait_for_connections(&inner, 0);
}

#[test]
fn a_lost_connection_stays_silent_for_ever_and_a_new_one_works_once_it_passes() {
    let proxy = Proxy::to(echo());
    let (old, leaving) = (greeted(&proxy), greeted(&proxy));
    says(&old, "before");
    hears(&old, "before");
    proxy.lose();
    let new = connect(&proxy);
    says(&old, "lost");
    says(&new, "held");
    drop(leaving);
    hears_nothing(&new);
    proxy.pass();
    hears(&new, "helloheld");
    hears_nothing(&old);
    // The end of a lost connection does not arrive either.
    assert_eq!(proxy.connections(), 3);
    says(&greeted(&proxy), "and another");
}

#[test]
fn a_delay_holds_back_what_a_client_sends_and_keeps_its_order() {
    let proxy = Proxy::to(echo());
    let (slow, never, other) = (greeted(&proxy), greeted(&proxy), greeted(&proxy));
    proxy.delay(PATIENCE * 60);
    says(&never, "late");
    hears_nothing(&never);
    proxy.delay(A_WHILE);
    let began = Instant::now();
    says(&slow, "one");
    hears(&slow, "one");
    assert!(began.elapsed() >= A_WHILE);
    proxy.delay(Duration::ZERO);
    // Delayed bytes do not block other connections, and later bytes do not overtake them.
    says(&never, "after");
    says(&other, "two");
    hears(&other, "two");
    hears_nothing(&never);
}

#[test]
fn dropping_the_proxy_ends_its_connections() {
    let proxy = Proxy::to(echo());
    let stream = greeted(&proxy);
    drop(proxy);
    assert_eq!((&stream).read(&mut [0]).unwrap(), 0);
}
