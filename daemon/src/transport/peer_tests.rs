use std::net::Ipv4Addr;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};

use leaf_client::wire::{MAGIC, Request, VERSION, decode_response, encode_request};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::task::JoinHandle;

use super::*;

const NOW_MS: u64 = 1_700_000_000_000;

/// How long a test waits before it gives up. No test measures time by it.
const PATIENCE: Duration = Duration::from_secs(60);

const BRIEFLY: Duration = Duration::from_millis(100);

/// The real limits, with more time than a slow machine needs.
const PATIENT: PeerLimits = PeerLimits { hello: PATIENCE, request: PATIENCE, ..LIMITS };

const HELLO: Call<'_> = Call::Hello { magic: MAGIC, version: VERSION };

struct PeerServer {
    address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl PeerServer {
    fn start(limits: PeerLimits) -> Self {
        let mut listener = PeerListener::bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        listener.limits = limits;
        let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        let task = tokio::spawn(listener.serve(Environment::with_time(|| NOW_MS), stop.clone()));
        Self { address, stop, task }
    }

    async fn connect(&self) -> PeerConnection {
        PeerConnection(TcpStream::connect(self.address).await.unwrap())
    }

    async fn greeted(&self) -> PeerConnection {
        let mut connection = self.connect().await;
        connection.send(&frame(1, HELLO)).await;
        let answer = connection.receive().await;
        assert!(
            matches!(answer, Some(Response { id: 1, reply: Reply::Hello { .. } })),
            "{answer:?}"
        );
        connection
    }

    /// Checks that a new client gets the time.
    async fn check_serves(&self) {
        let mut connection = self.greeted().await;
        connection.send(&frame(2, Call::Time)).await;
        assert_eq!(connection.receive().await, Some(time(2)));
    }
}

/// A connection that sends whatever the test wants.
struct PeerConnection(TcpStream);

impl PeerConnection {
    async fn send(&mut self, bytes: &[u8]) {
        timeout(PATIENCE, self.0.write_all(bytes)).await.unwrap().unwrap();
    }

    /// The next answer; none if the connection has ended.
    async fn receive(&mut self) -> Option<Response> {
        let body = timeout(PATIENCE, read_frame(&mut self.0, 4096)).await.unwrap().ok()?;
        Some(decode_response(&body).unwrap())
    }

    /// The next answer, which must be an error, with the ID of its request.
    async fn refusal(&mut self) -> (u64, WireError) {
        match self.receive().await {
            Some(Response { id, reply: Reply::Error(error) }) => (id, error),
            other => panic!("{other:?}"),
        }
    }
}

fn frame(id: u64, call: Call<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    encode_request(&Request { id, call }, &mut out);
    out
}

fn frame_of(body: &[u8]) -> Vec<u8> {
    [&u32::try_from(body.len()).unwrap().to_be_bytes(), body].concat()
}

fn time(id: u64) -> Response {
    Response { id, reply: Reply::Time { unix_ms: NOW_MS } }
}

#[tokio::test]
async fn hello_and_time_are_answered_even_if_they_arrive_together_or_in_pieces() {
    let server = PeerServer::start(PATIENT);
    let mut connection = server.connect().await;
    connection.send(&[frame(1, HELLO), frame(2, Call::Time)].concat()).await;
    let reply = Reply::Hello { version: VERSION, max_count: 0, max_in_flight: 64 };
    assert_eq!(connection.receive().await, Some(Response { id: 1, reply }));
    assert_eq!(connection.receive().await, Some(time(2)));
    for byte in frame(u64::MAX, Call::Time) {
        connection.send(&[byte]).await;
    }
    assert_eq!(connection.receive().await, Some(time(u64::MAX)));
}

#[tokio::test]
async fn calls_for_the_unix_socket_are_forbidden_and_the_connection_stays_open() {
    let server = PeerServer::start(PATIENT);
    let mut connection = server.greeted().await;
    let (tag, description) = ("orders", "");
    for call in [
        Call::Segment { tag, count: 1, timeout_ms: 0 },
        Call::Snowflake { count: 1, timeout_ms: 0 },
        Call::Status,
        Call::TagList { after: "", limit: 100 },
        Call::TagShow { tag },
        Call::TagCreate { tag, step: 0, first: 1, description },
        Call::TagSetStep { tag, step: 1 },
        Call::TagDelete { tag },
        Call::TagsUsed { after: "", limit: 100 },
    ] {
        connection.send(&frame(7, call)).await;
        let (id, error) = connection.refusal().await;
        assert_eq!((id, error.code()), (7, ErrorCode::Forbidden));
        assert!(error.message.contains("Unix socket"), "{error}");
    }
    connection.send(&frame(8, Call::Time)).await;
    assert_eq!(connection.receive().await, Some(time(8)));
}

#[tokio::test]
async fn a_wrong_hello_is_answered_with_the_reason_and_closes_the_connection() {
    let server = PeerServer::start(PATIENT);
    let unknown = frame_of(&[[7; 8].as_slice(), &[99, 0, 0, 0]].concat());
    for (first, id, code) in [
        (frame(7, Call::Time), 7, ErrorCode::HelloExpected),
        (unknown, u64::from_le_bytes([7; 8]), ErrorCode::HelloExpected),
        (frame(7, Call::Hello { magic: *b"FAEL", version: 1 }), 7, ErrorCode::BadMagic),
        (frame(7, Call::Hello { magic: MAGIC, version: 0 }), 7, ErrorCode::VersionUnsupported),
        (frame(0, HELLO), 0, ErrorCode::Malformed),
        (frame_of(&[]), 0, ErrorCode::Malformed),
        (frame_of(&[7, 0, 0, 0, 0, 0, 0, 0, 0]), 7, ErrorCode::Malformed),
        (vec![0, 0, 1, 1], 0, ErrorCode::FrameTooLarge),
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), 0, ErrorCode::FrameTooLarge),
    ] {
        let mut connection = server.connect().await;
        connection.send(&first).await;
        let (told, error) = connection.refusal().await;
        assert_eq!((told, error.code()), (id, code), "{first:02x?}");
        assert_eq!(connection.receive().await, None, "{first:02x?}");
    }
    server.check_serves().await;
}

