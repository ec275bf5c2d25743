use proptest::prelude::*;

use super::super::*;
use super::fleet;
use super::texts::texts;
use crate::layout::{FieldOrder, Layout, PRESETS};

/// Layouts that snowflakes are tried with: the presets, and what else UUIDs have room for.
fn layouts() -> Vec<Layout> {
    let epoch = 1_767_225_600_000;
    let odd = [
        Layout::new(10, epoch, 45, 6, 12).unwrap(),
        Layout::new(1000, epoch, 20, 30, 13).unwrap(),
        Layout::new(10, epoch, 26, 25, 12).unwrap(),
        Layout::new(1, epoch, 41, 0, 12).unwrap(),
        Layout::new(1, 0, 42, 9, 12).unwrap().with_order(FieldOrder::SequenceAboveWorker),
    ];
    PRESETS.into_iter().map(|(_, layout)| layout).chain(odd).collect()
}

/// IDs of a layout: any, and the first and last ones.
fn ids_of(layout: &Layout, seed: u64) -> [u64; 5] {
    let bits = layout.low_bits() + layout.max_time().count_ones();
    let all = (1_u64 << bits) - 1;
    let any = seed & all;
    [
        any,
        0,
        all,
        any >> layout.low_bits() << layout.low_bits(),
        any | ((1 << layout.low_bits()) - 1),
    ]
}

#[test]
fn uuids_have_their_fields_where_rfc_9562_puts_them() {
    let snowflakes = Snowflakes::new(Layout::LEAF, fleet());
    let id = Layout::LEAF.compose(1_700_000_000_000 - Layout::LEAF.epoch_ms(), 513, 77).unwrap();
    let parsed = |uuid: Uuid| ::uuid::Uuid::parse_str(&uuid.to_string()).unwrap();
    let seven = parsed(snowflakes.uuid7(id).unwrap());
    let one = parsed(snowflakes.uuid1(id).unwrap());
    let eight = parsed(snowflakes.uuid8(id).unwrap());
    for (uuid, version) in [(seven, 7), (one, 1), (eight, 8)] {
        assert_eq!(uuid.get_version_num(), version);
        assert_eq!(uuid.get_variant(), ::uuid::Variant::RFC4122);
    }
    assert_eq!(seven.get_timestamp().unwrap().to_unix(), (1_700_000_000, 0));
    assert_eq!(one.get_timestamp().unwrap().to_unix(), (1_700_000_000, 7700));
    let node = one.get_node_id().unwrap();
    assert_eq!(node[0] & 1, 1, "the node is no network card's");
    assert_eq!(node[1..], fleet().bits().to_be_bytes()[3..]);
}

#[test]
fn a_layout_without_room_is_refused() {
    let error = |layout: Layout, id| {
        let snowflakes = Snowflakes::new(layout, fleet());
        snowflakes.uuid7(id).and(snowflakes.uuid1(id)).unwrap_err().to_string()
    };
    let wide = Layout::new(1, 0, 20, 30, 13).unwrap();
    assert!(error(wide, 1).contains("no room"), "{}", error(wide, 1));
    let long = Layout::new(1000, 0, 55, 4, 4).unwrap();
    assert!(error(long, i64::MAX as u64).contains("48 bits"), "{}", error(long, i64::MAX as u64));
    let fine = Layout::new(1, 0, 41, 4, 18).unwrap();
    assert!(error(fine, 1).contains("too few steps"), "{}", error(fine, 1));
    let late = Snowflakes::new(Layout::new(1000, u64::MAX, 41, 10, 12).unwrap(), fleet());
    assert!(late.uuid1(1 << 40).is_err() && late.uuid7(1 << 40).is_err());
    assert!(late.object_id(1 << 40).is_err());
}

