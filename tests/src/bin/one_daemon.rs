//! Starts a daemon and prints its process ID. The harness's own tests kill this program, and check
//! that the daemon ends too.

use leafd_tests::daemon::Home;

fn main() {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = Home::new(folder.path()).start();
    println!("{}", daemon.pid());
    let _ = std::io::stdin().read_line(&mut String::new());
}