#[tokio::test]
async fn after_the_hello_only_a_message_without_end_or_id_closes_the_connection() {
    let server = PeerServer::start(PATIENT);
    let mut connection = server.greeted().await;
    for (body, code) in [
        ([[7; 8].as_slice(), &[99, 0, 0, 0]].concat(), ErrorCode::UnknownCall),
        ([[7; 8].as_slice(), &[3, 0, 0, 0, 0]].concat(), ErrorCode::Malformed),
        ([7; 8].to_vec(), ErrorCode::Malformed),
    ] {
        connection.send(&frame_of(&body)).await;
        let (id, error) = connection.refusal().await;
        assert_eq!((id, error.code()), (u64::from_le_bytes([7; 8]), code), "{body:02x?}");
    }
    connection.send(&frame(2, HELLO)).await;
    assert!(matches!(
        connection.receive().await,
        Some(Response { id: 2, reply: Reply::Hello { .. } })
    ));
    connection.send(&u32::MAX.to_be_bytes()).await;
    let (id, error) = connection.refusal().await;
    assert_eq!((id, error.code(), error.detail), (0, ErrorCode::FrameTooLarge, 256));
    assert_eq!(connection.receive().await, None);

    let mut connection = server.greeted().await;
    connection.send(&frame(0, Call::Time)).await;
    let (id, error) = connection.refusal().await;
    assert_eq!((id, error.code()), (0, ErrorCode::Malformed));
    assert_eq!(connection.receive().await, None);
}

#[tokio::test]
async fn garbage_harms_no_other_connection() {
    let server = PeerServer::start(PATIENT);
    let mut bystander = server.greeted().await;
    let mut random = fastrand::Rng::with_seed(4);
    for round in 0..500 {
        let mut connection =
            if round % 2 == 0 { server.connect().await } else { server.greeted().await };
        let mut garbage = vec![0; random.usize(..600)];
        random.fill(&mut garbage);
        if round % 3 != 0 && garbage.len() > 4 {
            // A valid length, so that the server looks at the rest.
            garbage[..4].copy_from_slice(&[0, 0, 0, random.u8(..40)]);
        }
        // The server may already have hung up.
        let _ = connection.0.write_all(&garbage).await;
        let _ = connection.0.shutdown().await;
        while connection.receive().await.is_some() {}
    }
    bystander.send(&frame(2, Call::Time)).await;
    assert_eq!(bystander.receive().await, Some(time(2)));
    server.check_serves().await;
}

#[tokio::test]
async fn a_connection_without_a_complete_hello_is_closed() {
    let server = PeerServer::start(PeerLimits { hello: BRIEFLY, ..PATIENT });
    let hello = frame(1, HELLO);
    for said in [0, 2, 4, hello.len() - 1] {
        let mut connection = server.connect().await;
        connection.send(&hello[..said]).await;
        assert_eq!(connection.receive().await, None, "after {said} bytes");
    }
}

#[tokio::test]
async fn a_connection_without_a_complete_next_request_is_closed() {
    let server = PeerServer::start(PeerLimits { request: BRIEFLY, ..PATIENT });
    let request = frame(2, Call::Time);
    for said in [0, 2, 4, request.len() - 1] {
        let mut connection = server.greeted().await;
        connection.send(&request[..said]).await;
        assert_eq!(connection.receive().await, None, "after {said} bytes");
    }
}

#[tokio::test]
async fn sending_a_byte_now_and_then_keeps_no_connection_open() {
    let server = PeerServer::start(PeerLimits { request: BRIEFLY, ..PATIENT });
    let mut connection = server.greeted().await;
    let (mut input, mut output) = connection.0.split();
    let mut drops = frame_of(&[0; MAX_REQUEST]).into_iter();
    let mut answer = pin!(read_frame(&mut input, 4096));
    let ended = loop {
        tokio::select! {
            ended = &mut answer => break ended,
            () = tokio::time::sleep(BRIEFLY / 4) => {
                let drop = drops.next().expect("closed before the request is complete");
                // The server may close it at this moment.
                let _ = output.write_all(&[drop]).await;
            }
        }
    };
    assert!(matches!(ended, Err(ReadError::Io(_))), "{ended:?}");
}

