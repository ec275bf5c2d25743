"""The calls that operators make: `TagList`, `TagShow`, `TagCreate`, `TagSetStep`, `TagDelete`,
`TagsUsed` and `TagForecasts`."""

from __future__ import annotations

from daemon_case import DaemonTest, fresh
from leaf_wire import (
    ErrorCode,
    Forecasts,
    Segment,
    Span,
    TagCreate,
    TagDelete,
    TagForecasts,
    TagList,
    Tags,
    TagSetStep,
    TagShow,
    TagStatus,
    TagsUsed,
)


class TagCallsTest(DaemonTest):
    def test_a_created_tag_begins_at_its_first_id(self) -> None:
        peer, tag = self.connect(), fresh("made")
        made = self.one_tag(peer.ask(TagCreate(tag, step=50, first=1_000, description="für Leute")))
        self.assertEqual(made, TagStatus(
            tag=tag, row_step=50, step=50, max_id=1_000, description="für Leute", current=None, next=None,
            position=0, remaining=0, issued=0, leases=0, last_lease_ms_ago=None, last_lease_size=0, waiting=0,
            lease_error="", seconds_left=None,
        ))  # fmt: skip
        self.assertEqual(self.one_tag(peer.ask(TagShow(tag))), made)
        self.assertEqual(self.ids(peer, Segment(tag, count=2)), [1_000, 1_001])

    def test_show_returns_the_ranges_and_counters_of_a_tag(self) -> None:
        peer, tag = self.connect(), fresh("shown")
        self.one_tag(peer.ask(TagCreate(tag, step=50)))
        self.ids(peer, Segment(tag, count=2))
        shown = self.one_tag(peer.ask(TagShow(tag)))
        self.assertEqual(shown.current, Span(1, 51))
        self.assertEqual((shown.position, shown.issued), (3, 2))
        ahead = shown.next.end - shown.next.start if shown.next else 0
        self.assertEqual(shown.remaining, 48 + ahead)
        self.assertGreaterEqual(shown.leases, 1)
        self.assertGreaterEqual(shown.last_lease_size, 50)
        self.assertIsNotNone(shown.last_lease_ms_ago)
        self.assertGreaterEqual(shown.max_id, 51)
        self.assertEqual((shown.waiting, shown.lease_error), (0, ""))

    def test_a_step_of_0_means_the_default_and_a_changed_step_applies_to_the_next_lease(self) -> None:
        peer, tag = self.connect(), fresh("step")
        self.assertGreater(self.one_tag(peer.ask(TagCreate(tag, step=0))).row_step, 0)
        changed = self.one_tag(peer.ask(TagSetStep(tag, step=77)))
        self.assertEqual((changed.tag, changed.row_step), (tag, 77))
        self.assertEqual(self.one_tag(peer.ask(TagShow(tag))).row_step, 77)
        self.assertEqual(self.ids(peer, Segment(tag)), [1])
        self.assertEqual(self.one_tag(peer.ask(TagShow(tag))).current, Span(1, 78))

    def test_more_than_100_tags_are_listed_page_by_page_in_byte_order(self) -> None:
        peer = self.connect()
        prefix = fresh("list-")
        made = [f"{prefix}{i:03}" for i in range(110)] + [
            prefix + end for end in ("Z", "é", "\uff5e", "\U0001f600")
        ]
        for tag in made:
            self.one_tag(peer.ask(TagCreate(tag)))
        for limit in (100, 7):
            with self.subTest(limit=limit):
                listed: list[str] = []
                after = prefix
                while page := self.expect(Tags, peer.ask(TagList(after, limit))).tags:
                    self.assertLessEqual(len(page), limit)
                    self.assertGreater(page[0].tag.encode(), after.encode())
                    listed += [tag.tag for tag in page]
                    after = listed[-1]
                self.assertEqual(listed, sorted(listed, key=str.encode))
                ours = [tag for tag in listed if tag.startswith(prefix)]
                self.assertEqual(ours, sorted(made, key=str.encode))
        everything = self.expect(Tags, peer.ask(TagList("", 100))).tags
        self.assertEqual(len(everything), 100)
        self.assertEqual(peer.ask(TagList("\U0010ffff", 100)), Tags(()))

    def test_only_used_tags_are_in_the_list_of_used_tags(self) -> None:
        peer, prefix = self.connect(), fresh("used-")
        used = [f"{prefix}{i:03}" for i in range(12)]
        for tag in used:
            self.ids(peer, Segment(tag))
        self.one_tag(peer.ask(TagCreate(f"{prefix}not", description="not used")))
        listed: list[str] = []
        after = prefix
        while page := self.expect(Tags, peer.ask(TagsUsed(after, 5))).tags:
            self.assertLessEqual(len(page), 5)
            listed += [tag.tag for tag in page]
            after = listed[-1]
        self.assertEqual([tag for tag in listed if tag.startswith(prefix)], used)

    def test_forecasts_come_for_the_used_tags_in_pages_or_for_one(self) -> None:
        peer, prefix = self.connect(), fresh("forecast-")
        used = [f"{prefix}{i:03}" for i in range(12)]
        for tag in used:
            self.ids(peer, Segment(tag))
        listed: list[str] = []
        after = prefix
        while page := self.expect(Forecasts, peer.ask(TagForecasts("", after, 5))).tags:
            self.assertLessEqual(len(page), 5)
            listed += [tag.tag for tag in page]
            after = listed[-1]
        self.assertEqual([tag for tag in listed if tag.startswith(prefix)], used)
        one = self.expect(Forecasts, peer.ask(TagForecasts(used[3], limit=1)))
        self.assertEqual([tag.tag for tag in one.tags], [used[3]])
        self.assertGreater(one.tags[0].max_id, 1)
        # Nothing is known of a tag that is some seconds old.
        self.assertIsNone(one.tags[0].growth)
        self.assertEqual([limit.limit for limit in one.tags[0].limits], [2**31, 2**53, 2**63])
        self.assertEqual({limit.reached_unix_ms for limit in one.tags[0].limits}, {None})
        self.assertGreater(one.unix_ms, 1_600_000_000_000)
        self.assert_refused(peer.ask(TagForecasts(fresh("unused"))), ErrorCode.UNKNOWN_TAG)
        self.assert_refused(peer.ask(TagForecasts("a\n")), ErrorCode.BAD_TAG)

    def test_a_deleted_tag_is_unknown_and_a_new_one_begins_where_the_old_one_ended(self) -> None:
        peer, tag = self.connect(), fresh("deleted")
        self.one_tag(peer.ask(TagCreate(tag, step=50, first=1_000)))
        seen = self.ids(peer, Segment(tag, count=2))
        ended = self.one_tag(peer.ask(TagDelete(tag))).max_id
        self.assertGreater(ended, max(seen))
        for call in (TagShow(tag), TagDelete(tag)):
            self.assert_refused(peer.ask(call), ErrorCode.UNKNOWN_TAG)
        self.assertEqual(self.one_tag(peer.ask(TagCreate(tag, step=50))).max_id, ended)
        self.assertEqual(self.ids(peer, Segment(tag)), [ended])

    def test_show_and_set_step_do_not_create_a_tag(self) -> None:
        peer, tag = self.connect(), fresh("absent")
        for call in (TagShow(tag), TagSetStep(tag, 5), TagShow(tag)):
            self.assert_refused(peer.ask(call), ErrorCode.UNKNOWN_TAG)
        self.assertEqual(self.one_tag(peer.ask(TagCreate(tag))).tag, tag)
