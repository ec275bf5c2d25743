"""The bytes of the protocol, against the golden vectors."""

from __future__ import annotations

import json
import os
import struct
import unittest
from typing import Any

from fake import frame, ids
from leafd_client import DaemonStatus, ProtocolError, RefusedError, _wire
from leafd_client._ids import check_ids

_HERE = os.path.dirname(os.path.abspath(__file__))
_PLACES = (
    os.path.join(_HERE, "vectors.json"),  # In the sdist.
    os.path.join(_HERE, "..", "..", "..", "protocol", "vectors.json"),
)


def vectors(direction: str) -> list[dict[str, Any]]:
    path = next(place for place in _PLACES if os.path.exists(place))
    with open(path, encoding="utf-8") as file:
        return [vector for vector in json.load(file)["vectors"] if vector["direction"] == direction]


def frame_of(vector: dict[str, Any]) -> bytes:
    return bytes.fromhex("".join(vector["hex"]).replace(" ", ""))


def plain(value: Any) -> Any:
    """Fields as the vectors have them, but for numbers, which are all texts here."""
    if hasattr(value, "_asdict"):
        fields = value._asdict()
        if isinstance(value, _wire.SnowflakeState):
            fields = {key: part for key, part in fields.items() if part is not None}
        return {key: plain(part) for key, part in fields.items()}
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    return str(value) if isinstance(value, int) else value


def fields_of(reply: Any) -> Any:
    if isinstance(reply, RefusedError):
        return {
            "code": reply.number,
            "retry_after_ms": reply.retry_after_ms,
            "detail": reply.detail,
            "message": reply.message,
        }
    if isinstance(reply, _wire.IdsReply):
        first, *more = ({"first": str(first), "count": count} for first, count in reply.runs)
        return {"first": first, "more": more}
    return reply


class CallsAlone(unittest.TestCase):
    def test_a_request_that_is_joined_from_parts_is_the_same(self) -> None:
        fields = _wire.encode_str("orders") + _wire.count_fields(1, 4950)
        for request_id in (2, 2**64 - 1):
            header, rest = _wire.split_request(_wire.SEGMENT, fields)
            joined = _wire.frame_start(header, request_id) + rest
            self.assertEqual(joined, _wire.encode_request(request_id, _wire.SEGMENT, fields))

    def test_only_a_whole_answer_with_one_id_is_decoded_at_once(self) -> None:
        good = ids(9, (2**63 - 1, 1))
        self.assertEqual(_wire.decode_one_id(good, 9), 2**63 - 1)
        self.assertIsNone(_wire.decode_one_id(good, 8))
        for bad in (
            b"",
            good[:-1],
            good + good,
            ids(9, (2**63, 1)),
            ids(9, (5, 0)),
            ids(9, (5, 2)),
            ids(9, (5, 1), (6, 1)),
            frame(9, 3, good[16:]),
            b"\0\0\0\x21" + good[4:],
            good[:-8] + b"\1" + good[-7:],
        ):
            with self.subTest(bad=bad):
                self.assertIsNone(_wire.decode_one_id(bad, 9))


class Requests(unittest.TestCase):
    def test_requests_are_encoded_byte_by_byte(self) -> None:
        known = 0
        for vector in vectors("request"):
            fields, message = vector["fields"], vector["message"]
            if message not in _wire.CALL_NAMES:
                continue
            body = b""
            if message == "Hello":
                body = _wire.hello_fields(bytes.fromhex(fields["magic"]), fields["version"])
            if "tag" in fields:
                body += _wire.encode_str(fields["tag"])
            if "count" in fields:
                body += _wire.count_fields(fields["count"], fields["timeout_ms"])
            call = _wire.CALL_NAMES.index(message)
            self.assertEqual(
                _wire.encode_request(int(vector["id"]), call, body), frame_of(vector), vector["name"]
            )
            known += 1
        self.assertGreaterEqual(known, 10)


