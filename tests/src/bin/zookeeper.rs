//! Starts a single ZooKeeper server and an ensemble of three, for experiments by hand. Runs until the
//! end of its input: `cargo run -p leafd-tests --bin zookeeper`. The harness's own tests kill it.

use std::sync::OnceLock;
use std::time::Instant;

use leafd_tests::Ensemble;

/// A static, like the shared ensemble, so it is never dropped.
static THREE: OnceLock<Ensemble> = OnceLock::new();

fn main() {
    let frozen = std::env::args().any(|argument| argument == "--frozen");
    let began = Instant::now();
    let single = Ensemble::shared();
    let elapsed = began.elapsed();
    println!("{} after {elapsed:.1?}", single.connect_string());
    let began = Instant::now();
    let three = THREE.get_or_init(|| Ensemble::of(3));
    println!("{} after {:.1?}", three.connect_string(), began.elapsed());
    for ensemble in [single, three] {
        if frozen {
            ensemble.freeze_all();
        }
        for (server, folder) in ensemble.folders().iter().enumerate() {
            println!("127.0.0.1:{} in {}", ensemble.port(server), folder.display());
        }
    }
    let _ = std::io::stdin().read_line(&mut String::new());
}
