//! The application in the tests' pods. It keeps asking the leafd of its environment for IDs of both
//! schemes, and prints a line of JSON five times a second. It aborts when an ID comes twice or a call
//! fails for good.

use std::collections::BTreeSet;
use std::process::abort;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leaf_client::{Layout, Options, blocking};
use leafd_tests::UniqueIds;

/// The timeout of a call. A restart of leafd takes less.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() {
    let seen = UniqueIds::default();
    let workers = Arc::new(Mutex::new(BTreeSet::new()));
    let orders = seen.clone();
    keep_asking(move |client| {
        let ids = client.next_many("orders", 7).expect("orders");
        orders.add("orders", &ids);
    });
    let (snowflakes, used) = (seen.clone(), Arc::clone(&workers));
    keep_asking(move |client| {
        let ids = client.snowflake_many(7).expect("snowflakes");
        snowflakes.add("snowflake", &ids);
        let mut used = used.lock().expect("the other thread lives");
        used.extend(ids.into_iter().map(|id| Layout::LEAF.decode(id).expect("an ID").worker));
    });
    loop {
        std::thread::sleep(Duration::from_millis(200));
        let workers = workers.lock().expect("the other thread lives");
        let (orders, snowflakes) = (seen.count("orders"), seen.count("snowflake"));
        println!(
            "{}",
            serde_json::json!({"orders": orders, "snowflakes": snowflakes, "workers": &*workers})
        );
    }
}

/// Starts a thread that repeats `take` with a client of its own. It waits until leafd issues IDs:
/// Kubernetes would start the application only then, but podman starts it at once. A short pause after
/// each call spares the machine.
fn keep_asking(mut take: impl FnMut(&mut blocking::Client) + Send + 'static) {
    let mut client = blocking::Client::new(Options::new().timeout(PATIENCE));
    let thread = std::thread::spawn(move || {
        while client.snowflake().is_err() {
            std::thread::sleep(Duration::from_millis(100));
        }
        loop {
            take(&mut client);
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    // The end of the thread ends the container, which the test notices.
    std::thread::spawn(move || {
        let _ = thread.join();
        abort();
    });
}
