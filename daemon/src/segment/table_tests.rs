use std::cell::Cell;

use super::lookups::{EVICTION_TRIES, MOST_LOOKUPS};
use super::*;

/// In use until its test says otherwise.
struct Fake {
    name: BizTag,
    idle: Cell<bool>,
    mark: Cell<u64>,
    gone: Cell<bool>,
    hastened: Cell<bool>,
}

impl TableEntry for Fake {
    fn name(&self) -> &BizTag {
        &self.name
    }

    fn evict(&self) -> bool {
        self.idle.get()
    }

    fn retire(&self) -> Option<u64> {
        self.gone.get().then(|| self.mark.get())
    }

    fn hasten(&self, _: &Lane) {
        self.hastened.set(true);
    }
}

const EVE: Asker = Asker(666);
const BOB: Asker = Asker(1000);

fn name(text: &str) -> BizTag {
    BizTag::new(text).unwrap()
}

fn fake(text: &str, mark: u64) -> Fake {
    let (idle, gone, hastened) = (Cell::default(), Cell::default(), Cell::default());
    Fake { name: name(text), idle, mark: Cell::new(mark), gone, hastened }
}

fn table(max_tags: usize) -> TagTable<Fake> {
    TagTable::new(max_tags, 1, NameHasher::default())
}

fn ask(table: &mut TagTable<Fake>, text: &str, asker: Asker) -> Result<Arc<Fake>, TableFull> {
    table.find_or_look_up(&name(text), asker, |mark, _| fake(text, mark))
}

fn evict_one_of(table: &mut TagTable<Fake>, asker: Asker) -> bool {
    let evicted = table.lookups.evict_one_of(asker);
    evicted.inspect(|name| table.drop_unused_name(name)).is_some()
}

/// As if the store had granted it a range.
fn add_tag(table: &mut TagTable<Fake>, text: &str, mark: u64) -> Arc<Fake> {
    let tag = ask(table, text, BOB).unwrap();
    tag.mark.set(mark);
    table.insert(name(text), Arc::clone(&tag));
    tag
}

#[test]
fn a_tag_is_found_by_its_whole_name_and_a_guess_looks_at_the_hash_alone() {
    let mut table = table(1000);
    let tags: Vec<_> =
        (1..=500).map(|nth| add_tag(&mut table, &format!("tag {nth}"), nth)).collect();
    for tag in &tags {
        let hash = table.hasher.hash(tag.name.as_str().as_bytes());
        assert!(Arc::ptr_eq(table.get(tag.name.as_str()).unwrap(), tag));
        assert!(std::ptr::eq(table.guess(hash).1.unwrap(), &raw const **tag));
        // As if two names had one hash.
        assert!(table.get_hashed(hash, "another").is_none());
    }
    let again = add_tag(&mut table, "tag 7", 7);
    assert!(Arc::ptr_eq(table.get("tag 7").unwrap(), &again) && table.len() == 500);
    assert!(table.guess(table.hasher.hash(b"tag 501")).1.is_none());
}

#[test]
fn lookups_take_no_tags_place() {
    let mut table = table(2);
    for nth in 0..100_000 {
        let Ok(lookup) = ask(&mut table, &format!("new {nth}"), EVE) else { continue };
        lookup.idle.set(true);
    }
    let (lookups, ..) = table.lookups.sizes(EVE);
    assert!(lookups <= MOST_LOOKUPS / 2, "{lookups}");
    add_tag(&mut table, "orders", 1);
    add_tag(&mut table, "users", 1);
    assert_eq!(
        ask(&mut table, "third", BOB).err(),
        Some(TableFull::Tags { limit: 2, removed: 0 }),
        "real exhaustion is one"
    );
    assert!(ask(&mut table, "orders", EVE).is_ok());
}

#[test]
fn an_asker_of_many_names_evicts_its_own_and_none_that_is_waited_for() {
    let mut table = table(10);
    let waited_for = ask(&mut table, "bob's", BOB).unwrap();
    let first = ask(&mut table, "eve's first", EVE).unwrap();
    for nth in 0..2 * MOST_LOOKUPS {
        ask(&mut table, &format!("new {nth}"), EVE).unwrap().idle.set(true);
    }
    assert!(Arc::ptr_eq(&waited_for, &ask(&mut table, "bob's", BOB).unwrap()));
    assert!(Arc::ptr_eq(&first, &ask(&mut table, "eve's first", EVE).unwrap()));
    let ((lookups, of_eve, queue), (_, of_bob, _)) =
        (table.lookups.sizes(EVE), table.lookups.sizes(BOB));
    assert_eq!(of_eve + of_bob, lookups);
    assert!(queue <= 2 * of_eve + EVICTION_TRIES);
}

