//! What each form of an ID costs, beside the decimal text that the standard library makes, in one run.
//!
//! `cargo run --release -p leaf-client --all-features --example form_times`

use std::hint::black_box;
use std::time::Instant;

use leaf_client::Layout;
use leaf_client::form::{FormContext, IdForm};

/// IDs per round.
const IDS: u64 = 100_000;

/// Rounds, of which the median counts.
const ROUNDS: usize = 31;

/// The median time of one call with one of `ids`, in ns.
fn median_ns(ids: &[u64], mut call: impl FnMut(usize, u64)) -> f64 {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let started = Instant::now();
            (0..IDS).zip(ids.iter().enumerate().cycle()).for_each(|(_, (at, id))| call(at, *id));
            started.elapsed().as_nanos() as f64 / IDS as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds.get(ROUNDS / 2).copied().unwrap_or_default()
}

#[expect(clippy::print_stdout, reason = "it is what the example is for")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let snowflakes: Vec<u64> =
        (0..1024).map(|i| 2_124_029_785_372_885_063 + i * 4_194_311).collect();
    let of_a_tag: Vec<u64> = (0..1024).map(|i| 1 + i * 977).collect();
    let decimal = median_ns(&snowflakes, |_, id| drop(black_box(black_box(id).to_string())));
    println!("{:12} {decimal:6.1} ns", "to_string()");
    println!("{:12} {:>9} {:>7} {:>9}", "form", "encode", "ratio", "decode");
    let snowflake = FormContext {
        layout: Some(Layout::LEAF),
        fleet: Some("4be1f0a37c".parse()?),
        ..FormContext::default()
    };
    let tag = FormContext { tag: Some("orders"), ..snowflake };
    for (form, context) in [
        ("decimal", &snowflake),
        ("base62", &snowflake),
        ("base36", &snowflake),
        ("crockford32", &snowflake),
        ("padded", &snowflake),
        ("ord_base62", &snowflake),
        ("dated@UTC", &tag),
        ("uuid7", &snowflake),
        ("uuid8", &snowflake),
        ("uuid1", &snowflake),
        ("objectid", &snowflake),
        ("uuid5", &tag),
    ] {
        let codec = form.parse::<IdForm>()?.codec(context)?;
        let ids = if context.tag.is_some() { &of_a_tag } else { &snowflakes };
        let mut text = String::new();
        let encode = median_ns(ids, |_, id| {
            text.clear();
            drop(black_box(codec.encode_into(black_box(id), &mut text)));
            black_box(&text);
        });
        let texts = ids.iter().map(|id| codec.encode(*id)).collect::<Result<Vec<_>, _>>()?;
        let decode = median_ns(ids, |at, _| {
            drop(black_box(texts.get(at).map(|text| codec.decode(black_box(text)))));
        });
        println!("{form:12} {encode:6.1} ns {:7.2} {decode:6.1} ns", encode / decimal);
    }
    Ok(())
}
