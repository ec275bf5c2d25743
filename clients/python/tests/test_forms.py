"""Forms of IDs, against the vectors and against Python's own UUIDs."""

from __future__ import annotations

import json
import os
import unittest
from typing import Any

from leafd_client import InvalidArgumentError, Layout, forms

_HERE = os.path.dirname(os.path.abspath(__file__))
_PATHS = [
    os.path.join(_HERE, "forms.json"),  # In the sdist.
    os.path.join(_HERE, "..", "..", "..", "protocol", "forms.json"),
]


def vectors(key: str) -> list[dict[str, Any]]:
    with open(next(path for path in _PATHS if os.path.exists(path)), encoding="utf-8") as file:
        found: list[dict[str, Any]] = json.load(file)[key]
    assert found
    return found


class Forms(unittest.TestCase):
    def test_texts_are_those_of_the_vectors_in_both_directions(self) -> None:
        for vector in vectors("texts"):
            form, number, text = vector["form"], int(vector["id"]), vector["text"]
            self.assertEqual(forms.encode(form, number), text)
            self.assertEqual(forms.decode(form, text), number)

    def test_what_the_vectors_refuse_is_refused(self) -> None:
        for vector in vectors("refused"):
            with self.subTest(**vector), self.assertRaises(InvalidArgumentError):
                if vector["form"] == "dated":
                    forms.read_day_text(vector["text"])
                else:
                    forms.decode(vector["form"], vector["text"])

    def test_days_are_those_of_the_vectors_in_both_directions(self) -> None:
        for vector in vectors("days"):
            day = forms.day_of(vector["unix_ms"], vector["zone"])
            self.assertEqual(forms.day_tag("invoices", day), vector["tag"])
            self.assertEqual(forms.day_text(day, int(vector["id"])), vector["text"])
            self.assertEqual(forms.read_day_text(vector["text"]), (day, int(vector["id"])))

    def test_uuids_and_object_ids_are_those_of_the_vectors_in_both_directions(self) -> None:
        for group in vectors("snowflakes"):
            layout = Layout.parse(group["layout"])
            self.assertEqual(str(layout), group["written"])
            snowflakes = forms.Snowflakes(layout, group["fleet"])
            for vector in group["ids"]:
                number = int(vector["id"])
                for name in ("uuid7", "uuid8", "uuid1"):
                    make = getattr(snowflakes, name)
                    if vector[name] is None:
                        with self.assertRaises(InvalidArgumentError):
                            make(number)
                        continue
                    self.assertEqual(snowflakes.id_of(make(number)), number)
                for name in ("uuid7", "uuid8", "uuid1", "objectid"):
                    if vector[name] is None:
                        with self.assertRaises(InvalidArgumentError):
                            snowflakes.encode(name, number)
                        continue
                    self.assertEqual(snowflakes.encode(name, number), vector[name])
                    self.assertEqual(snowflakes.decode(name, vector[name]), number)

    def test_uuids_and_object_ids_that_no_snowflake_becomes_are_refused(self) -> None:
        for vector in vectors("refused_snowflakes"):
            snowflakes = forms.Snowflakes(Layout.parse(vector["layout"]), vector["fleet"])
            with self.subTest(**vector), self.assertRaises(InvalidArgumentError):
                snowflakes.decode(vector["form"], vector["text"])

    def test_a_long_text_and_a_late_day_take_no_time(self) -> None:
        with self.assertRaisesRegex(InvalidArgumentError, "characters instead of 11"):
            forms.decode("base62", "0" * 1_000_000)
        with self.assertRaisesRegex(InvalidArgumentError, "13 characters instead of 14"):
            forms.decode("crockford32", "0" * 13)
        self.assertEqual(f"{forms.day_of(2**64 - 1, '+18:00'):%Y%m%d}", "99991231")

    def test_hashes_are_those_of_the_vectors(self) -> None:
        for vector in vectors("uuid5"):
            hashed = forms.uuid5(vector["fleet"], vector["tag"], int(vector["id"]))
            self.assertEqual(str(hashed), vector["text"])

    def test_what_another_installation_made_is_refused(self) -> None:
        here = forms.Snowflakes(Layout.LEAF, "4be1f0a37c")
        there = forms.Snowflakes(Layout.LEAF, "0000000001")
        for uuid in (there.uuid7(1), there.uuid8(1), there.uuid1(1)):
            with self.assertRaisesRegex(InvalidArgumentError, "another installation"):
                here.id_of(uuid)
        with self.assertRaisesRegex(InvalidArgumentError, "another installation"):
            here.id_of_object_id(there.object_id(1))
        with self.assertRaisesRegex(InvalidArgumentError, "fleet ID"):
            forms.Snowflakes(Layout.LEAF, "4BE1F0A37C")


if __name__ == "__main__":
    unittest.main()
