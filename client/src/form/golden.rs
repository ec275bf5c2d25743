//! The vectors of `protocol/forms.json`, which another implementation made.

use serde_json::Value;

use super::*;
use crate::layout::Layout;

fn document() -> Value {
    serde_json::from_str(include_str!("golden/forms.json")).unwrap()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    let list = value[key].as_array().unwrap();
    assert!(!list.is_empty(), "{key}");
    list
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap()
}

fn id(value: &Value) -> u64 {
    text(value, "id").parse().unwrap()
}

#[test]
fn texts_are_those_of_the_vectors_in_both_directions() {
    for vector in list(&document(), "texts") {
        let codec = text(vector, "form").parse::<IdForm>().unwrap();
        let codec = codec.codec(&FormContext::default()).unwrap();
        assert_eq!(codec.encode(id(vector)).as_deref(), Ok(text(vector, "text")), "{vector}");
        assert_eq!(codec.decode(text(vector, "text")), Ok(id(vector)), "{vector}");
    }
}

#[test]
fn what_the_vectors_refuse_is_refused() {
    for vector in list(&document(), "refused") {
        let (form, text) = (text(vector, "form"), text(vector, "text"));
        if form == "dated" {
            assert!(Day::parse(text, 6).is_err(), "{vector}");
            continue;
        }
        let codec = form.parse::<IdForm>().unwrap().codec(&FormContext::default()).unwrap();
        assert!(codec.decode(text).is_err(), "{vector}");
    }
}

#[test]
fn days_are_those_of_the_vectors_in_both_directions() {
    for vector in list(&document(), "days") {
        let zone = text(vector, "zone").parse().unwrap();
        let day = Day::at(vector["unix_ms"].as_u64().unwrap(), zone);
        assert_eq!(day.tag("invoices"), text(vector, "tag"), "{vector}");
        assert_eq!(day.text(id(vector), 6), text(vector, "text"), "{vector}");
        assert_eq!(Day::parse(text(vector, "text"), 6), Ok((day, id(vector))), "{vector}");
    }
}

#[test]
fn uuids_and_object_ids_are_those_of_the_vectors_in_both_directions() {
    let mut without_room = 0;
    for group in list(&document(), "snowflakes") {
        let layout: Layout = text(group, "layout").parse().unwrap();
        assert_eq!(layout.to_string(), text(group, "written"));
        let snowflakes = Snowflakes::new(layout, text(group, "fleet").parse().unwrap());
        for vector in list(group, "ids") {
            let id = id(vector);
            for (name, uuid) in [
                ("uuid7", snowflakes.uuid7(id)),
                ("uuid8", snowflakes.uuid8(id)),
                ("uuid1", snowflakes.uuid1(id)),
            ] {
                assert_eq!(
                    uuid.as_ref().ok().map(ToString::to_string).as_deref(),
                    vector[name].as_str(),
                    "{name} of {vector} in {layout}"
                );
                match uuid {
                    Ok(uuid) => assert_eq!(snowflakes.id_of(uuid), Ok(id), "{vector}"),
                    Err(_) => without_room += 1,
                }
            }
            let object_id = snowflakes.object_id(id).ok();
            assert_eq!(object_id.map(|id| id.to_string()).as_deref(), vector["objectid"].as_str());
            if let Some(object_id) = object_id {
                assert_eq!(snowflakes.id_of_object_id(object_id), Ok(id), "{vector}");
            }
        }
    }
    assert!(without_room > 0, "the vectors have a layout without room");
}

#[test]
fn uuids_and_object_ids_that_the_vectors_refuse_are_refused() {
    for vector in list(&document(), "refused_snowflakes") {
        let context = FormContext {
            layout: Some(text(vector, "layout").parse().unwrap()),
            fleet: Some(text(vector, "fleet").parse().unwrap()),
            ..FormContext::default()
        };
        let codec = text(vector, "form").parse::<IdForm>().unwrap().codec(&context).unwrap();
        assert!(codec.decode(text(vector, "text")).is_err(), "{vector}");
    }
}

#[cfg(feature = "uuid5")]
#[test]
fn hashes_are_those_of_the_vectors() {
    for vector in list(&document(), "uuid5") {
        let hash = TagHash::new(text(vector, "fleet").parse().unwrap(), text(vector, "tag"));
        assert_eq!(hash.uuid(id(vector)).to_string(), text(vector, "text"), "{vector}");
    }
}
