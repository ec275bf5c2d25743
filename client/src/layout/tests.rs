use proptest::prelude::*;

use super::*;

#[test]
fn ids_are_decoded_as_java_leaf_composes_them() {
    // (timestamp - twepoch) << 22 | workerId << 12 | sequence
    let id = (1_600_000_000_000 - 1_288_834_974_657) << 22 | 513 << 12 | 77;
    let decoded = Layout::LEAF.decode(id).unwrap();
    assert_eq!(
        decoded,
        Decoded { unix_ms: 1_600_000_000_000, worker: 513, datacenter: None, sequence: 77 }
    );
    let twitter = Layout::TWITTER.decode(id).unwrap();
    assert_eq!((twitter.worker, twitter.datacenter), (513, Some(16)));
}

#[test]
fn presets_are_written_and_read_back() {
    for (name, layout) in PRESETS {
        assert_eq!(name.parse::<Layout>().unwrap(), layout);
        let listed = LayoutError::Unknown(String::new()).to_string();
        assert!(listed.contains(&format!("{name},")), "{name}");
        assert_eq!(layout.to_string().parse::<Layout>().unwrap(), layout);
    }
    let late: Layout = "baidu@1767225600000".parse().unwrap();
    assert_eq!(late, Layout::new(1000, 1_767_225_600_000, 28, 22, 13).unwrap());
    assert_eq!("baidu@2026-01-01".parse::<Layout>().unwrap(), late);
    assert_eq!("28/22/13@2026-01-01/1000ms".parse::<Layout>().unwrap(), late);
    let leaf = "41/10/12@2010-11-04T01:42:54.657Z";
    assert_eq!(leaf.parse::<Layout>().unwrap(), Layout::LEAF);
    assert_eq!(Layout::LEAF.to_string(), "41/10/12@1288834974657/1ms");
    assert_eq!("41/10/12@1288834974657".parse::<Layout>().unwrap(), Layout::LEAF);
}

#[test]
fn an_invalid_layout_is_refused_with_its_numbers() {
    let error = Layout::new(1, 0, 41, 10, 13).unwrap_err();
    assert!(error.to_string().contains("make 64, more than 63"), "{error}");
    assert!(Layout::new(1, 0, u32::MAX, u32::MAX, 65).is_err());
    assert!(Layout::new(1, 0, 0, 51, 12).is_err());
    assert!(Layout::new(1, 0, 41, 22, 0).is_err());
    assert_eq!(Layout::new(2, 0, 41, 10, 12), Err(LayoutError::Unit(2)));
    for text in [
        "",
        "leaf2",
        "leaf@",
        "baidu@x",
        "41/10/12",
        "41/10@0",
        "41/10/12@-1",
        "41/9+/12@0",
        "a/b/c@d",
        "39/s8/16@0",
        "39/8/w16@0",
        "39/w16/s8@0",
        "39/s/w16@0",
    ] {
        assert!(text.parse::<Layout>().is_err(), "{text:?}");
    }
}

#[test]
fn no_id_is_negative() {
    for (_, layout) in PRESETS {
        let (time, worker, sequence) =
            (layout.max_time(), layout.max_worker(), layout.max_sequence());
        let bits = layout.time_bits + layout.low_bits();
        assert_eq!(layout.compose(time, worker, sequence), Some((1 << bits) - 1));
        assert!(bits <= 63);
        assert_eq!(layout.compose(time + 1, worker, sequence), None);
        assert_eq!(layout.compose(time, worker + 1, sequence), None);
        assert_eq!(layout.compose(time, worker, sequence + 1), None);
    }
    assert!(Layout::LEAF.decode(u64::MAX).is_err());
}

#[test]
fn an_id_of_sonyflake_has_the_machine_at_the_bottom() {
    // elapsed << (8 + 16) | sequence << 16 | machine
    let id = 12_345_678_901 << 24 | 200 << 16 | 40_001;
    let decoded = Layout::SONYFLAKE.decode(id).unwrap();
    let unix_ms = 1_409_529_600_000 + 123_456_789_010;
    assert_eq!(decoded, Decoded { unix_ms, worker: 40_001, datacenter: None, sequence: 200 });
    assert_eq!(Layout::SONYFLAKE.to_string(), "39/s8/w16@1409529600000/10ms");
    assert_eq!(Layout::SONYFLAKE.longest_run(), 1);
    assert_eq!(Layout::LEAF.longest_run(), 4096);
    let alone = Layout::new(1, 0, 41, 0, 12).unwrap().with_order(FieldOrder::SequenceAboveWorker);
    assert_eq!(alone.longest_run(), 4096);
}

#[test]
fn an_id_of_discord_is_decoded_as_its_documentation_says() {
    let decoded = Layout::DISCORD.decode(175_928_847_299_117_063).unwrap();
    assert_eq!(decoded.unix_ms, 1_462_015_105_796);
    assert_eq!((decoded.worker, decoded.datacenter, decoded.sequence), (32, Some(1), 7));
}

#[test]
fn ids_of_the_layout_for_javascript_fit_a_double() {
    let end = Layout::JS.compose(Layout::JS.max_time(), 255, 255).unwrap();
    assert_eq!(end, (1 << 53) - 1);
    assert_eq!(end as f64 as u64, end);
    assert_eq!(
        Layout::JS.decode(1 << 53),
        Err(LayoutError::TooLong { id: 1 << 53, bits: 53 }),
        "an ID of another layout is no ID of this one"
    );
}

proptest! {
    #[test]
    fn every_id_is_decoded_to_the_parts_it_was_composed_of(id in 0..=i64::MAX as u64) {
        for (_, layout) in PRESETS {
            let id = id & ((1 << (layout.time_bits + layout.low_bits())) - 1);
            let decoded = layout.decode(id).unwrap();
            let time = (decoded.unix_ms - layout.epoch_ms()) / layout.unit_ms();
            prop_assert_eq!(layout.compose(time, decoded.worker, decoded.sequence), Some(id));
        }
    }

    #[test]
    fn ids_rise_with_time_and_with_the_sequence_of_a_worker(
        time in 0..(1_u64 << 27), worker in 0..(1_u64 << 8), sequence in 0..(1_u64 << 7),
    ) {
        for (_, layout) in PRESETS {
            let id = layout.compose(time, worker, sequence).unwrap();
            prop_assert!(layout.compose(time, worker, sequence + 1).unwrap() > id);
            prop_assert!(layout.compose(time + 1, 0, 0).unwrap() > id);
        }
    }

    #[test]
    fn a_layout_is_read_back_as_it_was_written(
        time in 1..60_u32, worker in 0..30_u32, sequence in 1..30_u32, upper in 0..30_u32,
        epoch: u64, unit in proptest::sample::select(vec![1, 10, 1000]), swapped: bool,
    ) {
        let order = if swapped {
            FieldOrder::SequenceAboveWorker
        } else {
            FieldOrder::WorkerAboveSequence
        };
        let made = Layout::new(unit, epoch, time, worker, sequence)
            .and_then(|layout| layout.with_order(order).with_datacenter_bits(upper));
        if let Ok(layout) = made {
            prop_assert_eq!(layout.to_string().parse::<Layout>(), Ok(layout));
        }
    }
}
