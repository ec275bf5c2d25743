//! A lock on the embedded store, as another process may hold it.

use std::io::Read;
use std::process::{Child, Command, Stdio};

use crate::daemon::Home;

/// Locks the database until its input ends.
const SCRIPT: &str = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], timeout=30); \
                      c.execute('BEGIN EXCLUSIVE'); print('locked', flush=True); sys.stdin.read()";

/// A process that holds the write lock of an embedded store. Dropping it releases the lock.
#[derive(Debug)]
pub struct StoreLock(Child);

impl StoreLock {
    /// Takes the lock of the store in `home`.
    #[must_use]
    pub fn hold(home: &Home) -> Self {
        let mut python = Command::new("python3");
        let python = python.args(["-c", SCRIPT]).arg(home.database());
        let mut child =
            python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python3");
        let mut word = [0; 6];
        child.stdout.as_mut().expect("its output").read_exact(&mut word).expect("the lock");
        Self(child)
    }
}

impl Drop for StoreLock {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
