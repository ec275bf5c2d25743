"""The errors of a call. A caller got no ID in any of these cases."""

from __future__ import annotations

import enum
import errno as _errno
from typing import TypeVar

_E = TypeVar("_E", bound="LeafdError")


class ErrorCode(enum.IntEnum):
    """The numbers of the daemon's errors.

    1xx: the bytes break the protocol. 2xx: the call asks for something impossible or forbidden.
    3xx: the same call may succeed later.
    """

    BadMagic = 100
    VersionUnsupported = 101
    HelloExpected = 102
    Malformed = 103
    UnknownCall = 104
    FrameTooLarge = 105
    BadCount = 200
    BadTag = 201
    UnknownTag = 202
    TagExists = 203
    BadStep = 204
    BadDescription = 205
    Forbidden = 206
    NotConfigured = 207
    TooManyTags = 208
    UnknownWorker = 209
    WorkerInUse = 210
    WrongOwner = 211
    BadPublicId = 212
    TooManyConnections = 300
    TooManyInFlight = 301
    StoreUnavailable = 302
    StateUnavailable = 303
    ClockBackwards = 304
    WorkerUnavailable = 305
    TimeExhausted = 306
    BadRow = 307
    DeadlineExceeded = 308
    ShuttingDown = 309
    TooManyWaiting = 310
    RegistryUnavailable = 311
    QuotaExceeded = 312


# These last until an operator acts, although their class is 3xx.
_LASTING = frozenset({ErrorCode.TimeExhausted, ErrorCode.BadRow})


class LeafdError(Exception):
    """Base class of all errors of this package.

    The arguments of the constructor are ``args``, so every error can be pickled and copied.
    """

    @property
    def temporary(self) -> bool:
        """Whether the same call may succeed later without anyone changing anything."""
        return False

    def copy(self: _E) -> _E:
        """Return an equal error without a traceback: each caller raises one of its own."""
        return type(self)(*self.args)


class RefusedError(LeafdError):
    """The daemon answered with an error."""

    def __init__(self, number: int, retry_after_ms: int, detail: int, message: str) -> None:
        super().__init__(number, retry_after_ms, detail, message)
        #: The number of the error. :class:`ErrorCode` lists those known to this version.
        self.number = number
        #: How long the daemon asks to wait before the next try, in milliseconds; 0 if unknown.
        self.retry_after_ms = retry_after_ms
        #: A number that belongs to the error, such as a limit; 0 if it has none.
        self.detail = detail
        #: The daemon's words. They may change between versions.
        self.message = message

    @property
    def name(self) -> str:
        """The name of the error; ``Unknown`` if the daemon is newer than this package."""
        try:
            return ErrorCode(self.number).name
        except ValueError:
            return "Unknown"

    @property
    def retry_after(self) -> float:
        """How long the daemon asks to wait before the next try, in seconds; 0 if unknown."""
        return self.retry_after_ms / 1000

    @property
    def temporary(self) -> bool:
        return self.number // 100 == 3 and self.number not in _LASTING

    def __str__(self) -> str:
        return f"leafd refused: {self.number} {self.name}: {self.message}"


class UnavailableError(LeafdError):
    """There was no connection when the deadline passed, or no permission to open the socket."""

    def __init__(self, path: str, reason: str, errno: int | None = None) -> None:
        super().__init__(path, reason, errno)
        #: The socket that was tried.
        self.path = path
        #: Why the last attempt failed.
        self.reason = reason
        #: The number of the system's error, if it was one.
        self.errno = errno

    @property
    def temporary(self) -> bool:
        # Permissions keep this user out until somebody changes them.
        return self.errno not in (_errno.EACCES, _errno.EPERM)

    def __str__(self) -> str:
        return f"leafd is not reachable at {self.path}: {self.reason}"


class DeadlineError(LeafdError):
    """The client was connected, but the daemon did not answer before the deadline."""

    def __init__(self, call: str, timeout: float) -> None:
        super().__init__(call, timeout)
        #: The name of the call in the protocol.
        self.call = call
        #: The timeout of the call in seconds.
        self.timeout = timeout

    @property
    def temporary(self) -> bool:
        return True

    def __str__(self) -> str:
        return f"leafd did not answer {self.call} within {self.timeout:g} s"


class ProtocolError(LeafdError):
    """The peer broke the protocol. Nothing in the offending message was used."""

    def __str__(self) -> str:
        return f"the peer is not a leafd of a known version: {super().__str__()}"


class InvalidArgumentError(LeafdError, ValueError):
    """An argument is invalid. Nothing was sent."""


class ClosedError(LeafdError):
    """The client or pool was closed."""

    def __init__(self, message: str = "the client was closed") -> None:
        super().__init__(message)


class ForkedError(LeafdError):
    """An asynchronous client was used in the child of a fork, or the process was forked while a call waited.
    Make a new client or call in the child."""

    def __init__(
        self,
        message: str = "this client was made before the process was forked; " "make a new one in the child",
    ) -> None:
        super().__init__(message)


class UnsupportedError(LeafdError):
    """The system cannot do what this needs, such as starting another thread."""
