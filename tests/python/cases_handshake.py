"""`Hello`, the first request of a connection. protocol/malformed.json has what is refused in its place."""

from __future__ import annotations

from daemon_case import DaemonTest
from leaf_wire import Hello, HelloReply, Ids, Request, Snowflake, Time, TimeReply, encode


class HandshakeTest(DaemonTest):
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
