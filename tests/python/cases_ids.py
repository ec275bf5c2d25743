"""The calls that applications make: `Segment`, `Snowflake`, `Time` and `Status`."""

from __future__ import annotations

import time

from daemon_case import PREFIX, DaemonTest, fresh
from leaf_wire import (
    DaemonStatus,
    ErrorCode,
    Ids,
    Run,
    Segment,
    Serving,
    Snowflake,
    Status,
    TagShow,
    Time,
    TimeReply,
)

EPOCH = 1_288_834_974_657
LEAD_MS = 10
"""How far the time in a snowflake ID may be ahead of the clock."""


class IdCallsTest(DaemonTest):
    def test_a_fresh_tag_gives_1_then_2_then_3_to_7(self) -> None:
        peer, tag = self.connect(), fresh("order")
        self.assertEqual(peer.ask(Segment(tag)), Ids(Run(1, 1)))
        self.assertEqual(peer.ask(Segment(tag)), Ids(Run(2, 1)))
        self.assertEqual(self.ids(peer, Segment(tag, count=5)), [3, 4, 5, 6, 7])

    def test_the_largest_count_is_served_whole(self) -> None:
        peer, tag = self.connect(), fresh("largest")
        found = self.ids(peer, Segment(tag, self.hello.max_count))
        self.assertGreater(self.ids(peer, Segment(tag))[0], found[-1])
        self.ids(peer, Snowflake(self.hello.max_count))

    def test_tags_of_128_characters_and_of_any_script_are_kept_unchanged(self) -> None:
        peer = self.connect()
        longest = [(PREFIX + filler * 128)[:128] for filler in ("x", "é", "\U0001f600")]
        for tag in longest + [PREFIX + end for end in (" space ", "A\u0301", "\u00c1", "\u00a0", "\u2028")]:
            with self.subTest(tag=tag):
                self.assertEqual(self.ids(peer, Segment(tag)), [1])
                self.assertEqual(self.one_tag(peer.ask(TagShow(tag))).tag, tag)

    def test_a_snowflake_has_its_time_and_worker_id_as_the_layout_says(self) -> None:
        peer = self.connect()
        status = self.expect(DaemonStatus, peer.ask(Status())).snowflake
        self.assertIn(status.layout, ("leaf", f"41/10/12@{EPOCH}/1ms", f"41/10/12@{EPOCH}"))
        before = self.expect(TimeReply, peer.ask(Time())).unix_ms
        found = [*self.ids(peer, Snowflake()), *self.ids(peer, Snowflake(count=10_000))]
        after = self.expect(TimeReply, peer.ask(Time())).unix_ms
        self.assertEqual(found, sorted(set(found)))
        for one in found:
            self.assertTrue(before <= EPOCH + (one >> 22) <= after + LEAD_MS, one)
            self.assertEqual((one >> 12) & 1_023, status.worker)

    def test_more_snowflakes_than_the_deadline_allows_are_error_308(self) -> None:
        peer = self.connect()
        reply = peer.ask(Snowflake(self.hello.max_count, timeout_ms=1))
        self.assert_refused(reply, ErrorCode.DEADLINE_EXCEEDED)
        self.assert_open_or_closed(peer, ErrorCode.DEADLINE_EXCEEDED)


class TimeAndStatusTest(DaemonTest):
    def test_time_is_the_clock_of_this_host(self) -> None:
        peer = self.connect()
        before = time.time_ns() // 1_000_000
        daemon = self.expect(TimeReply, peer.ask(Time())).unix_ms
        self.assertTrue(before <= daemon <= time.time_ns() // 1_000_000)

    def test_status_describes_the_daemon_and_its_counters_rise(self) -> None:
        peer = self.connect()
        self.ids(peer, Segment(fresh("status"), count=3))
        self.ids(peer, Snowflake(count=2))
        first = self.expect(DaemonStatus, peer.ask(Status()))
        self.assertRegex(first.version, r"^\d+\.\d+\.\d+")
        self.assertGreater(first.pid, 0)
        self.assertGreater(first.connections, 0)
        self.assertNotEqual(first.state_dir, "")
        self.assertNotEqual(first.segments.store, "")
        self.assertEqual(first.segments.store_error, "")
        self.assertGreater(first.segments.tags, 0)
        self.assertGreater(first.segments.leases, 0)
        self.assertEqual(first.snowflake.state, Serving())
        self.assertEqual(first.snowflake.registry, "fixed")
        self.assertIsNotNone(first.snowflake.worker)
        self.assertGreater(first.snowflake.ceiling_unix_ms, first.snowflake.last_unix_ms)
        self.assertLessEqual(first.snowflake.last_unix_ms, first.snowflake.clock_unix_ms + LEAD_MS)
        self.assertEqual(first.snowflake.registry_error, "")
        self.assertIsNone(first.snowflake.limit_unix_ms)
        self.assertIsNone(first.snowflake.clock_offset_ms)
        self.assertEqual(first.snowflake.peers, 0)

        self.connect()
        self.ids(peer, Segment(fresh("status"), count=3))
        self.ids(peer, Snowflake(count=2))
        second = self.expect(DaemonStatus, peer.ask(Status()))
        self.assertEqual((second.version, second.pid), (first.version, first.pid))
        self.assertGreaterEqual(second.uptime_ms, first.uptime_ms)
        self.assertGreaterEqual(second.connections, 2)
        self.assertGreaterEqual(second.requests, first.requests + 2)
        self.assertGreaterEqual(second.segments.issued, first.segments.issued + 3)
        self.assertGreaterEqual(second.snowflake.issued, first.snowflake.issued + 2)
