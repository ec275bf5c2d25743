"""The errors 2xx that a client can cause on a healthy daemon, and whether the connection survives them.

The errors 1xx are in protocol/malformed.json.
"""

from __future__ import annotations

from daemon_case import TOP, DaemonTest, body, fresh, segment_fields
from leaf_wire import (
    MAX_REQUEST,
    Call,
    ErrorCode,
    ErrorReply,
    HeldLoan,
    PoolList,
    PoolRelease,
    Segment,
    Snowflake,
    TagCreate,
    TagDelete,
    PublicDecode,
    PublicEncode,
    TagForecasts,
    TagList,
    TagSetStep,
    TagShow,
    TagsUsed,
    WorkerBorrow,
    WorkerList,
    WorkerRelease,
    WorkerReturn,
)


class Errors(DaemonTest):
    def test_a_call_that_asks_for_too_little_or_too_much_is_refused(self) -> None:
        peer, tag = self.connect(), fresh("refused")
        most = self.hello.max_count
        self.one_tag(peer.ask(TagCreate(tag)))
        other = fresh("never-made")
        cases: list[tuple[Call, ErrorCode, int]] = []
        for count in (0, most + 1, 2**32 - 1):
            cases += [(call, ErrorCode.BAD_COUNT, most) for call in (Snowflake(count), Segment(tag, count))]
        for limit in (0, 101):
            cases += [(TagList("", limit), ErrorCode.BAD_COUNT, 100)]
            cases += [(TagsUsed("", limit), ErrorCode.BAD_COUNT, 100)]
            cases += [(TagForecasts(name, "", limit), ErrorCode.BAD_COUNT, 100) for name in ("", tag, other)]
            cases += [(WorkerList(0, limit), ErrorCode.BAD_COUNT, 100)]
        cases += [(PublicEncode(tag, (1,) * count), ErrorCode.BAD_COUNT, 32) for count in (0, 33)]
        cases += [(PublicDecode("", ("x",) * count), ErrorCode.BAD_COUNT, 32) for count in (0, 33)]
        for first in (0, TOP - 49, TOP, 2**63, 2**64 - 1):
            cases += [(TagCreate(other, step=50, first=first), ErrorCode.BAD_COUNT, TOP - 50)]
        cases += [(TagCreate(other, description="é" * 257), ErrorCode.BAD_DESCRIPTION, 0)]
        cases += [(TagCreate(tag), ErrorCode.TAG_EXISTS, 0)]
        for call, code, detail in cases:
            with self.subTest(call=call):
                self.assert_refused(peer.ask(call), code, detail)
                self.assert_open_or_closed(peer, code)
        self.assert_refused(peer.ask(TagShow(other)), ErrorCode.UNKNOWN_TAG)

    def test_if_several_errors_apply_the_first_in_the_order_of_the_page_is_the_answer(self) -> None:
        peer, tag, long = self.connect(), fresh("several"), "é" * 257
        self.one_tag(peer.ask(TagCreate(tag)))
        step = self.expect(ErrorReply, peer.ask(TagSetStep(tag, 0))).detail + 1
        cases: list[tuple[Call, ErrorCode]] = [
            (Segment("", 0), ErrorCode.BAD_COUNT),
            (TagForecasts("\n", "", 0), ErrorCode.BAD_TAG),
            (PublicEncode("\n"), ErrorCode.BAD_TAG),
            (PublicEncode(tag), ErrorCode.BAD_COUNT),
            (PublicEncode(tag, (2**64 - 1,)), ErrorCode.NOT_CONFIGURED),
            (TagCreate("", step, TOP, long), ErrorCode.BAD_TAG),
            (TagCreate(tag, step, TOP, long), ErrorCode.BAD_STEP),
            (TagCreate(tag, 1, TOP, long), ErrorCode.BAD_COUNT),
            (TagCreate(tag, 1, 1, long), ErrorCode.BAD_DESCRIPTION),
            (TagCreate(tag, 1, 1, ""), ErrorCode.TAG_EXISTS),
            (TagSetStep("", 0), ErrorCode.BAD_TAG),
            (TagSetStep(fresh("unknown"), 0), ErrorCode.BAD_STEP),
        ]
        for call, code in cases:
            with self.subTest(call=call):
                self.assertEqual(self.expect(ErrorReply, peer.ask(call)).code, code)

    def test_a_step_out_of_range_is_refused_with_the_limit(self) -> None:
        peer, tag = self.connect(), fresh("step-range")
        self.one_tag(peer.ask(TagCreate(tag)))
        refused = peer.ask(TagSetStep(tag, 0))
        limit = self.expect(ErrorReply, refused).detail
        self.assertGreater(limit, 0)
        for call in (TagSetStep(tag, 0), TagSetStep(tag, limit + 1), TagCreate(fresh("no"), step=limit + 1)):
            with self.subTest(call=call):
                self.assert_refused(peer.ask(call), ErrorCode.BAD_STEP, limit)
                self.assert_open_or_closed(peer, ErrorCode.BAD_STEP)
        self.assertEqual(self.one_tag(peer.ask(TagSetStep(tag, limit))).row_step, limit)

    def test_worker_ids_from_the_configuration_are_neither_listed_nor_released(self) -> None:
        peer = self.connect()
        calls: list[Call] = [WorkerList(), WorkerList(from_=2**64 - 1, limit=1)]
        calls += [WorkerRelease(worker, owner) for worker in (0, 2**64 - 1) for owner in ("", "é" * 256)]
        calls += [WorkerBorrow("default", "b"), WorkerReturn("default", "b")]
        calls += [PoolList("default"), PoolRelease("default", 0, "")]
        for call in calls:
            with self.subTest(call=call):
                self.assert_refused(peer.ask(call), ErrorCode.NOT_CONFIGURED)
                self.assert_open_or_closed(peer, ErrorCode.NOT_CONFIGURED)
        for borrower in ("", " ", "x" * 65, "é", "a\n"):
            with self.subTest(borrower=borrower):
                refused = peer.ask(WorkerBorrow("default", borrower))
                self.assert_refused(refused, ErrorCode.BAD_COUNT, 64)
        refused = peer.ask(WorkerBorrow("default", "b", cgroup="/" + "x" * 512))
        self.assert_refused(refused, ErrorCode.BAD_COUNT, 512)
        refused = peer.ask(WorkerBorrow("default", "b", held=HeldLoan(0, "x" * 257, 0, 0)))
        self.assert_refused(refused, ErrorCode.BAD_COUNT, 256)

    def test_a_bad_tag_is_refused_by_every_call_that_takes_one(self) -> None:
        peer = self.connect()
        bad = ["", "x" * 129, "é" * 129, *(f"a{chr(c)}b" for c in (0x00, 0x0A, 0x1F, 0x7F, 0x80, 0x9F))]
        for tag in bad:
            for call in (Segment(tag), TagShow(tag), TagCreate(tag), TagSetStep(tag, 5), TagDelete(tag)):
                with self.subTest(call=call):
                    self.assert_refused(peer.ask(call), ErrorCode.BAD_TAG)
                    self.assert_open_or_closed(peer, ErrorCode.BAD_TAG)

    def test_a_frame_as_long_as_allowed_is_read(self) -> None:
        whole = body(5, 1, segment_fields(b"x" * (MAX_REQUEST - len(body(5, 1, segment_fields(b""))))))
        self.assertEqual(len(whole), MAX_REQUEST)
        peer = self.connect()
        peer.send_body(whole)
        self.assert_refused(peer.response().reply, ErrorCode.BAD_TAG)