#[tokio::test]
async fn a_client_that_does_not_read_is_closed_and_the_others_are_served() {
    let request = Duration::from_secs(1);
    let server = PeerServer::start(PeerLimits { request, requests: u32::MAX, ..PATIENT });
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut connection = PeerConnection(socket.connect(server.address).await.unwrap());
    connection.send(&frame(1, HELLO)).await;
    let many = frame(2, Call::Time).repeat(1000);
    // Writing blocks while neither side reads, and fails once the server has closed the connection.
    while timeout(PATIENCE, connection.0.write_all(&many)).await.expect("to be closed").is_ok() {}
    server.check_serves().await;
}

#[tokio::test]
async fn a_connection_is_closed_after_the_maximum_number_of_requests() {
    let server = PeerServer::start(PATIENT);
    let mut connection = server.greeted().await;
    for id in 2..=u64::from(LIMITS.requests) {
        connection.send(&frame(id, Call::Time)).await;
        assert_eq!(connection.receive().await, Some(time(id)));
    }
    assert_eq!(connection.receive().await, None);
}

#[tokio::test]
async fn of_two_thousand_connections_those_within_the_limit_are_served_and_the_others_refused() {
    const CONNECTIONS: usize = 2000;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let needed = 2 * CONNECTIONS as u64 + 500;
    assert!(hard >= needed, "this test needs `ulimit -Hn` of {needed}; it is {hard}");
    setrlimit(Resource::RLIMIT_NOFILE, soft.max(needed), hard).unwrap();
    let server = PeerServer::start(PATIENT);
    let mut served = Vec::new();
    for _ in 0..MAX_CONNECTIONS {
        served.push(server.connect().await);
    }
    let mut refused = Vec::new();
    for _ in MAX_CONNECTIONS..CONNECTIONS {
        refused.push(server.connect().await);
    }
    for connection in &mut refused {
        let (id, error) = connection.refusal().await;
        assert_eq!((id, error.code(), error.detail), (0, ErrorCode::TooManyConnections, 1024));
        assert_eq!(connection.receive().await, None);
    }
    for connection in &mut served {
        connection.send(&[frame(1, HELLO), frame(2, Call::Time)].concat()).await;
        let answer = connection.receive().await;
        assert!(matches!(answer, Some(Response { id: 1, reply: Reply::Hello { .. } })));
        assert_eq!(connection.receive().await, Some(time(2)));
    }
    drop(served);
    // Once the server has noticed that they are gone, it accepts new ones.
    let freed = async {
        loop {
            let mut connection = server.connect().await;
            connection.send(&frame(1, HELLO)).await;
            if matches!(connection.receive().await, Some(Response { id: 1, .. })) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, freed).await.unwrap();
}

#[tokio::test]
async fn accepting_goes_on_after_errors() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let tries = AtomicUsize::new(0);
    let accept = || async {
        let errors = [nix::libc::EMFILE, nix::libc::ENFILE, nix::libc::ECONNABORTED];
        match errors.get(tries.fetch_add(1, Ordering::Relaxed)) {
            Some(&error) => Err(io::Error::from_raw_os_error(error)),
            None => listener.accept().await.map(|(stream, _)| stream),
        }
    };
    let environment = Environment::with_time(|| NOW_MS);
    let asking = async {
        let mut connection = PeerConnection(TcpStream::connect(address).await.unwrap());
        connection.send(&[frame(1, HELLO), frame(2, Call::Time)].concat()).await;
        assert!(connection.receive().await.is_some());
        connection.receive().await
    };
    tokio::select! {
        () = accept_all(accept, PATIENT, &environment) => panic!("the accept loop has ended"),
        answer = asking => assert_eq!(answer, Some(time(2))),
    }
    assert!(tries.load(Ordering::Relaxed) > 3);
}

#[tokio::test]
async fn a_stop_ends_the_connections_and_frees_the_port_for_a_successor() {
    let server = PeerServer::start(PATIENT);
    let taken = PeerListener::bind(server.address).unwrap_err();
    assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
    // The server closes this one, so the kernel remembers the port for a while.
    let mut refused = server.connect().await;
    refused.send(&frame(1, Call::Time)).await;
    assert_eq!(refused.refusal().await.1.code(), ErrorCode::HelloExpected);
    assert_eq!(refused.receive().await, None);
    drop(refused);
    let mut open = server.greeted().await;
    server.stop.cancel();
    timeout(PATIENCE, server.task).await.unwrap().unwrap();
    assert_eq!(open.receive().await, None);
    PeerListener::bind(server.address).unwrap();
}

#[tokio::test]
async fn the_port_can_be_on_ipv6() {
    let listener = match PeerListener::bind("[::1]:0".parse().unwrap()) {
        Ok(listener) => listener,
        // A machine without IPv6.
        Err(error) => return assert_eq!(error.kind(), io::ErrorKind::AddrNotAvailable),
    };
    assert!(listener.local_addr().unwrap().is_ipv6());
}
