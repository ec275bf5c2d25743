use proptest::prelude::*;

use super::super::*;
use super::fleet;
use crate::layout::Layout;

const MAX: u64 = i64::MAX as u64;

pub(super) fn texts() -> Vec<PrefixedForm> {
    let bare = [
        TextForm::Decimal,
        TextForm::Base62,
        TextForm::Base36,
        TextForm::Crockford32,
        TextForm::Padded(1),
        TextForm::Padded(8),
        TextForm::Padded(19),
    ];
    let bare = bare
        .into_iter()
        .flat_map(|text| [PrefixedForm::bare(text), PrefixedForm::new("ord", text).unwrap()]);
    bare.chain([PrefixedForm::new("a_b", TextForm::Base62).unwrap()]).collect()
}

fn text_of(form: &PrefixedForm, id: u64) -> String {
    let mut text = String::new();
    form.encode_into(id, &mut text).unwrap();
    text
}

fn id() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..=MAX,
        0..=100_000_u64,
        MAX - 100..=MAX,
        (0..63_u32, 0..5_u64).prop_map(|(bit, by)| ((1 << bit) + by).min(MAX)),
    ]
}

#[test]
fn each_form_has_the_text_that_its_page_shows() {
    let of = |name: &str, id| {
        let form: IdForm = name.parse().unwrap();
        let context = FormContext { unix_ms: 1_795_305_600_000, ..FormContext::default() };
        let dated = FormContext { tag: Some("invoices"), ..context };
        let codec = form.codec(if name.starts_with("dated") { &dated } else { &context }).unwrap();
        let text = codec.encode(id).unwrap();
        assert_eq!(codec.decode(&text), Ok(id), "{name}");
        (text, codec.tag("invoices"))
    };
    for (name, id, text) in [
        ("decimal", 17, "17"),
        ("base62", 0, "00000000000"),
        ("base62", 61, "0000000000z"),
        ("base62", MAX, "AzL8n0Y58m7"),
        ("base36", MAX, "1y2p0ij32e8e7"),
        ("crockford32", 17, "000000000000HH"),
        ("crockford32", 32, "0000000000010*"),
        ("crockford32", MAX, "7ZZZZZZZZZZZZ5"),
        ("padded", 17, "0000000000000000017"),
        ("padded8", 17, "00000017"),
        ("padded1", 1234, "1234"),
        ("ord_base62", 61, "ord_0000000000z"),
        ("order_line_padded4", 12_345, "order_line_12345"),
        ("dated@UTC", 17, "20261122-000017"),
        ("dated@UTC", 1_234_567, "20261122-1234567"),
    ] {
        assert_eq!(of(name, id).0, text, "{name} of {id}");
    }
    // Midnight in UTC is still the day before in New York, and 8 in the morning in Shanghai.
    assert_eq!(
        of("dated@-05:00", 1),
        ("20261121-000001".to_owned(), "invoices-20261121".to_owned())
    );
    assert_eq!(of("dated@+08:00", 1).1, "invoices-20261122");
    assert_eq!(of("base62", 1).1, "invoices");
}

#[test]
fn a_wrong_text_is_refused_with_its_place_and_a_hint() {
    let error = |name: &str, text: &str| {
        let form: IdForm = name.parse().unwrap();
        form.codec(&FormContext::default()).unwrap().decode(text).unwrap_err().to_string()
    };
    for (name, text, said) in [
        ("decimal", "", "above 2^63 - 1"),
        ("decimal", "1x", "character 2 is 'x': a decimal digit"),
        ("decimal", "+1", "character 1 is '+'"),
        ("decimal", "01", "character 1 is '0': it is one zero too many"),
        ("decimal", "9223372036854775808", "above 2^63 - 1"),
        ("base62", "0000000000", "10 characters instead of 11"),
        ("base62", "000000000000", "12 characters instead of 11"),
        ("base62", "0000000000-", "character 11 is '-'"),
        ("base62", "00000\u{e9}00000", "character 6 is '\u{e9}'"),
        ("base62", "AzL8n0Y58m8", "above 2^63 - 1"),
        ("base62", "zzzzzzzzzzz", "above 2^63 - 1"),
        ("base36", "000000000000A", "character 13 is 'A': write lowercase"),
        ("base36", "1y2p0ij32e8e8", "above 2^63 - 1"),
        ("crockford32", "000000000000OH", "character 13 is 'O': write the digit 0"),
        ("crockford32", "000000000000lH", "character 13 is 'l': write the digit 1"),
        ("crockford32", "000000000000hH", "write capital letters"),
        ("crockford32", "000000000000HG", "the check symbol is 'G', but 'H' belongs"),
        ("crockford32", "000000000000H!", "character 14 is '!': a check symbol"),
        ("crockford32", "000000000000H", "13 characters instead of 14"),
        ("crockford32", "8000000000000*", "above 2^63 - 1"),
        ("padded8", "0000017", "7 digits instead of at least 8"),
        ("padded8", "000000017", "one zero too many"),
        ("ord_base62", "0000000000z", "the prefix is not \"ord_\""),
        ("ord_base62", "ord_000000000.z", "character 14 is '.'"),
    ] {
        assert!(error(name, text).contains(said), "{name} {text:?}: {}", error(name, text));
    }
}

