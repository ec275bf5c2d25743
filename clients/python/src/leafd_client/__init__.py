"""Client of leafd, the daemon that issues unique 64-bit IDs to the processes on its host.

>>> from leafd_client import Client
>>> with Client() as client:  # doctest: +SKIP
...     client.next("orders")
1
"""

from ._aio import AsyncClient
from ._client import Client
from ._errors import (
    ClosedError,
    DeadlineError,
    ErrorCode,
    ForkedError,
    InvalidArgumentError,
    LeafdError,
    ProtocolError,
    RefusedError,
    UnavailableError,
    UnsupportedError,
)
from ._ids import Ids
from ._layout import Decoded, Layout
from ._options import default_socket_path
from ._pool import OutageBegan, OutageEnded, Pool, PoolEvent, PoolStats
from ._wire import DaemonStatus, SegmentsStatus, SnowflakeState, SnowflakeStatus

__version__ = "0.1.0"

__all__ = [
    "AsyncClient",
    "Client",
    "ClosedError",
    "DaemonStatus",
    "DeadlineError",
    "Decoded",
    "ErrorCode",
    "ForkedError",
    "Ids",
    "InvalidArgumentError",
    "Layout",
    "LeafdError",
    "OutageBegan",
    "OutageEnded",
    "Pool",
    "PoolEvent",
    "PoolStats",
    "ProtocolError",
    "RefusedError",
    "SegmentsStatus",
    "SnowflakeState",
    "SnowflakeStatus",
    "UnavailableError",
    "UnsupportedError",
    "default_socket_path",
]
