//! Public IDs of a tag, and what they cost.
//!
//! ```sh
//! cargo run --release -p leaf-client --no-default-features --features public --example public_ids
//! ```

#![expect(clippy::print_stdout, reason = "an example")]

use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use leaf_client::form::public::{KeyId, KeyRing, PublicIdError, PublicKey};

/// IDs in a run.
const IDS: u64 = 200_000;

/// Runs, of which the median counts.
const RUNS: usize = 25;

fn main() -> Result<(), Box<dyn Error>> {
    // An installation has `KeyRing::read` read its key file instead.
    let id = KeyId::from_symbol('0').ok_or("no key ID")?;
    let ring = KeyRing::new([PublicKey::generate(id)?])?;
    let orders = ring.for_tag("orders");
    for id in 1..=5 {
        let text = orders.encode(id)?;
        println!("order {id} is {text}, and {text} is order {}", orders.decode(&text)?);
    }

    let encoding = median_ns(|| {
        let mut text = String::new();
        (0..IDS).try_for_each(|id| {
            text.clear();
            orders.encode_into(black_box(id), &mut text)
        })
    })?;
    let texts = (0..IDS).map(|id| orders.encode(id)).collect::<Result<Vec<_>, _>>()?;
    let decoding = median_ns(|| {
        texts.iter().try_for_each(|text| orders.decode(black_box(text)).map(|id| _ = black_box(id)))
    })?;
    println!("encoding takes {encoding} ns and decoding {decoding} ns");
    Ok(())
}

/// The nanoseconds per ID of the median run.
fn median_ns(mut run: impl FnMut() -> Result<(), PublicIdError>) -> Result<u128, Box<dyn Error>> {
    let mut times = Vec::new();
    for _ in 0..RUNS {
        let start = Instant::now();
        run()?;
        times.push(start.elapsed().as_nanos() / u128::from(IDS));
    }
    times.sort_unstable();
    Ok(*times.get(RUNS / 2).ok_or("no run")?)
}
