//! Writes what a connection has answered, also to a client that does not read for a while.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use tokio::io::Interest;

use super::Connection;
use crate::transport::unix::scratch;

impl Connection {
    /// Writes the answers. The socket has room for them as long as the client reads.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        let mut written = 0;
        while let Some(rest) = self.output.get(written..).filter(|rest| !rest.is_empty()) {
            match self.stream.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // Wait with a buffer of just the right size, and give the large one back.
                    let rest = rest.to_vec();
                    scratch::give_output(std::mem::replace(&mut self.output, rest));
                    written = 0;
                    self.wait_for_room().await?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.output.clear();
        Ok(())
    }

    /// Waits until the client has read something, at most for the write timeout.
    async fn wait_for_room(&mut self) -> io::Result<()> {
        self.stream.watch(Interest::WRITABLE)?;
        let (stream, timer) = (&self.stream, &self.timer);
        let now = self.server.service.environment.now();
        timer.wake_at(now + self.limits.write_timeout);
        poll_fn(|cx| match stream.poll_room(cx) {
            Poll::Ready(outcome) => Poll::Ready(outcome),
            Poll::Pending => timer.poll_due(cx).map(|()| Err(io::ErrorKind::TimedOut.into())),
        })
        .await?;
        // The timer is for requests again.
        timer.wake_at(now + self.limits.request_timeout);
        self.stream.watch(self.interest())
    }
}