#[test]
fn a_name_is_read_as_it_is_written_and_others_are_refused() {
    for name in [
        "decimal",
        "base62",
        "base36",
        "crockford32",
        "padded1",
        "padded19",
        "ord_base62",
        "a_b_padded4",
        "dated@UTC",
        "dated@+08:00",
        "dated@-03:30",
        "uuid7",
        "uuid8",
        "uuid1",
        "uuid5",
        "objectid",
    ] {
        assert_eq!(name.parse::<IdForm>().unwrap().to_string(), name);
    }
    assert_eq!("decimal".parse(), Ok(IdForm::default()));
    assert_eq!("padded".parse::<IdForm>().unwrap().to_string(), "padded19");
    for (name, said) in [
        ("", "there is no form"),
        ("hex", "there is no form \"hex\""),
        ("uuid4", "there is no form"),
        ("Base62", "there is no form"),
        ("padded0", "1 to 19 digits"),
        ("padded20", "1 to 19 digits"),
        ("padded08", "1 to 19 digits"),
        ("padded+8", "1 to 19 digits"),
        ("_base62", "prefix \"\""),
        ("Ord_base62", "prefix \"Ord\""),
        ("ord__base62", "prefix \"ord_\""),
        ("dated", "write UTC"),
        ("dated@", "write UTC"),
        ("dated@8", "write UTC"),
        ("dated@+8:00", "write UTC"),
        ("dated@+18:01", "write UTC"),
        ("dated@+08:60", "write UTC"),
        ("dated@Europe/Berlin", "write UTC"),
    ] {
        let error = name.parse::<IdForm>().unwrap_err().to_string();
        assert!(error.contains(said), "{name}: {error}");
    }
}

#[test]
fn a_form_says_what_it_needs() {
    let snowflake =
        FormContext { layout: Some(Layout::LEAF), fleet: Some(fleet()), ..FormContext::default() };
    let tag = FormContext { tag: Some("orders"), ..snowflake };
    for (name, context, said) in [
        ("uuid7", &tag, "needs a snowflake: IDs of a tag are unique only within the tag"),
        ("uuid8", &tag, "needs a snowflake"),
        ("objectid", &tag, "needs a snowflake"),
        ("uuid7", &FormContext { fleet: None, ..snowflake }, "needs the installation's fleet ID"),
        ("uuid1", &FormContext { layout: None, ..snowflake }, "needs the layout"),
        ("uuid5", &snowflake, "needs "),
        ("dated@UTC", &snowflake, "needs an ID of a tag"),
    ] {
        let error = name.parse::<IdForm>().unwrap().codec(context).unwrap_err().to_string();
        assert!(error.contains(said), "{name}: {error}");
    }
}

#[test]
fn crockfords_check_finds_every_wrong_symbol_and_every_swap_of_neighbours() {
    let form = TextForm::Crockford32;
    for id in [0, 17, 123_456_789, 2_124_029_785_372_885_063, MAX] {
        let text = text_of(&PrefixedForm::bare(form), id);
        let symbols = text.as_bytes();
        for at in 0..13 {
            for symbol in b"0123456789ABCDEFGHJKMNPQRSTVWXYZ" {
                let mut wrong = symbols.to_vec();
                wrong[at] = *symbol;
                let wrong = String::from_utf8(wrong).unwrap();
                assert!(wrong == text || form.decode(&wrong).is_err(), "{wrong}");
            }
            let mut swapped = symbols.to_vec();
            swapped.swap(at, at + 1);
            let swapped = String::from_utf8(swapped).unwrap();
            assert!(swapped == text || form.decode(&swapped).is_err(), "{swapped}");
        }
    }
}