#[test]
fn what_another_installation_made_is_told_from_this_ones() {
    let (ours, theirs) = (fleet(), "0000000001".parse().unwrap());
    let (here, there) =
        (Snowflakes::new(Layout::LEAF, ours), Snowflakes::new(Layout::LEAF, theirs));
    let id = 1 << 40;
    for uuid in [there.uuid7(id), there.uuid8(id), there.uuid1(id)] {
        let uuid = uuid.unwrap();
        let error = here.id_of(uuid).unwrap_err().to_string();
        assert!(error.contains("0000000001, and this is 4be1f0a37c"), "{error}");
        assert_eq!(fleet_of(uuid), Ok(theirs));
    }
    let error = here.id_of_object_id(there.object_id(id).unwrap()).unwrap_err();
    assert_eq!(error, FormError::PartOfFleet { expected: ours.to_string() });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]


    #[test]
    fn no_text_at_all_makes_a_form_panic(text in "\\PC*", bytes: [u8; 16], short: [u8; 12]) {
        for form in texts() {
            let _ = form.decode(&text);
        }
        let _ = (recognise(&text, Layout::LEAF, None), text.parse::<IdForm>(), Day::parse(&text, 6));
        let _ = (text.parse::<Uuid>(), text.parse::<ObjectId>(), text.parse::<Zone>());
        for layout in layouts() {
            let snowflakes = Snowflakes::new(layout, fleet());
            let _ = snowflakes.id_of(Uuid::from_bytes(bytes));
            let _ = snowflakes.id_of_object_id(ObjectId::from_bytes(short));
        }
    }

    #[test]
    fn every_snowflake_is_read_back_from_its_uuids_and_object_id(seed: u64) {
        for layout in layouts() {
            let snowflakes = Snowflakes::new(layout, fleet());
            for id in ids_of(&layout, seed) {
                for uuid in [snowflakes.uuid7(id), snowflakes.uuid8(id), snowflakes.uuid1(id)] {
                    match uuid {
                        Ok(uuid) => {
                            prop_assert_eq!(snowflakes.id_of(uuid), Ok(id), "{} {}", layout, id);
                            prop_assert_eq!(uuid.to_string().parse::<Uuid>(), Ok(uuid));
                        }
                        Err(error) => prop_assert!(matches!(error, FormError::NoRoom(_)), "{}", error),
                    }
                }
                match snowflakes.object_id(id) {
                    Ok(object_id) => {
                        prop_assert_eq!(snowflakes.id_of_object_id(object_id), Ok(id));
                        prop_assert_eq!(object_id.to_string().parse::<ObjectId>(), Ok(object_id));
                    }
                    Err(error) => prop_assert!(matches!(error, FormError::NoRoom(_)), "{}", error),
                }
            }
        }
    }

    #[test]
    fn a_uuid_that_is_accepted_is_the_one_of_its_id(seed: u64, bit in 0..128_u32) {
        for layout in layouts() {
            let snowflakes = Snowflakes::new(layout, fleet());
            let id = ids_of(&layout, seed)[0];
            let made = [snowflakes.uuid7(id), snowflakes.uuid8(id), snowflakes.uuid1(id)];
            for uuid in made.into_iter().flatten() {
                let other = u128::from_be_bytes(uuid.bytes()) ^ (1 << bit);
                let other = Uuid::from_bytes(other.to_be_bytes());
                if let Ok(id) = snowflakes.id_of(other) {
                    let again = match other.version() {
                        1 => snowflakes.uuid1(id),
                        8 => snowflakes.uuid8(id),
                        _ => snowflakes.uuid7(id),
                    };
                    prop_assert_eq!(again, Ok(other));
                }
            }
            if let Ok(object_id) = snowflakes.object_id(id) {
                let mut bytes = object_id.bytes();
                bytes[bit as usize % 12] ^= 1 << (bit % 8);
                let other = ObjectId::from_bytes(bytes);
                if let Ok(id) = snowflakes.id_of_object_id(other) {
                    prop_assert_eq!(snowflakes.object_id(id), Ok(other));
                }
            }
        }
    }

    #[test]
    fn uuids_of_version_7_and_8_and_object_ids_sort_as_the_snowflakes_do(one: u64, other: u64) {
        for layout in layouts() {
            let snowflakes = Snowflakes::new(layout, fleet());
            for (one, other) in ids_of(&layout, one).into_iter().zip(ids_of(&layout, other)) {
                let order = one.cmp(&other);
                if let (Ok(first), Ok(second)) = (snowflakes.uuid7(one), snowflakes.uuid7(other)) {
                    prop_assert_eq!(first.cmp(&second), order, "{}", layout);
                    prop_assert_eq!(first.to_string().cmp(&second.to_string()), order);
                }
                let eights = (snowflakes.uuid8(one).unwrap(), snowflakes.uuid8(other).unwrap());
                prop_assert_eq!(eights.0.cmp(&eights.1), order);
                if let (Ok(first), Ok(second)) = (snowflakes.object_id(one), snowflakes.object_id(other)) {
                    prop_assert_eq!(first.cmp(&second), order, "{}", layout);
                }
            }
        }
    }
}
