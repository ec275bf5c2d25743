"""`Hello`: the first request of a connection, and what is refused in its place."""

from __future__ import annotations

from daemon_case import DaemonTest, body, segment_fields
from leaf_wire import ErrorCode, Hello, HelloReply, Ids, Request, Snowflake, Time, TimeReply, encode


class TheHandshake(DaemonTest):
    def test_hello_gives_the_version_and_the_limits(self) -> None:
        reply = self.expect(HelloReply, self.connect(greet=False).ask(Hello(), 1))
        self.assertEqual(reply.version, 1)
        self.assertGreater(reply.max_count, 0)
        self.assertGreater(reply.max_in_flight, 0)

    def test_a_client_of_the_future_is_answered_in_version_1(self) -> None:
        for version in (2, 99, 2**16 - 1):
            with self.subTest(version=version):
                peer = self.connect(greet=False)
                self.assertEqual(self.expect(HelloReply, peer.ask(Hello(version=version))).version, 1)
                self.assert_open(peer)

    def test_calls_may_follow_hello_without_waiting_for_its_answer(self) -> None:
        peer = self.connect(greet=False)
        peer.send(encode(Request(1, Hello())) + encode(Request(2, Time())) + encode(Request(3, Snowflake())))
        replies = {response.id: response.reply for response in (peer.response() for _ in range(3))}
        self.assertIsInstance(replies[1], HelloReply)
        self.assertIsInstance(replies[2], TimeReply)
        self.assertIsInstance(replies[3], Ids)

    def test_a_later_hello_is_answered_and_changes_nothing(self) -> None:
        peer = self.connect()
        self.assertEqual(peer.ask(Hello()), self.hello)
        self.assert_open(peer)

    def test_a_first_message_other_than_a_good_hello_is_refused_and_closes(self) -> None:
        hello = encode(Request(1, Hello()))[4:]
        cases = [
            ("another magic", body(1, 0, b"LEAX\1\0"), 1, ErrorCode.BAD_MAGIC, 0),
            ("version 0", body(1, 0, b"LEAF\0\0"), 1, ErrorCode.VERSION_UNSUPPORTED, 1),
            ("a call before Hello", body(1, 3), 1, ErrorCode.HELLO_EXPECTED, 0),
            ("another call before Hello", body(1, 1, segment_fields(b"x")), 1, ErrorCode.HELLO_EXPECTED, 0),
            ("another call cut short", body(1, 1), 1, ErrorCode.MALFORMED, 0),
            ("Hello cut short", hello[:-1], 1, ErrorCode.MALFORMED, 0),
            ("Hello and a byte", hello + b"\0", 1, ErrorCode.MALFORMED, 0),
            ("no whole ID", b"\1\0\0", 0, ErrorCode.MALFORMED, 0),
            ("nothing", b"", 0, ErrorCode.MALFORMED, 0),
            ("ID 0", body(0, 0, b"LEAF\1\0"), 0, ErrorCode.MALFORMED, 0),
            ("an unknown call before Hello", body(1, 77), 1, ErrorCode.HELLO_EXPECTED, 0),
        ]
        for name, data, request, code, detail in cases:
            with self.subTest(name):
                peer = self.connect(greet=False)
                peer.send_body(data)
                response = peer.response()
                self.assertEqual(response.id, request)
                self.assert_refused(response.reply, code, detail)
                self.assertTrue(peer.ended())
