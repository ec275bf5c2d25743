"""Tests docs/protocol.md on a running daemon: its promises hold, and it is enough to write a client.

    LEAFD_SOCKET=/path/to/leafd.sock python3 test_protocol.py

The daemon needs its default configuration, which creates tags on first use. The tests can be repeated on the
same daemon, since every run uses tags of its own.
"""

import unittest

PARTS = (
    "cases_page",
    "cases_client",
    "cases_handshake",
    "cases_ids",
    "cases_tags",
    "cases_errors",
    "cases_stream",
)


def load_tests(
    loader: unittest.TestLoader, _tests: unittest.TestSuite, _pattern: str | None
) -> unittest.TestSuite:
    """The tests of every part."""
    return loader.loadTestsFromNames(PARTS)


if __name__ == "__main__":
    unittest.main()