class Responses(unittest.TestCase):
    def known(self) -> list[dict[str, Any]]:
        unknown = ("Tags", "Workers", "Loan", "Forecasts", "PublicIds", "PublicNumbers")
        return [vector for vector in vectors("response") if vector["message"] not in unknown]

    def test_responses_are_decoded_to_their_fields(self) -> None:
        for vector in self.known():
            request_id, reply = _wire.decode_response(frame_of(vector)[4:])
            self.assertEqual(str(request_id), vector["id"])
            self.assertEqual(plain(fields_of(reply)), plain(vector["fields"]), vector["name"])

    def test_a_frame_that_is_cut_short_or_too_long_does_not_decode(self) -> None:
        for vector in self.known():
            body = frame_of(vector)[4:]
            for length in range(len(body)):
                with self.assertRaises(ProtocolError, msg=f"{vector['name']} cut to {length}"):
                    _wire.decode_response(body[:length])
            with self.assertRaises(ProtocolError, msg=vector["name"]):
                _wire.decode_response(body + b"\0")

    def test_damage_is_a_protocol_error(self) -> None:
        status = next(v for v in vectors("response") if v["name"] == "page-status-reply")
        body = frame_of(status)[4:]
        option = body.index(bytes([1, 3, 0, 0, 0, 0, 0, 0, 0]))
        run = struct.pack("<QI", 1, 1)
        for damaged in (
            body[:option] + b"\2" + body[option + 1 :],
            struct.pack("<QI", 7, 8),
            struct.pack("<QI", 7, 2**32 - 1),
            struct.pack("<QI", 7, 5) + bytes(8),
            struct.pack("<QI", 7, 2) + run + struct.pack("<Q", 2**64 - 1),
            struct.pack("<QI", 7, 2) + run + struct.pack("<Q", 1),
            struct.pack("<QIHIQQ", 7, 0, 302, 0, 0, 2**62),
            struct.pack("<QIHIQQ", 7, 0, 302, 0, 0, 2) + b"\xc3\x28",
            struct.pack("<QIHIQQ", 7, 0, 302, 0, 0, 3) + b"\xed\xa0\x80",
        ):
            with self.assertRaises(ProtocolError):
                _wire.decode_response(damaged)

    def test_the_status_is_typed(self) -> None:
        vector = next(v for v in vectors("response") if v["name"] == "status-refused")
        _, status = _wire.decode_response(frame_of(vector)[4:])
        assert isinstance(status, DaemonStatus)
        self.assertEqual(status.snowflake.state, ("Refused", None, "no worker ID"))
        self.assertEqual((status.pid, status.segments.issued), (4711, 5000))


class Frames(unittest.TestCase):
    def test_frames_are_assembled_from_any_pieces(self) -> None:
        stream = b"".join(struct.pack(">I", size) + bytes([size]) * size for size in (3, 0, 1, 200))
        for piece in (1, 2, 3, 7, len(stream)):
            buffer, bodies = _wire.FrameBuffer(), []
            for at in range(0, len(stream), piece):
                buffer.append(stream[at : at + piece])
                while (body := buffer.take()) is not None:
                    bodies.append(body)
            self.assertEqual([len(body) for body in bodies], [3, 0, 1, 200])

    def test_an_oversized_frame_is_refused_by_its_header(self) -> None:
        for length in (_wire.MAX_RESPONSE_LEN + 1, 2**31, 2**32 - 1):
            buffer = _wire.FrameBuffer()
            buffer.append(struct.pack(">I", length))
            with self.assertRaises(ProtocolError):
                buffer.take()


class CheckedIds(unittest.TestCase):
    def test_right_answers_keep_their_order(self) -> None:
        ids = check_ids([(1000, 2), (50, 4), (2**63 - 1, 1)], 7)
        self.assertEqual(list(ids), [1000, 1001, 50, 51, 52, 53, 2**63 - 1])
        self.assertEqual((len(ids), ids[0], ids[-1], ids[2:4]), (7, 1000, 2**63 - 1, [50, 51]))
        self.assertIn(53, ids)
        self.assertNotIn(54, ids)
        with self.assertRaises(IndexError):
            ids[7]

    def test_wrong_answers_are_refused(self) -> None:
        for asked, runs in (
            (3, [(10, 2)]),
            (3, [(10, 4)]),
            (4, [(10, 2), (10, 2)]),
            (4, [(12, 1), (10, 3)]),
            (1, [(2**63, 1)]),
            (2, [(2**63 - 1, 2)]),
            (2, [(10, 2), (20, 0)]),
            (1, [(2**64 - 1, 1)]),
        ):
            with self.assertRaises(ProtocolError, msg=f"{runs}"):
                check_ids(runs, asked)