#[test]
fn an_asker_that_waits_for_many_names_leaves_room_for_any_number_of_others() {
    let mut table = table(10);
    let held = |table: &mut TagTable<Fake>, asker: Asker| {
        let most = 2 * MOST_LOOKUPS;
        (0..most).take_while(|nth| ask(table, &format!("{asker:?} {nth}"), asker).is_ok()).count()
    };
    assert_eq!(held(&mut table, EVE), MOST_LOOKUPS / 2);
    assert_eq!(ask(&mut table, "one more", EVE).err(), Some(TableFull::Lookups(MOST_LOOKUPS / 2)));
    for other in 0..5 {
        assert!(held(&mut table, Asker(other)) > 0, "asker {other}");
    }
    // Once no request waits for them, they can be evicted.
    for lookup in table.lookups() {
        lookup.idle.set(true);
    }
    for other in 5..1000 {
        assert!(ask(&mut table, &format!("name of {other}"), Asker(other)).is_ok());
    }
    assert!(table.lookups.sizes(EVE).0 <= MOST_LOOKUPS);
}

#[test]
fn a_name_that_somebody_else_asks_for_is_looked_up_in_the_shorter_queue() {
    let mut table = table(10);
    for nth in 0..10 {
        ask(&mut table, &format!("new {nth}"), EVE).unwrap();
    }
    ask(&mut table, "new 3", EVE).unwrap();
    assert!(table.lookups().all(|lookup| !lookup.hastened.get()));
    assert!(ask(&mut table, "new 3", BOB).unwrap().hastened.get());
}

#[test]
fn removed_tags_take_no_place_and_their_marks_are_kept() {
    let mut table = table(2);
    for (nth, mark) in [(0, 500), (1, 700)] {
        add_tag(&mut table, &format!("old {nth}"), mark).gone.set(true);
        table.note_removed();
    }
    add_tag(&mut table, "orders", 1);
    assert!(table.get("old 0").is_none() && table.tags.len() == 1);
    assert_eq!(ask(&mut table, "old 1", BOB).unwrap().mark.get(), 700, "it goes on above");
    assert_eq!(table.mark(&name("old 0")), 500);
    // A lookup that found nothing leaves the mark where it is.
    ask(&mut table, "old 1", BOB).unwrap().idle.set(true);
    assert!(evict_one_of(&mut table, BOB));
    assert_eq!(table.marks.len(), 2);
}

#[test]
fn pages_of_names_are_in_byte_order_and_hold_each_name_once_whatever_became_of_it() {
    let mut table = table(100);
    let removed = add_tag(&mut table, "b", 7);
    add_tag(&mut table, "é", 1);
    for name in ["a", "c", "b"] {
        ask(&mut table, name, Asker(1)).unwrap().idle.set(true);
    }
    let names = |table: &TagTable<Fake>, after: &str| -> Vec<String> {
        let names = table.names_after(after, 3);
        names.iter().map(|name| name.as_str().to_owned()).collect()
    };
    assert_eq!(names(&table, ""), ["a", "b", "c"]);
    assert_eq!(names(&table, "c"), ["é"]);
    removed.gone.set(true);
    table.sweep_among(&[name("a"), name("b"), name("é")]);
    assert_eq!((table.len(), table.mark(&name("b"))), (1, 7));
    assert_eq!(names(&table, "a"), ["b", "c", "é"]);
    // A lookup that was evicted leaves no name behind.
    assert!(evict_one_of(&mut table, Asker(1)));
    assert_eq!(names(&table, ""), ["b", "c", "é"]);
    add_tag(&mut table, "b", 9);
    add_tag(&mut table, "c", 9);
    assert_eq!(names(&table, ""), ["b", "c", "é"]);
}

