"""Reads docs/protocol.md: its tables, and the bytes of its worked example."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "protocol.md"


def section(number: int) -> str:
    """The text of one numbered section."""
    found = re.search(rf"^## {number}\. .*?(?=^## |\Z)", PAGE.read_text("utf-8"), re.M | re.S)
    if found is None:
        raise ValueError(f"the page has no section {number}")
    return found[0]


def rows(number: int) -> list[list[str]]:
    """The cells of all tables in a section, line by line, with headings and without backticks."""
    lines = [line for line in section(number).splitlines() if line.startswith("|")]
    return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines]


def names(number: int) -> list[str]:
    """The second column of the rows that begin with a number. The numbers must count up from 0."""
    numbered = [row for row in rows(number) if row[0].isdigit()]
    if [int(row[0]) for row in numbered] != list(range(len(numbered))):
        raise ValueError(f"the numbers in section {number} do not count up from 0")
    return [row[1] for row in numbered]


def errors() -> dict[int, tuple[str, bool]]:
    """For each error its name, and whether it closes the connection."""
    listed = [row for row in rows(9) if row[0].isdigit()]
    return {int(code): (name, closes == "yes") for code, name, _, _, closes, _ in listed}


def frames() -> list[bytes]:
    """Every frame of the worked example: annotated ones, those in the table, and those in plain blocks."""
    annotated, *plain = re.findall(r"^```text\n(.*?)^```", section(13), re.M | re.S)
    table = [row[1] for row in rows(13) if re.fullmatch(r"[0-9a-f]{8,}", row[1])]
    return [*_annotated(annotated), *map(bytes.fromhex, table), *map(bytes.fromhex, plain)]


def _annotated(block: str) -> list[bytes]:
    found: list[bytes] = []
    for line in block.splitlines():
        if line.startswith(("C: ", "D: ")):
            found.append(b"")
            continue
        parts = re.fullmatch(r"(\d\d)  ((?:[0-9a-f]{2} ?)+)(?: .*)?", line)
        if parts is None or int(parts[1]) != len(found[-1]):
            raise ValueError(f"in the worked example: {line}")
        found[-1] += bytes.fromhex(parts[2])
    return found
