"""The base class and helpers of the tests against a running daemon."""

from __future__ import annotations

import secrets
import struct
import unittest
from typing import TypeVar

import protocol_page
from leaf_client import socket_path
from leaf_wire import (
    ErrorCode,
    ErrorReply,
    HelloReply,
    Ids,
    Reply,
    Segment,
    Snowflake,
    Tags,
    TagStatus,
    Time,
    TimeReply,
)
from peer import Peer

T = TypeVar("T")
TOP = 2**63 - 1
"""The highest ID."""
PREFIX = f"py-{secrets.token_hex(6)}-"


def fresh(name: str) -> str:
    """The name of a tag that no other test and no other run uses."""
    return f"{PREFIX}{name}"


def body(request: int, call: int, fields: bytes = b"") -> bytes:
    """The body of a request from raw fields, which may be wrong."""
    return struct.pack("<QI", request, call) + fields


def segment_fields(tag: bytes) -> bytes:
    """The fields of `Segment` for one ID of any tag, valid or not."""
    return struct.pack("<Q", len(tag)) + tag + struct.pack("<II", 1, 0)


class DaemonTest(unittest.TestCase):
    """Gives a test connections to the daemon, which are closed at its end."""

    def connect(self, greet: bool = True) -> Peer:
        peer = self.enterContext(Peer.connect(socket_path()))
        if greet:
            self.hello = self.expect(HelloReply, peer.greet())
        return peer

    def expect(self, kind: type[T], reply: Reply) -> T:
        if not isinstance(reply, kind):
            self.fail(f"{reply} instead of {kind.__name__}")
        return reply

    def one_tag(self, reply: Reply) -> TagStatus:
        (tag,) = self.expect(Tags, reply).tags
        return tag

    def ids(self, peer: Peer, call: Segment | Snowflake) -> list[int]:
        """The IDs of an answer, after checking everything that the page says about them."""
        reply = self.expect(Ids, peer.ask(call))
        self.assertEqual(reply.count, call.count)
        self.assertTrue(all(run.count > 0 for run in (reply.first, *reply.more)))
        found = reply.ids()
        self.assertEqual(found, sorted(set(found)))
        self.assertLessEqual(found[-1], TOP)
        return found

    def assert_refused(self, reply: Reply, code: ErrorCode, detail: int = 0) -> None:
        error = self.expect(ErrorReply, reply)
        self.assertEqual((error.code, error.detail), (code, detail), error)
        self.assertNotEqual(error.message, "")

    def assert_open(self, peer: Peer) -> None:
        self.assertIsInstance(peer.ask(Time(), 2**64 - 1), TimeReply)

    def assert_open_or_closed(self, peer: Peer, code: ErrorCode) -> None:
        _, closes = protocol_page.errors()[code]
        if closes:
            self.assertTrue(peer.ended())
        else:
            self.assert_open(peer)
