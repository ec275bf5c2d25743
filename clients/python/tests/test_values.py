"""Layouts, options, errors and plans: values in, values out."""

from __future__ import annotations

import os
import pickle
import tempfile
import unittest
from unittest import mock

import leafd_client
from leafd_client import (
    ErrorCode,
    InvalidArgumentError,
    Layout,
    RefusedError,
    UnavailableError,
    _options,
    default_socket_path,
)
from leafd_client._options import Options
from leafd_client._plan import MAX_CHUNK, ChunkRule, Due, RefillPlan
from leafd_client._session import Backoff, check_count, daemon_timeout_ms, encode_tag


class Layouts(unittest.TestCase):
    def test_ids_are_decoded_as_java_leaf_composes_them(self) -> None:
        value = (1_600_000_000_000 - 1_288_834_974_657) << 22 | 513 << 12 | 77
        self.assertEqual(Layout.LEAF.decode(value), (1_600_000_000_000, 513, None, 77))
        self.assertEqual(Layout.TWITTER.decode(value), (1_600_000_000_000, 513, 16, 77))

    def test_layouts_are_written_and_read_back(self) -> None:
        for name, layout in (("leaf", Layout.LEAF), ("twitter", Layout.TWITTER), ("baidu", Layout.BAIDU)):
            self.assertEqual(Layout.parse(name), layout)
            self.assertEqual(Layout.parse(str(layout)), layout)
        late = Layout(28, 22, 13, 1_767_225_600_000, unit_ms=1000)
        for text in ("baidu@1767225600000", "baidu@2026-01-01", "28/22/13@2026-01-01/1000ms"):
            self.assertEqual(Layout.parse(text), late)
        self.assertEqual(Layout.parse("41/10/12@2010-11-04T01:42:54.657Z"), Layout.LEAF)
        self.assertEqual(str(Layout.LEAF), "41/10/12@1288834974657/1ms")

    def test_invalid_layouts_and_ids_are_refused(self) -> None:
        for text in ("", "leaf2", "leaf@", "baidu@x", "41/10/12", "41/10@0", "41/10/12@-1", "41/9+/12@0",
                     "41/10/13@0", "0/51/12@0", "41/22/0@0", "41/10/12@0/2ms", "41/10/12@0/1",
                     "41/10/12@2026-13-01", "41/10/12@1969-12-31", "٤١/10/12@0"):  # fmt: skip
            with self.assertRaises(InvalidArgumentError, msg=text):
                Layout.parse(text)
        for value in (-1, 2**63):
            with self.assertRaises(InvalidArgumentError):
                Layout.LEAF.decode(value)


class Arguments(unittest.TestCase):
    def test_tags_are_checked_and_sent_as_they_are(self) -> None:
        for tag in (
            "",
            "x" * 129,
            "\U00010348" * 129,
            "a\nb",
            "\0",
            "\x1f",
            "\x7f",
            "a\x80",
            "\x9f",
            "\ud800",
        ):
            with self.assertRaises(InvalidArgumentError, msg=repr(tag)):
                encode_tag(tag)
        for tag in ("x" * 128, "\U00010348" * 128, " A\xa0", "e\u0301"):
            self.assertEqual(encode_tag(tag)[8:], tag.encode())

    def test_counts_are_checked(self) -> None:
        for count in (0, -1):
            with self.assertRaises(InvalidArgumentError):
                check_count(count)
        with self.assertRaises(InvalidArgumentError):
            check_count(1.5)  # type: ignore[arg-type]
        with self.assertRaises(RefusedError) as caught:
            check_count(2**32)
        self.assertEqual(caught.exception.number, ErrorCode.BadCount)

    def test_options_are_checked_and_moved_into_their_range(self) -> None:
        for path in ("", "a\0b", "x" * 108, b"bytes"):
            with self.assertRaises(InvalidArgumentError, msg=repr(path)):
                Options.check(path, 5, 0, 0)  # type: ignore[arg-type]
        for timeout in (-1.0, float("nan"), "5", None):
            with self.assertRaises(InvalidArgumentError, msg=repr(timeout)):
                Options.check("s", timeout, 0, 0)  # type: ignore[arg-type]
        self.assertEqual(Options.check("s", float("inf"), 0, 0), ("s", 86400.0, 0.001, 0.001))

    def test_the_daemon_gets_a_little_less_than_the_time_left(self) -> None:
        for left, sent in ((5.0, 4950), (0.1, 90), (0.0, 1), (-1.0, 1), (0.001, 1)):
            self.assertEqual(daemon_timeout_ms(left), sent)


