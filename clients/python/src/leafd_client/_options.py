"""Where the daemon's socket is, and how long to try."""

from __future__ import annotations

import os
import stat
from typing import NamedTuple, Union

from ._errors import InvalidArgumentError

StrPath = Union[str, "os.PathLike[str]"]

SYSTEM_SOCKET = "/run/leafd/leafd.sock"

# The bound keeps deadlines within the range of every clock and every poll.
MAX_TIMEOUT = 24 * 60 * 60.0

# The longest path that fits a Unix socket address.
_MAX_PATH_LEN = 107


def default_socket_path() -> str:
    """Return where a client looks that was given no path. The first rule that applies wins:

    1. ``$LEAFD_SOCKET``, if set and not empty;
    2. for users other than root, ``$XDG_RUNTIME_DIR/leafd/leafd.sock`` if the directory
       ``$XDG_RUNTIME_DIR/leafd`` exists;
    3. for users other than root, ``/tmp/leafd-<uid>/leafd.sock`` if that directory exists, belongs
       to the user and is not writable by others;
    4. ``/run/leafd/leafd.sock``.

    The choice depends on directories, not on which socket answers. If an application's daemon is
    down, the application must not silently get IDs from another one.
    """
    path = os.environ.get("LEAFD_SOCKET")
    if path:
        return path
    uid = os.geteuid()
    if uid != 0:
        # The XDG specification says to ignore relative paths.
        base = os.environ.get("XDG_RUNTIME_DIR", "")
        directory = os.path.join(base, "leafd")
        if os.path.isabs(base) and os.path.isdir(directory):
            return os.path.join(directory, "leafd.sock")
        directory = f"/tmp/leafd-{uid}"
        if _is_private_directory(directory, uid):
            return os.path.join(directory, "leafd.sock")
    return SYSTEM_SOCKET


def _is_private_directory(path: str, uid: int) -> bool:
    # Links are not followed: anyone can create one in /tmp.
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == uid and found.st_mode & 0o022 == 0


class Options(NamedTuple):
    """The checked options of a client. Times are in seconds."""

    path: str
    timeout: float
    backoff_min: float
    backoff_max: float

    @classmethod
    def check(cls, path: StrPath | None, timeout: float, backoff_min: float, backoff_max: float) -> Options:
        """Check the arguments of a constructor."""
        try:
            text = default_socket_path() if path is None else os.fspath(path)
            encoded = os.fsencode(text)
        except (TypeError, UnicodeEncodeError):
            raise InvalidArgumentError(f"the path of the socket is {path!r}, which is no file name") from None
        if not isinstance(text, str):
            raise InvalidArgumentError("the path of the socket is not a str or os.PathLike[str]")
        if not text:
            raise InvalidArgumentError("the path of the socket is empty")
        if "\0" in text:
            raise InvalidArgumentError(f"the path of the socket holds a null byte: {text!r}")
        if len(encoded) > _MAX_PATH_LEN:
            raise InvalidArgumentError(
                f"the path of the socket has more than {_MAX_PATH_LEN} bytes: {text!r}"
            )
        # Without a pause, each client of a daemon that is down would use up a core.
        low = max(check_seconds("backoff_min", backoff_min), 0.001)
        high = max(check_seconds("backoff_max", backoff_max), low)
        return cls(text, check_seconds("timeout", timeout), low, high)


def check_seconds(name: str, value: float) -> float:
    """Check a time in seconds, and lower it to 24 hours."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidArgumentError(f"{name} is {value!r}; it has to be a number of seconds")
    if value != value or value < 0:  # NaN is unequal to itself; math.isnan fails for a huge int.
        raise InvalidArgumentError(f"{name} is {value!r}; it has to be 0 s or more")
    return float(value) if value < MAX_TIMEOUT else MAX_TIMEOUT
