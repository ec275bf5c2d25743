//! The thread that accepts connections for the fake daemon.

use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use super::connection::FakeConnection;
use super::shared::SharedState;

/// Listens on `path` and starts the thread that accepts connections.
pub(super) fn listen(path: &Path, shared: &Arc<SharedState>) -> io::Result<JoinHandle<()>> {
    let listener = UnixListener::bind(path)?;
    shared.start_listening();
    let shared = Arc::clone(shared);
    std::thread::Builder::new().name("fake-leafd".into()).spawn(move || accept(&listener, &shared))
}

fn accept(listener: &UnixListener, shared: &Arc<SharedState>) {
    for stream in listener.incoming() {
        let Ok(stream) = stream.map(Arc::new) else { continue };
        let Some(number) = shared.opened(&stream) else { return };
        let shared_too = Arc::clone(shared);
        let serve = move || {
            FakeConnection::new(&stream, &shared_too).serve();
            // Other threads may still hold the stream. The client has to see its end now.
            let _ = stream.shutdown(Shutdown::Both);
            shared_too.closed(number);
        };
        if std::thread::Builder::new().name("fake-leafd-peer".into()).spawn(serve).is_err() {
            shared.closed(number);
        }
    }
}
