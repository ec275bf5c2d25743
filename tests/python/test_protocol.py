"""docs/protocol.md against a running daemon: what the page promises, and that it suffices to write a client.

    LEAFD_SOCKET=/path/to/leafd.sock python3 test_protocol.py

The daemon runs with its default configuration, where tags are made on first use. It may be run against again
and again: every run uses tags of its own.
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