#[test]
fn a_day_parses_only_what_it_writes() {
    let day = Day::new(2026, 11, 22).unwrap();
    assert_eq!(day.text(u64::MAX, 19), "20261122-18446744073709551615");
    assert_eq!((Day::new(2026, 2, 29), Day::new(1969, 12, 31)), (None, None));
    for text in [
        "",
        "20261122",
        "20261122-",
        "20261122-17",
        "20261122-0000017",
        "2026112-000017",
        "20261322-000017",
        "20260229-000017",
        "20261122-00001x",
        "20261122-000017-1",
        "20261122_000017",
        "+2026112-000017",
    ] {
        assert!(Day::parse(text, 6).is_err(), "{text}");
    }
    assert_eq!(Day::at(0, "-18:00".parse().unwrap()), Day::new(1970, 1, 1).unwrap());
    assert_eq!(Day::at(u64::MAX, "+18:00".parse().unwrap()), Day::new(9999, 12, 31).unwrap());
}

#[test]
fn a_text_is_read_in_every_form_that_it_has() {
    let names = |text: &str| {
        let readings = recognise(text, Layout::LEAF, None).unwrap();
        readings.into_iter().map(|reading| (reading.form, reading.id)).collect::<Vec<_>>()
    };
    assert_eq!(names("17"), [("decimal".to_owned(), 17)]);
    assert_eq!(names("00000017"), [("padded8".to_owned(), 17)]);
    assert_eq!(names("ord_17"), [("ord_decimal".to_owned(), 17)]);
    let eleven = names("10000000000");
    assert_eq!(eleven[0], ("decimal".to_owned(), 10_000_000_000));
    assert_eq!(eleven[1].0, "base62");
    assert_eq!(names("0000000000z"), [("base62".to_owned(), 61)]);
    assert_eq!(names("000000000000HH"), [("crockford32".to_owned(), 17)]);
    assert_eq!(names("20261122-000017"), [("dated".to_owned(), 17)]);
    let snowflakes = Snowflakes::new(Layout::LEAF, fleet());
    let id = 2_124_029_785_372_885_063;
    let uuid = snowflakes.uuid7(id).unwrap().to_string();
    let read = recognise(&uuid, Layout::LEAF, None).unwrap();
    assert_eq!((read[0].id, read[0].fleet), (id, Some(fleet())));
    let object_id = snowflakes.object_id(id).unwrap().to_string();
    assert_eq!(names(&object_id), [("objectid".to_owned(), id)]);
    for (text, said) in [
        ("", "no form that leafd knows"),
        ("hello", "no form that leafd knows"),
        ("0000000000-", "character 11"),
        ("000000000000HG", "check symbol"),
        ("9223372036854775808", "above 2^63 - 1"),
        ("20261322-000017", "no date"),
        ("01a1fcd4-5c07-4000-8000-474be1f0a37c", "UUID of version 4"),
        ("01a1fcd4-5c07-5000-8000-474be1f0a37c", "a hash"),
    ] {
        let error = recognise(text, Layout::LEAF, None).unwrap_err().to_string();
        assert!(error.contains(said), "{text}: {error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]


    #[test]
    fn every_id_has_one_text_in_each_form_and_it_is_read_back(id in id(), other in id()) {
        for form in texts() {
            let text = text_of(&form, id);
            prop_assert_eq!(form.decode(&text), Ok(id), "{}", form);
            let other_text = text_of(&form, other);
            prop_assert_eq!(text == other_text, id == other, "{}", form);
        }
    }

    #[test]
    fn texts_of_one_width_sort_as_the_numbers_do(id in id(), other in id()) {
        for form in texts().into_iter().filter(|form| !form.to_string().ends_with("decimal")) {
            let (text, other_text) = (text_of(&form, id), text_of(&form, other));
            if text.len() == other_text.len() {
                prop_assert_eq!(text.cmp(&other_text), id.cmp(&other), "{}", form);
            }
        }
    }

    #[test]
    fn every_text_that_is_accepted_is_the_one_text_of_its_id(
        id in id(), at: prop::sample::Index, with in "[ -~\u{e9}]{0,2}", cut in 0..3_usize,
    ) {
        for form in texts() {
            let text = text_of(&form, id);
            let at = at.index(text.len());
            let end = (at + cut).min(text.len());
            let wrong = format!("{}{with}{}", &text[..at], &text[end..]);
            if let Ok(read) = form.decode(&wrong) {
                prop_assert_eq!(text_of(&form, read), wrong, "{}", form);
            }
        }
    }
}
