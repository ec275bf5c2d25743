//! A daemon in a new folder, until this program is killed: the tests of the harness see that the
//! daemon ends then. Prints its process ID.

use leafd_tests::daemon::Home;

fn main() {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = Home::new(folder.path()).start();
    println!("{}", daemon.pid());
    let _ = std::io::stdin().read_line(&mut String::new());
}
