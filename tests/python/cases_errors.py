"""Every error that a client can bring about at a healthy daemon, and what it leaves of the connection."""

from __future__ import annotations

import struct

from daemon_case import TOP, DaemonTest, body, fresh, segment_fields
from leaf_wire import (
    HEADER,
    MAX_REQUEST,
    Call,
    ErrorCode,
    ErrorReply,
    Segment,
    Snowflake,
    TagCreate,
    TagDelete,
    TagList,
    TagSetStep,
    TagShow,
    TagsUsed,
    WorkerList,
    WorkerRelease,
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
            cases += [(WorkerList(0, limit), ErrorCode.BAD_COUNT, 100)]
        for first in (0, TOP - 49, TOP, 2**63, 2**64 - 1):
            cases += [(TagCreate(other, step=50, first=first), ErrorCode.BAD_COUNT, TOP - 50)]
        cases += [(TagCreate(other, description="é" * 257), ErrorCode.BAD_DESCRIPTION, 0)]
        cases += [(TagCreate(tag), ErrorCode.TAG_EXISTS, 0)]
        for call, code, detail in cases:
            with self.subTest(call=call):
                self.assert_refused(peer.ask(call), code, detail)
                self.assert_open_or_closed(peer, code)
        self.assert_refused(peer.ask(TagShow(other)), ErrorCode.UNKNOWN_TAG)

    def test_where_several_errors_apply_the_first_in_the_order_of_the_page_is_the_answer(self) -> None:
        peer, tag, long = self.connect(), fresh("several"), "é" * 257
        self.one_tag(peer.ask(TagCreate(tag)))
        step = self.expect(ErrorReply, peer.ask(TagSetStep(tag, 0))).detail + 1
        cases: list[tuple[Call, ErrorCode]] = [
            (Segment("", 0), ErrorCode.BAD_COUNT),
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
        bodies = [
            (False, body(0, 77), ErrorCode.HELLO_EXPECTED),
            (False, body(0, 0, b"LEAX\0\0"), ErrorCode.MALFORMED),
            (False, body(1, 0, b"LEAX\0\0"), ErrorCode.BAD_MAGIC),
            (False, body(1, 1, segment_fields(b"")), ErrorCode.HELLO_EXPECTED),
            (True, body(0, 77), ErrorCode.UNKNOWN_CALL),
            (True, body(0, 1, segment_fields(b"")), ErrorCode.MALFORMED),
        ]
        for greet, data, code in bodies:
            with self.subTest(greet=greet, code=code):
                peer = self.connect(greet)
                peer.send_body(data)
                self.assertEqual(self.expect(ErrorReply, peer.response().reply).code, code)
                self.assertTrue(peer.ended())

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

    def test_worker_ids_that_the_configuration_numbers_are_neither_listed_nor_released(self) -> None:
        peer = self.connect()
        calls: list[Call] = [WorkerList(), WorkerList(from_=2**64 - 1, limit=1)]
        calls += [WorkerRelease(worker, owner) for worker in (0, 2**64 - 1) for owner in ("", "é" * 256)]
        for call in calls:
            with self.subTest(call=call):
                self.assert_refused(peer.ask(call), ErrorCode.NOT_CONFIGURED)
                self.assert_open_or_closed(peer, ErrorCode.NOT_CONFIGURED)

    def test_a_bad_tag_is_refused_by_every_call_that_takes_one(self) -> None:
        peer = self.connect()
        bad = ["", "x" * 129, "é" * 129, *(f"a{chr(c)}b" for c in (0x00, 0x0A, 0x1F, 0x7F, 0x80, 0x9F))]
        for tag in bad:
            for call in (Segment(tag), TagShow(tag), TagCreate(tag), TagSetStep(tag, 5), TagDelete(tag)):
                with self.subTest(call=call):
                    self.assert_refused(peer.ask(call), ErrorCode.BAD_TAG)
                    self.assert_open_or_closed(peer, ErrorCode.BAD_TAG)

    def test_a_request_that_does_not_decode_is_answered_by_its_id(self) -> None:
        whole = body(5, 1, segment_fields(b"x"))
        cases = {
            "cut short": whole[:-1],
            "a byte left over": whole + b"\0",
            "a byte behind an empty call": body(5, 3, b"\0"),
            "half a call number": whole[:10],
            "no call number": whole[:8],
            "bad UTF-8": body(5, 1, segment_fields(b"\xff")),
            "a surrogate": body(5, 1, segment_fields(b"\xed\xa0\x80")),
            "an overlong form": body(5, 1, segment_fields(b"\xc1\x81")),
            "a text of 2^63 bytes": body(5, 1, struct.pack("<Q", 2**63) + b"x"),
            "a text of 2^64 - 1 bytes": body(5, 1, struct.pack("<Q", 2**64 - 1) + b"x"),
        }
        for name, data in cases.items():
            with self.subTest(name):
                peer = self.connect()
                peer.send_body(data)
                response = peer.response()
                self.assertEqual(response.id, 5)
                self.assert_refused(response.reply, ErrorCode.MALFORMED)
                self.assert_open_or_closed(peer, ErrorCode.MALFORMED)

    def test_a_request_without_a_usable_id_is_answered_with_id_0_and_closes(self) -> None:
        for name, data in {"ID 0": body(0, 3), "nothing": b"", "seven bytes": b"\1\0\0\0\0\0\0"}.items():
            with self.subTest(name):
                peer = self.connect()
                peer.send_body(data)
                response = peer.response()
                self.assertEqual(response.id, 0)
                self.assert_refused(response.reply, ErrorCode.MALFORMED)
                self.assertTrue(peer.ended())

    def test_an_unknown_call_is_refused_with_its_number(self) -> None:
        peer = self.connect()
        for number, fields in ((1000, b""), (77, b"whatever"), (2**32 - 1, b"\xff" * 100)):
            with self.subTest(number=number):
                peer.send_body(body(5, number, fields))
                response = peer.response()
                self.assertEqual(response.id, 5)
                self.assert_refused(response.reply, ErrorCode.UNKNOWN_CALL, number)
                self.assert_open_or_closed(peer, ErrorCode.UNKNOWN_CALL)

    def test_a_frame_above_the_limit_is_refused_by_its_header_alone(self) -> None:
        whole = body(5, 1, segment_fields(b"x" * (MAX_REQUEST - len(body(5, 1, segment_fields(b""))))))
        self.assertEqual(len(whole), MAX_REQUEST)
        peer = self.connect()
        peer.send_body(whole)
        self.assert_refused(peer.response().reply, ErrorCode.BAD_TAG)
        for data in (HEADER.pack(MAX_REQUEST + 1), HEADER.pack(MAX_REQUEST + 1) + whole + b"\0", b"\xff" * 4):
            with self.subTest(size=len(data)):
                peer = self.connect()
                peer.send(data)
                response = peer.response()
                self.assertEqual(response.id, 0)
                self.assert_refused(response.reply, ErrorCode.FRAME_TOO_LARGE, MAX_REQUEST)
                self.assert_open_or_closed(peer, ErrorCode.FRAME_TOO_LARGE)
