"""The page against the codec: its worked example and its tables. Needs no daemon."""

from __future__ import annotations

import struct
import unittest
from typing import get_args

import protocol_page
from daemon_case import body
from leaf_wire import (
    HEADER,
    Call,
    ClockBehind,
    DaemonStatus,
    ErrorCode,
    ErrorReply,
    Goodbye,
    Held,
    Hello,
    HelloReply,
    Ids,
    ProtocolError,
    Reply,
    Request,
    Response,
    Run,
    Segment,
    SegmentsStatus,
    Settling,
    Snowflake,
    SnowflakeStatus,
    Span,
    Status,
    TagCreate,
    TagDelete,
    TagList,
    Tags,
    TagSetStep,
    TagShow,
    TagStatus,
    TagsUsed,
    Time,
    TimeReply,
    WorkerList,
    WorkerRelease,
    Workers,
    WorkerStatus,
    decode,
    encode,
    least_size,
)

EXAMPLES: list[Request | Response] = [
    Request(1, Hello()),
    Response(1, HelloReply(version=1, max_count=100_000, max_in_flight=1_024)),
    Request(2, Segment("orders")),
    Response(2, Ids(Run(1, 1))),
    Response(3, ErrorReply(code=202, retry_after_ms=0, detail=0, message="no such tag: order")),
    Response(0, Goodbye()),
    Request(4, Snowflake(count=8_192, timeout_ms=500)),
    Response(4, Ids(Run(2**40, 4_096), (Run(2**40 + 2**22, 4_096),))),
    Response(5, TimeReply(1_700_000_000_000)),
    Request(5, Time()),
    Request(6, Status()),
    Request(7, TagShow("a")),
    Request(8, TagList("", 100)),
    Request(13, TagSetStep("a", 5_000)),
    Response(0, ErrorReply(code=300, retry_after_ms=100, detail=16_384, message="full")),
    Response(0, ErrorReply(code=206, retry_after_ms=0, detail=1_000, message="no")),
    Request(9, TagCreate("a", description="é")),
    Request(10, WorkerList()),
    Request(11, WorkerRelease(3, "a:1")),
    Request(12, TagDelete("a")),
    Request(13, TagsUsed()),
    Response(7, Tags((TagStatus(
        tag="a", row_step=2_000, step=4_000, max_id=8_001, description="é", current=Span(1, 2_001), next=None,
        position=17, remaining=1_984, issued=16, leases=1, last_lease_ms_ago=5, last_lease_size=2_000,
        waiting=3, lease_error="", seconds_left=124,
    ),))),
    Response(6, DaemonStatus(
        version="0.1.0", pid=42, uptime_ms=60_000, connections=2, requests=7, state_dir="/s",
        segments=SegmentsStatus(store="sqlite", store_error="", tags=1, waiting=0, issued=16, leases=2),
        snowflake=SnowflakeStatus(
            state=ClockBehind(250), worker=3, registry="zookeeper", layout="leaf",
            ceiling_unix_ms=1_700_000_001_000, last_unix_ms=1_700_000_000_250, clock_unix_ms=1_700_000_000_000,
            issued=4_096, identity="a:1", last_report_ms_ago=1_500, registry_error="",
            limit_unix_ms=1_700_043_200_000, clock_offset_ms=-12, peers=2,
        ),
    )),
    Response(8, Workers((
        WorkerStatus(
            worker=3, owner="a:1", address="10.0.0.1:2182", state=Held(), live=True, own=True,
            reported_unix_ms=1_700_000_000_000, age_ms=1_500, ceiling_unix_ms=1_700_000_001_000,
            limit_unix_ms=1_700_043_200_000,
        ),
        WorkerStatus(
            worker=5, owner="b:1", address="", state=Settling(), live=True, own=False,
            reported_unix_ms=1_700_000_001_500, age_ms=0, ceiling_unix_ms=0, limit_unix_ms=None,
        ),
    ))),
]  # fmt: skip


class ThePage(unittest.TestCase):
    """Needs no daemon."""

    def test_every_worked_example_is_encoded_and_decoded_byte_for_byte(self) -> None:
        for frame, message in zip(protocol_page.frames(), EXAMPLES, strict=True):
            with self.subTest(message=message):
                self.assertEqual(encode(message).hex(), frame.hex())
                self.assertEqual(HEADER.unpack(frame[:4])[0], len(frame) - 4)
                self.assertEqual(decode(type(message), frame[4:]), message)

    def test_its_tables_name_the_calls_replies_and_errors_of_this_client(self) -> None:
        calls = [call.__name__ for call in get_args(Call)]
        self.assertEqual(protocol_page.names(7), calls)
        self.assertEqual(len(protocol_page.names(8)), len(get_args(Reply)))
        errors = {code: name for code, (name, _) in protocol_page.errors().items()}
        self.assertEqual(errors, {code: code.name.title().replace("_", "") for code in ErrorCode})

    def test_its_least_sizes_are_those_of_the_codec(self) -> None:
        self.assertEqual(least_size(Run), 12)
        self.assertEqual(least_size(TagStatus), 100)
        self.assertEqual(least_size(WorkerStatus), 55)

    def test_a_body_cut_short_or_with_a_byte_left_over_does_not_decode(self) -> None:
        for frame, message in zip(protocol_page.frames(), EXAMPLES, strict=True):
            data = frame[4:]
            for wrong in [data + b"\0", *(data[:end] for end in range(len(data)))]:
                with self.subTest(message=message, size=len(wrong)), self.assertRaises(ProtocolError):
                    decode(type(message), wrong)

    def test_damage_within_a_body_is_refused(self) -> None:
        tags, workers = (
            next(encode(one)[4:] for one in EXAMPLES if isinstance(one, Response) and isinstance(one.reply, kind))
            for kind in (Tags, Workers)
        )
        live = workers.index(b"\x01\x01" + struct.pack("<Q", 1_700_000_000_000))
        option = tags.index(b"\x01" + struct.pack("<QQ", 1, 2_001))
        damaged = {
            "option byte 2": tags[:option] + b"\2" + tags[option + 1 :],
            "bool 2": workers[:live] + b"\2" + workers[live + 1 :],
            "worker state 4": workers[: live - 4] + b"\4" + workers[live - 3 :],
            "reply 8": body(1, 8, struct.pack("<Q", 0)),
            "a list of 2^64 - 1": body(1, 5, struct.pack("<Q", 2**64 - 1)),
            "a text of 2^64 - 1": body(1, 0, struct.pack("<HIQQ", 100, 0, 0, 2**64 - 1)),
            "bad UTF-8": body(1, 0, struct.pack("<HIQQ", 100, 0, 0, 1) + b"\xff"),
        }
        for name, data in damaged.items():
            with self.subTest(name), self.assertRaises(ProtocolError):
                decode(Response, data)
