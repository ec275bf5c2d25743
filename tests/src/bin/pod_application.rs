//! What stands for an application in the tests of pods: asks the leafd of its environment for IDs
//! of both schemes without a pause, and prints a line of JSON a few times a second. An ID that
//! comes twice, or a call that fails for good, ends it.

use std::collections::BTreeSet;
use std::process::abort;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leaf_client::{Layout, Options, blocking};
use leafd_tests::Seen;

/// Longer than a daemon takes to be started again.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() {
    let seen = Seen::default();
    let workers = Arc::new(Mutex::new(BTreeSet::new()));
    let orders = seen.clone();
    takes(move |client| {
        let ids = client.next_many("orders", 7).expect("orders");
        orders.add("orders", &ids);
    });
    let (snowflakes, used) = (seen.clone(), Arc::clone(&workers));
    takes(move |client| {
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

/// A thread with a client of its own, which begins when IDs are to be had: Kubernetes would start
/// the application then, and podman starts it at once. It goes easy on the machine: what counts is that there is
/// always somebody who asks.
fn takes(mut take: impl FnMut(&mut blocking::Client) + Send + 'static) {
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
    // Whoever watches the container sees its end.
    std::thread::spawn(move || {
        let _ = thread.join();
        abort();
    });
}
