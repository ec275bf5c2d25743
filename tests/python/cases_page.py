"""Compares the page's frames and tables with the codec and with the vectors. Needs no daemon."""

from __future__ import annotations

import struct
import unittest
from typing import get_args

import protocol_page
import vectors
from daemon_case import body
from leaf_wire import (
    HEADER,
    Call,
    ErrorCode,
    LimitForecast,
    ProtocolError,
    Reply,
    Response,
    Run,
    TagForecast,
    TagStatus,
    WorkerStatus,
    decode,
    encode,
    least_size,
)

VECTORS = vectors.vectors()


class PageTest(unittest.TestCase):
    def test_the_frames_of_the_page_are_vectors(self) -> None:
        shown = [vector.frame.hex() for vector in VECTORS if vector.name.startswith("page-")]
        self.assertEqual([frame.hex() for frame in protocol_page.frames()], shown)

    def test_every_vector_is_encoded_and_decoded_byte_for_byte(self) -> None:
        self.assertEqual(len({name for name, _, _ in VECTORS}), len(VECTORS))
        for name, message, frame in VECTORS:
            with self.subTest(name):
                self.assertEqual(encode(message).hex(), frame.hex())
                self.assertEqual(HEADER.unpack(frame[:4])[0], len(frame) - 4)
                self.assertEqual(decode(type(message), frame[4:]), message)

    def test_every_call_and_every_reply_has_a_vector(self) -> None:
        found = {type(m.reply if isinstance(m, Response) else m.call) for _, m, _ in VECTORS}
        self.assertEqual(found, {*get_args(Call), *get_args(Reply)})

    def test_the_page_names_the_error_of_each_malformed_request_and_whether_it_closes(self) -> None:
        errors, entries = protocol_page.errors(), vectors.malformed()
        self.assertEqual(len({entry.name for entry in entries}), len(entries))
        self.assertEqual({entry.error for entry in entries}, {code for code in errors if code < 200})
        for entry in entries:
            with self.subTest(entry.name):
                name, closes = errors[entry.error]
                self.assertEqual(entry.error_name, name)
                # Sections 4 and 5: an error with ID 0 and any error before the handshake close it too.
                self.assertEqual(entry.closes, closes or entry.id == 0 or entry.before_hello)

    def test_the_tables_of_the_page_have_the_calls_replies_and_errors_of_this_client(self) -> None:
        calls = [call.__name__ for call in get_args(Call)]
        self.assertEqual(protocol_page.names(7), calls)
        self.assertEqual(len(protocol_page.names(8)), len(get_args(Reply)))
        errors = {code: name for code, (name, _) in protocol_page.errors().items()}
        self.assertEqual(errors, {code: code.name.title().replace("_", "") for code in ErrorCode})

    def test_the_smallest_sizes_on_the_page_are_those_of_the_codec(self) -> None:
        self.assertEqual(least_size(Run), 12)
        self.assertEqual(least_size(TagStatus), 100)
        self.assertEqual(least_size(WorkerStatus), 55)
        self.assertEqual(least_size(TagForecast), 25)
        self.assertEqual(least_size(LimitForecast), 9)

    def test_a_body_cut_short_or_with_a_byte_left_over_does_not_decode(self) -> None:
        for name, message, frame in VECTORS:
            data = frame[4:]
            for wrong in [data + b"\0", *(data[:end] for end in range(len(data)))]:
                with self.subTest(name, size=len(wrong)), self.assertRaises(ProtocolError):
                    decode(type(message), wrong)

    def test_a_damaged_body_does_not_decode(self) -> None:
        tags, workers = (
            next(frame[4:] for name, _, frame in VECTORS if name == wanted) for wanted in ("page-tags", "page-workers")
        )
        live = workers.index(b"\x01\x01" + struct.pack("<Q", 1_700_000_000_000))
        option = tags.index(b"\x01" + struct.pack("<QQ", 1, 2_001))
        damaged = {
            "option byte 2": tags[:option] + b"\2" + tags[option + 1 :],
            "bool 2": workers[:live] + b"\2" + workers[live + 1 :],
            "worker state 4": workers[: live - 4] + b"\4" + workers[live - 3 :],
            "reply 12": body(1, 12, struct.pack("<Q", 0)),
            "a list of 2^64 - 1": body(1, 5, struct.pack("<Q", 2**64 - 1)),
            "a text of 2^64 - 1": body(1, 0, struct.pack("<HIQQ", 100, 0, 0, 2**64 - 1)),
            "bad UTF-8": body(1, 0, struct.pack("<HIQQ", 100, 0, 0, 1) + b"\xff"),
        }
        for name, data in damaged.items():
            with self.subTest(name), self.assertRaises(ProtocolError):
                decode(Response, data)
