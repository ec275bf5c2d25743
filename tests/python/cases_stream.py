"""Many requests at once, frames in pieces, and the Python client on a busy connection."""

from __future__ import annotations

import time
from collections import Counter

from daemon_case import DaemonTest, fresh
from leaf_client import Client, Connection, LeafError, socket_path
from leaf_wire import (
    Call,
    DaemonStatus,
    ErrorCode,
    ErrorReply,
    Hello,
    HelloReply,
    Ids,
    Reply,
    Request,
    Run,
    Segment,
    Snowflake,
    Status,
    TagList,
    Tags,
    Time,
    TimeReply,
    encode,
)
from peer import PATIENCE


class StreamTest(DaemonTest):
    def test_a_thousand_requests_in_one_write_get_an_answer_each_and_ids_of_their_own(self) -> None:
        peer, tag = self.connect(), fresh("thousand")
        self.assertGreaterEqual(self.hello.max_in_flight, 1_000)
        requests = range(2, 1_002)
        peer.send(b"".join(encode(Request(request, Segment(tag))) for request in requests))
        replies = {response.id: response.reply for response in (peer.response() for _ in requests)}
        self.assertEqual(sorted(replies), list(requests))
        found = {self.expect(Ids, reply).first for reply in replies.values()}
        self.assertEqual(found, {Run(one, 1) for one in range(1, 1_001)})

    def test_each_of_several_calls_in_one_write_gets_its_own_kind_of_answer(self) -> None:
        peer = self.connect()
        answers: dict[Call, type[Reply]] = {
            Snowflake(5_000): Ids,
            Time(): TimeReply,
            Status(): DaemonStatus,
            TagList(): Tags,
            Segment(fresh("mixed")): Ids,
            Segment(""): ErrorReply,
        }
        calls = dict(zip(range(1_000, 880, -1), list(answers) * 20, strict=True))
        peer.send(b"".join(encode(Request(request, call)) for request, call in calls.items()))
        replies = {response.id: response.reply for response in (peer.response() for _ in calls)}
        self.assertEqual(sorted(replies), sorted(calls))
        for request, call in calls.items():
            self.expect(answers[call], replies[request])

    def test_frames_may_arrive_byte_by_byte(self) -> None:
        peer, tag = self.connect(greet=False), fresh("bytes")
        for byte in encode(Request(1, Hello())) + encode(Request(2, Segment(tag))) + encode(Request(3, Time())):
            peer.send(bytes([byte]))
        replies = {response.id: response.reply for response in (peer.response() for _ in range(3))}
        self.assertIsInstance(replies[1], HelloReply)
        self.assertEqual(replies[2], Ids(Run(1, 1)))
        self.assertIsInstance(replies[3], TimeReply)

    def test_requests_above_the_limit_in_flight_get_error_301_and_the_others_are_answered(self) -> None:
        peer = self.connect()
        slow = Snowflake(self.hello.max_count, timeout_ms=1_000)
        requests = range(2, 2 + self.hello.max_in_flight + 50)
        peer.send(b"".join(encode(Request(request, slow)) for request in requests))
        replies = {response.id: response.reply for response in (peer.response() for _ in requests)}
        self.assertEqual(sorted(replies), list(requests))
        refused = [reply for reply in replies.values() if isinstance(reply, ErrorReply)]
        counts = Counter(reply.code for reply in refused)
        self.assertLessEqual(set(counts), {ErrorCode.TOO_MANY_IN_FLIGHT, ErrorCode.DEADLINE_EXCEEDED})
        self.assertGreater(counts[ErrorCode.TOO_MANY_IN_FLIGHT], 0)
        for reply in refused:
            detail = self.hello.max_in_flight if reply.code == ErrorCode.TOO_MANY_IN_FLIGHT else 0
            self.assert_refused(reply, ErrorCode(reply.code), detail)
        self.assert_open_or_closed(peer, ErrorCode.TOO_MANY_IN_FLIGHT)

    def test_a_request_id_may_be_reused_after_its_answer(self) -> None:
        peer, tag = self.connect(), fresh("again")
        self.assertEqual([self.ids(peer, Segment(tag))[0] for _ in range(3)], [1, 2, 3])


class ClientOnDaemonTest(DaemonTest):
    """The Python client on a real daemon; `cases_client.py` has peers that misbehave."""

    def test_a_count_above_the_limit_takes_several_calls(self) -> None:
        client, count = Client(), 250_000
        self.addCleanup(client.close)
        found = client.segment(fresh("many"), count, timeout=PATIENCE)
        self.assertEqual(len(set(found)), count)
        self.assertEqual(len(set(client.snowflake(count, timeout=PATIENCE))), count)

    def test_a_pipeline_longer_than_the_limit_in_flight_is_throttled(self) -> None:
        connection = Connection(socket_path(), time.monotonic() + PATIENCE)
        self.addCleanup(connection.close)
        replies = connection.pipeline([Segment(fresh("pipeline"))] * 5_000, PATIENCE)
        self.assertEqual(set(replies), {Ids(Run(one, 1)) for one in range(1, 5_001)})

    def test_an_error_is_raised_with_its_code(self) -> None:
        client = Client()
        self.addCleanup(client.close)
        with self.assertRaises(LeafError) as caught:
            client.segment("")
        self.assertIs(caught.exception.code, ErrorCode.BAD_TAG)
        self.assertFalse(caught.exception.transient)
