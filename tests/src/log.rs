//! The log of a running program. Another thread writes it, so a line appears later than the change that
//! it reports, and a test that looked at the log once would fail on a busy machine. Hence a test can
//! only wait for a line, or print the log in the message of a failed assertion.
//!
//! To assert that a line is missing, read the log of a daemon that has
//! [`Ended`](crate::daemon::Ended), or the log up to a later line, which every wait returns.

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long a test waits for a line before it fails. No test measures time with it.
const PATIENCE: Duration = Duration::from_secs(120);

/// A log that may still grow.
pub struct Log<'a>(Box<dyn Fn() -> String + 'a>);

impl<'a> Log<'a> {
    /// A log whose current text `read` returns.
    pub(crate) fn new(read: impl Fn() -> String + 'a) -> Self {
        Self(Box::new(read))
    }

    /// A log in a file, which need not exist yet.
    pub(crate) fn file(path: PathBuf) -> Self {
        Self::new(move || {
            let bytes = std::fs::read(&path).unwrap_or_default();
            // A kill may cut off a line inside a character.
            String::from_utf8_lossy(&bytes).into_owned()
        })
    }

    /// Waits for a line that contains `text`. Returns the log up to and including that line.
    pub fn wait_for(&self, text: &str) -> String {
        self.wait_times(text, 1)
    }

    /// Waits until this many lines contain `text`. Returns the log up to the last of these lines.
    pub fn wait_times(&self, text: &str, times: usize) -> String {
        self.wait(&format!("{times} × {text:?}"), times, |line| line.contains(text), || {})
    }

    /// Repeats `action` until a line satisfies `is_it`. Returns the log up to and including that line.
    pub fn wait_while(&self, is_it: impl Fn(&str) -> bool, action: impl FnMut()) -> String {
        self.wait("the line", 1, is_it, action)
    }

    fn wait(
        &self,
        what: &str,
        times: usize,
        is_it: impl Fn(&str) -> bool,
        mut action: impl FnMut(),
    ) -> String {
        let began = Instant::now();
        loop {
            let log = (self.0)();
            if let Some(part) = up_to(&log, times, &is_it) {
                return part.to_owned();
            }
            let waited = began.elapsed();
            if waited > PATIENCE {
                panic!("gave up after {waited:.0?} waiting for {what} in the log:\n{log}");
            }
            action();
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// The log up to the line that completes the count `times`, if there are that many. A line that is
/// still being written does not count.
fn up_to(log: &str, times: usize, is_it: impl Fn(&str) -> bool) -> Option<&str> {
    let (mut end, mut found) = (0, 0);
    for line in log.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
        if found == times {
            break;
        }
        end += line.len();
        found += usize::from(is_it(line));
    }
    (found == times).then(|| log.get(..end)).flatten()
}

/// The whole log, for messages.
impl fmt::Display for Log<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&(self.0)())
    }
}

impl fmt::Debug for Log<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_wait_ends_with_the_awaited_line_however_late_it_comes_and_returns_the_log_up_to_it() {
        let looks = Cell::new(0);
        let log = Log::new(|| {
            looks.set(looks.get() + 1);
            ["", "one\n", "one\ntw", "one\ntwo\nthree\n"][looks.get().min(4) - 1].to_owned()
        });
        assert_eq!(log.wait_for("tw"), "one\ntwo\n");
        assert_eq!(looks.get(), 4, "an incomplete line does not count");
        assert_eq!(log.wait_times("o", 2), "one\ntwo\n");
        assert_eq!(log.wait_times("o", 0), "", "a wait for no line returns nothing");
        assert_eq!(log.wait_while(|line| line.starts_with("th"), || {}), "one\ntwo\nthree\n");
    }
}
