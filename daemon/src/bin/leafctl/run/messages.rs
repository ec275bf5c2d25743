//! Prints messages on stderr in a thread of its own: a reader that does not read must not delay the
//! end of the command.

use std::io::Write;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// Messages that wait for the reader. More are dropped.
const WAITING: usize = 64;
/// How long the end waits for the reader.
const PATIENCE: Duration = Duration::from_millis(500);

/// The way to stderr.
#[derive(Debug)]
pub(super) struct Messages {
    lines: SyncSender<String>,
    done: Receiver<()>,
}

impl Messages {
    pub(super) fn start() -> Self {
        let (lines, waiting) = sync_channel::<String>(WAITING);
        let (tell, done) = sync_channel(1);
        let print = move || {
            for line in waiting {
                // If stderr is closed, nobody wants to know.
                let _ = std::io::stderr().write_all(line.as_bytes());
            }
            let _ = tell.send(());
        };
        // Without a thread there are no messages. The exit status still says how it ended.
        let _ = thread::Builder::new().name("messages".to_owned()).spawn(print);
        Self { lines, done }
    }

    pub(super) fn say(&self, text: &str) {
        let _ = self.lines.try_send(format!("leafctl run: {text}\n"));
    }

    /// Waits until all is printed, but not for long.
    pub(super) fn finish(self) {
        drop(self.lines);
        let _ = self.done.recv_timeout(PATIENCE);
    }
}