#[test]
fn tags_and_marks_of_past_days_leave_one_number_for_their_series_and_a_tag_in_use_stays() {
    let mut table = table(9);
    let leave = |tag: &Fake| tag.idle.get().then(|| tag.mark.get());
    let [used, idle, removed] = [("a-20200103", 500), ("a-20200102", 900), ("a-20200101", 700)]
        .map(|(name, mark)| add_tag(&mut table, name, mark));
    idle.idle.set(true);
    removed.gone.set(true);
    table.sweep_among(std::slice::from_ref(&removed.name));
    ask(&mut table, "d-20200101", BOB).unwrap();
    let retire = |table: &mut TagTable<Fake>, text: &str| {
        table.retire(&name(text), 800, leave).map(|left| left.floor)
    };
    let retired = ["a-20200103", "a-20200102", "a-20200101", "a-20200102", "d-20200101"]
        .map(|text| retire(&mut table, text));
    assert_eq!(retired, [None, Some(900), Some(800), None, None], "neither is there any more");
    assert!(table.get(used.name.as_str()).is_some());
    assert_eq!(table.names_after("", 9), ["a-20200103", "d-20200101"].map(name));
    // Whoever comes back goes on above all of its series, and nobody else does.
    for (text, mark) in [
        ("a-20200102", 900),
        ("a-20200101", 900),
        ("a-20191231", 900),
        ("a-20200104", 0),
        ("e-20200101", 0),
        ("a", 0),
    ] {
        assert_eq!(table.mark(&name(text)), mark, "{text}");
        assert_eq!(table.removed_mark(&name(text)), 0, "{text}");
    }
}

#[test]
fn there_is_room_for_as_many_series_of_past_days_as_for_tags() {
    let mut table = table(3);
    let leave = |tag: &Fake| Some(tag.mark.get());
    for (text, floor) in [
        ("a-20200102", Some(7)),
        ("b-20200101", Some(7)),
        ("c-20200101", Some(7)),
        ("d-20200101", None),
        ("a-20200101", Some(7)),
    ] {
        add_tag(&mut table, text, 7);
        let left = table.retire(&name(text), 0, leave);
        assert_eq!(left.map(|left| left.floor), floor, "{text}");
    }
    assert!(table.get("d-20200101").is_some(), "its mark stays, and it with it");
}

#[test]
fn without_room_for_marks_new_tags_are_refused_and_no_mark_is_forgotten() {
    let mut table = table(2);
    for nth in 0..4 {
        add_tag(&mut table, &format!("old {nth}"), nth + 1).gone.set(true);
        table.note_removed();
    }
    let full = ask(&mut table, "orders", BOB).err();
    assert_eq!(full, Some(TableFull::Tags { limit: 2, removed: 2 }));
    let mut marks: Vec<_> = table.marks.values().copied().collect();
    marks.extend(table.tags().map(|tag| tag.mark.get()));
    marks.sort_unstable();
    assert_eq!(marks, [1, 2, 3, 4]);
}

#[test]
fn a_place_finds_its_tag_as_long_as_it_is_there_and_never_another_one() {
    let mut table = table(1000);
    let hash = |text: &str| table.hasher.hash(text.as_bytes());
    let [orders, users] = ["orders", "users"].map(hash);
    assert!(table.guess(orders).1.is_none());
    add_tag(&mut table, "orders", 1);
    let (place, tag) = table.guess(orders);
    assert_eq!(tag.map(TableEntry::name), Some(&name("orders")));
    let found = |table: &TagTable<Fake>, place, text: &str| {
        table.get_near(place, text).map(|tag| tag.name().as_str().to_owned())
    };
    let unseen = [orders, users].map(TagPlace::unseen);
    for place in [place, unseen[0], unseen[1]] {
        assert_eq!(found(&table, place, "orders").as_deref(), Some("orders"));
        assert_eq!(found(&table, place, "users"), None);
    }
    // The table grows, and others take the slot.
    for number in 0..500 {
        add_tag(&mut table, &format!("tag-{number}"), 1);
    }
    add_tag(&mut table, "users", 1);
    assert_eq!(found(&table, place, "orders").as_deref(), Some("orders"));
    assert_eq!(found(&table, place, "users").as_deref(), Some("users"));
    table.remove(&name("orders"));
    for place in [place, unseen[0], unseen[1]] {
        assert_eq!(found(&table, place, "orders"), None);
    }
}
