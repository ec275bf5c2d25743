"""Reads protocol/vectors.json and protocol/malformed.json. protocol/README.md describes their format."""

from __future__ import annotations

import json
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import protocol_page
from leaf_wire import I64, U64, Bytes4, Call, Reply, Request, Response, Struct

FOLDER = Path(__file__).resolve().parents[2] / "protocol"


class Vector(NamedTuple):
    """One message and its frame."""

    name: str
    message: Request | Response
    frame: bytes


class Malformed(NamedTuple):
    """The answer to a request that breaks the protocol."""

    name: str
    before_hello: bool
    id: int
    error: int
    error_name: str
    closes: bool


def vectors() -> list[Vector]:
    """Every vector of the file."""
    return [_vector(entry) for entry in json.loads((FOLDER / "vectors.json").read_text("utf-8"))["vectors"]]


def malformed() -> list[Malformed]:
    """Every refusal of the file."""
    entries = json.loads((FOLDER / "malformed.json").read_text("utf-8"))["malformed"]
    return [
        Malformed(
            entry["name"],
            {"before-hello": True, "after-hello": False}[entry["state"]],
            int(entry["answer"]["id"]),
            entry["answer"]["error"],
            entry["answer"]["name"],
            entry["closes"],
        )
        for entry in entries
    ]


def _vector(entry: dict[str, Any]) -> Vector:
    kinds, section, whole = {"request": (Call, 7, Request), "response": (Reply, 8, Response)}[entry["direction"]]
    # The page maps the name of a call or reply to its number, and the number is the index of the class.
    kind = get_args(kinds)[protocol_page.names(section).index(entry["message"])]
    frame = bytes.fromhex("".join(entry["hex"]))
    return Vector(entry["name"], whole(_value(U64, entry["id"]), _value(kind, entry["fields"])), frame)


def _value(kind: Any, value: Any) -> Any:
    """Converts a JSON value to a value of this type."""
    origin, args = get_origin(kind), get_args(kind)
    if kind == Bytes4:
        return bytes.fromhex(value)
    if origin is Annotated:
        # Numbers of 64 bits are strings, since they do not fit a JSON number.
        return int(_checked(str if kind in (U64, I64) else int, value))
    if kind in (bool, str):
        return _checked(kind, value)
    if origin is tuple:
        return tuple(_value(args[0], element) for element in _checked(list, value))
    if origin in (Union, UnionType) and NoneType in args:
        return None if value is None else _value(args[0], value)
    if origin in (Union, UnionType):
        variants = {variant.__name__: variant for variant in args}
        return _struct(variants[value["variant"]], {name: value[name] for name in value if name != "variant"})
    return _struct(kind, value)


def _struct(kind: type[Struct], value: dict[str, Any]) -> Any:
    # `from` is a keyword in Python.
    fields = {name.rstrip("_"): field for name, field in get_type_hints(kind, include_extras=True).items()}
    if list(fields) != list(value):
        raise ValueError(f"{kind.__name__} has the fields {list(fields)}, not {list(value)}")
    return kind(*[_value(field, value[name]) for name, field in fields.items()])


def _checked(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise ValueError(f"{value!r} is not a {kind.__name__}")
    return value