class SocketSearch(unittest.TestCase):
    def search(self, uid: int, **variables: str) -> str:
        with mock.patch.dict(os.environ, variables, clear=True), mock.patch("os.geteuid", return_value=uid):
            return default_socket_path()

    def test_the_variable_wins_unless_it_is_empty(self) -> None:
        self.assertEqual(self.search(0, LEAFD_SOCKET="/a"), "/a")
        self.assertEqual(self.search(0, LEAFD_SOCKET=""), "/run/leafd/leafd.sock")

    def test_users_other_than_root_find_their_own_daemon(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(f"{folder}/leafd")
            self.assertEqual(self.search(7, XDG_RUNTIME_DIR=folder), f"{folder}/leafd/leafd.sock")
            self.assertEqual(self.search(0, XDG_RUNTIME_DIR=folder), "/run/leafd/leafd.sock")
        for base in ("", "relative", "/nowhere"):
            self.assertEqual(self.search(4_000_000_000, XDG_RUNTIME_DIR=base), "/run/leafd/leafd.sock")

    def test_only_a_private_directory_of_this_user_counts(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            uid = os.stat(folder).st_uid
            self.assertTrue(_options._is_private_directory(folder, uid))
            self.assertFalse(_options._is_private_directory(folder, uid + 1))
            os.symlink(folder, f"{folder}/link")
            self.assertFalse(_options._is_private_directory(f"{folder}/link", uid))
            for mode in (0o720, 0o702):
                os.chmod(folder, mode)
                self.assertFalse(_options._is_private_directory(folder, uid))
        self.assertFalse(_options._is_private_directory(folder, uid))


class Errors(unittest.TestCase):
    def test_every_error_is_pickled_whole(self) -> None:
        for error in (
            RefusedError(202, 20, 2**64 - 1, "no such tag"),
            UnavailableError("/s", "no", 2),
            leafd_client.DeadlineError("Segment", 0.5),
            leafd_client.ProtocolError("odd"),
            InvalidArgumentError("odd"),
            leafd_client.ClosedError(),
            leafd_client.ForkedError(),
        ):
            again = pickle.loads(pickle.dumps(error))
            self.assertEqual((type(again), str(again)), (type(error), str(error)))
            self.assertEqual(vars(again), vars(error))
            self.assertEqual(str(error.copy()), str(error))

    def test_the_class_of_a_number_says_whether_it_passes(self) -> None:
        for number in (300, 302, 312, 313, 399):
            self.assertTrue(RefusedError(number, 0, 0, "").temporary, number)
        for number in (0, 101, 202, 206, 299, 306, 307, 400, 999):
            self.assertFalse(RefusedError(number, 0, 0, "").temporary, number)
        self.assertEqual(RefusedError(999, 0, 0, "").name, "Unknown")
        self.assertFalse(UnavailableError("s", "", 13).temporary)
        self.assertTrue(UnavailableError("s", "", 2).temporary)


class Pauses(unittest.TestCase):
    def test_pauses_double_up_to_the_limit_and_jitter_shortens_them_by_up_to_half(self) -> None:
        for jitter, divisor in ((0.0, 1), (1.0, 2)):
            backoff = Backoff(0.005, 0.5)
            for pause in (5, 10, 20, 40, 80, 160, 320, 500, 500):
                backoff.lost(7.0, False, 0.0, jitter)
                self.assertAlmostEqual(backoff.not_before, 7.0 + pause / 1000 / divisor)

    def test_only_the_first_attempt_after_an_answer_is_immediate(self) -> None:
        backoff = Backoff(0.005, 0.5)
        for _ in range(9):
            backoff.lost(7.0, False, 0.0, 0.0)
        backoff.lost(7.0, True, 0.0, 0.0)
        self.assertEqual(backoff.not_before, 7.0)
        backoff.lost(7.0, False, 0.0, 0.0)
        self.assertAlmostEqual(backoff.not_before, 7.005)
        backoff.lost(7.0, True, 2.0, 0.0)
        self.assertAlmostEqual(backoff.not_before, 9.0)


class Plans(unittest.TestCase):
    """A pool whose daemon answers at once."""

    def setUp(self) -> None:
        self.plan = RefillPlan(ChunkRule(100, MAX_CHUNK, 1.0), 0.005, 0.5)
        self.now = 1000.0
        self.held = self.taken = 0

    def due(self, asked: bool = True) -> Due:
        return self.plan.due(self.now, self.held, self.taken, asked)

    def lease(self) -> int:
        count = self.due().ids
        self.assertGreater(count, 0)
        self.plan.leased(self.now, self.taken)
        self.held += count
        return count

    def use_up(self, count: int, seconds: float) -> None:
        self.held -= count
        self.taken += count
        self.now += seconds

    def test_a_chunk_is_due_once_half_of_the_last_one_is_used(self) -> None:
        self.assertEqual(self.lease(), 100)
        self.use_up(49, 1)
        self.assertEqual(self.due(), Due())
        self.use_up(1, 1)
        self.assertGreater(self.due().ids, 0)

    def test_the_fastest_user_gets_the_largest_chunk_after_five_leases(self) -> None:
        sizes = []
        for _ in range(6):
            sizes.append(self.lease())
            self.use_up(self.held, 0.001)
        self.assertEqual(sizes, [100, 800, 6_400, 51_200, 409_600, MAX_CHUNK])

    def test_a_chunk_lasts_about_a_second(self) -> None:
        self.lease()
        sizes = []
        for _ in range(8):
            used = self.held - self.plan.chunk // 2
            self.use_up(used, used / 10_000)
            sizes.append(self.lease())
        self.assertEqual(sizes[:2], [800, 6400])
        self.assertTrue(all(9_999 <= size <= 10_001 for size in sizes[3:]), sizes)

    def test_limits_of_the_daemon_are_heeded_for_a_minute(self) -> None:
        for code, detail, chunk in ((ErrorCode.BadCount, 40, 40), (ErrorCode.QuotaExceeded, 40, 10)):
            self.setUp()
            self.lease()
            self.use_up(100, 0.001)
            refusal = RefusedError(code, 0, detail, "")
            self.plan.failed(self.now, refusal, 0.0)
            self.now += 1
            self.assertEqual(self.due().ids, chunk)
            self.now += 60
            self.assertGreaterEqual(self.due().ids, 100)

    def test_a_lower_limit_is_tried_at_once(self) -> None:
        self.lease()
        self.assertEqual(self.plan.failed(self.now, RefusedError(200, 0, 40, ""), 0.0), (False, self.now))

    def test_a_failure_is_retried_after_a_pause_and_not_before_the_daemon_says(self) -> None:
        self.plan.failed(self.now, RefusedError(302, 0, 0, ""), 0.0)
        at = self.due(asked=False).at
        assert at is not None
        self.assertAlmostEqual(at, self.now + 0.005)
        self.plan.failed(self.now, RefusedError(302, 700, 0, ""), 0.0)
        at = self.due(asked=False).at
        assert at is not None
        self.assertAlmostEqual(at, self.now + 0.7)

    def test_what_does_not_pass_is_retried_only_when_somebody_asks(self) -> None:
        began, until = self.plan.failed(self.now, RefusedError(206, 0, 0, ""), 0.0)
        self.assertTrue(began)
        self.now = until
        self.assertEqual(self.due(asked=False), Due())
        self.assertGreater(self.due(asked=True).ids, 0)

    def test_an_outage_is_reported_once_and_so_is_its_end(self) -> None:
        refusal = UnavailableError("s", "gone", 2)
        self.assertFalse(self.plan.failed(self.now, refusal, 0.0)[0])
        self.now += 1.0
        self.assertTrue(self.plan.failed(self.now, refusal, 0.0)[0])
        self.assertFalse(self.plan.failed(self.now, refusal, 0.0)[0])
        self.now += 2.0
        after = self.plan.leased(self.now, 0)
        assert after is not None
        self.assertAlmostEqual(after, 3.0)
        self.assertIsNone(self.plan.leased(self.now, 0))
