"""What the synchronous and the asynchronous client share: the calls, their connection, and when to
connect again. Values in and out; no socket, no lock, and the time is an argument.
"""

from __future__ import annotations

import operator
import random
import re
from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain
from typing import Any, Callable

from ._errors import (
    DeadlineError,
    ErrorCode,
    InvalidArgumentError,
    LeafdError,
    ProtocolError,
    RefusedError,
    UnavailableError,
)
from ._ids import check_ids
from ._options import Options
from ._wire import (
    CALL_NAMES,
    HELLO,
    MAX_U32,
    SEGMENT,
    SNOWFLAKE,
    STATUS,
    TIME,
    VERSION,
    DaemonStatus,
    FrameBuffer,
    Goodbye,
    HelloReply,
    IdsReply,
    Reply,
    TimeReply,
    count_fields,
    decode_response,
    encode_request,
    encode_str,
    hello_fields,
)

_HELLO_ID = 1
_FIRST_CALL_ID = 2

# How long to read from a connection on which nothing is sent any more. Answers from memory take far
# less; calls that take longer are repeated on the next connection.
_DRAIN = 0.1

# How long a daemon has to say nothing before calls that still wait lose their connection to it. A caller
# with a short timeout must not cost patient callers the answers that they are waiting for.
_SILENCE = 1.0

# The longest pause that a daemon can ask for. A damaged number must not lock a client out for weeks.
_MAX_RETRY_AFTER = 60.0

# Requests are added to the outgoing bytes up to about this many.
_BATCH_LEN = 64 * 1024

_MAX_TAG_CHARS = 128
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def encode_tag(tag: str) -> bytes:
    """Check a tag and encode it."""
    if not isinstance(tag, str):  # Before the cache, which takes hashable keys only.
        raise InvalidArgumentError(f"the tag is {tag!r}, not a str")
    return _encode_tag(tag)


@lru_cache(maxsize=1024)
def _encode_tag(tag: str) -> bytes:
    if not tag:
        raise InvalidArgumentError("the tag is empty; a tag has 1 to 128 characters")
    if len(tag) > _MAX_TAG_CHARS:
        raise InvalidArgumentError(f"the tag has {len(tag)} characters; at most {_MAX_TAG_CHARS} are allowed")
    control = _CONTROL.search(tag)
    if control is not None:
        raise InvalidArgumentError(f"the tag contains the control character {control.group()!r}; remove it")
    try:
        return encode_str(tag)
    except UnicodeEncodeError:
        raise InvalidArgumentError(f"the tag {tag!r} holds half of a surrogate pair") from None


def check_count(count: int) -> int:
    """Check the number of IDs of a call."""
    try:
        count = operator.index(count)
    except TypeError:
        raise InvalidArgumentError(f"the count is {count!r}, not an integer") from None
    if count < 1:
        raise InvalidArgumentError(f"the count is {count}; request 1 ID or more")
    if count > MAX_U32:
        # Only the daemon knows its limit, but this much fits no request.
        message = f"count {count} is above {MAX_U32}, the most that a request can hold"
        raise RefusedError(ErrorCode.BadCount, 0, MAX_U32, message)
    return count


class Call:
    """A call of one caller: what to send, and what came back."""

    #: Whether to ask for fewer IDs if the daemon does not allow that many in one request.
    fits = False
    #: Whether to fail as soon as a new connection fails, instead of trying until the deadline.
    once = False
    request_id = 0
    sent_at = 0.0
    finished = False
    result: Any = None
    error: LeafdError | None = None
    #: Called when the call is finished.
    on_finish: Callable[[Call], None] | None = None

    def __init__(self, number: int, now: float, timeout: float, count: int = 0, tag: bytes = b"") -> None:
        self.number = number
        self.tag = tag
        self.count = count
        self.timeout = timeout
        self.deadline = now + timeout
        #: How many IDs the last request asked for.
        self.asked = count

    @property
    def name(self) -> str:
        return CALL_NAMES[self.number]

    def encode(self, now: float, max_count: int) -> bytes:
        """Encode a request with the time that is left."""
        fields = b""
        if self.number in (SEGMENT, SNOWFLAKE):
            self.asked = min(self.count, max_count) if self.fits else self.count
            fields = self.tag + count_fields(self.asked, daemon_timeout_ms(self.deadline - now))
        return encode_request(self.request_id, self.number, fields)

    def accept(self, reply: Reply) -> Any:
        """Turn a reply into the result of the call. A reply of the wrong kind is a protocol error."""
        if isinstance(reply, IdsReply) and self.number in (SEGMENT, SNOWFLAKE):
            return check_ids(reply.runs, self.asked)
        if isinstance(reply, TimeReply) and self.number == TIME:
            return reply.unix_ms
        if isinstance(reply, DaemonStatus) and self.number == STATUS:
            return reply
        raise ProtocolError(f"it answered {self.name} with {type(reply).__name__}")

    def finish(self, result: Any = None, error: LeafdError | None = None) -> None:
        """Tell the caller. Only the first time counts."""
        if self.finished:
            return
        self.result = result
        self.error = error
        self.finished = True
        if self.on_finish is not None:
            self.on_finish(self)

    def outcome(self) -> Any:
        """Return the result or raise the error."""
        error, self.error = self.error, None
        if error is None:
            return self.result
        try:
            raise error
        finally:
            del error  # Its traceback holds this frame.


def daemon_timeout_ms(left: float) -> int:
    """Return the timeout to send: a little less than the time left, so that the daemon's error,
    which names the cause, arrives before the caller's deadline. Never 0: that is the daemon's default.
    """
    margin = min(left / 10, 0.05)
    return max(1, min(int((left - margin) * 1000), MAX_U32))


class Backoff:
    """The pauses between attempts to connect.

    The first attempt after a connection that answered a call is immediate. A completed handshake is
    not enough: otherwise a daemon that says hello and then fails would be called in a tight loop.
    """

    def __init__(self, minimum: float, maximum: float) -> None:
        self._min = minimum
        self._max = maximum
        self._fruitless = 0
        self.not_before = 0.0

    def lost(self, now: float, answered: bool, retry_after: float, jitter: float) -> None:
        """Note that an attempt failed or a connection ended. ``jitter`` is in 0..1."""
        pause = 0.0
        if answered:
            self._fruitless = 0
        else:
            pause = min(self._min * 2.0 ** min(self._fruitless, 30), self._max)
            pause *= 1.0 - jitter / 2
            self._fruitless += 1
        self.not_before = now + max(pause, min(retry_after, _MAX_RETRY_AFTER))

    def skip(self) -> None:
        """Let the next attempt be immediate."""
        self.not_before = 0.0


class Connection:
    """The state of one connection: the handshake, the requests in flight, the bytes to send."""

    __slots__ = (
        "abandoned",
        "answered",
        "buffer",
        "end_at",
        "ending",
        "limits",
        "opened_at",
        "out",
        "quiet_since",
        "sent",
    )

    def __init__(self, now: float) -> None:
        self.buffer = FrameBuffer()
        self.out = bytearray(encode_request(_HELLO_ID, HELLO, hello_fields()))
        self.opened_at = now
        #: Set by the answer to Hello.
        self.limits: HelloReply | None = None
        #: By request ID, in the order in which they were sent.
        self.sent: dict[int, Call] = {}
        #: Requests whose callers gave up. The daemon still counts them, and may still answer.
        self.abandoned: set[int] = set()
        #: Whether any call was answered.
        self.answered = False
        #: When the last whole message arrived, or the daemon first owed an answer after that.
        self.quiet_since = now
        #: Why nothing is sent any more. What arrives until `end_at` still counts.
        self.ending: LeafdError | None = None
        self.end_at = 0.0

    def has_room(self) -> bool:
        return (
            self.limits is not None
            and self.ending is None
            and len(self.sent) + len(self.abandoned) < self.limits.max_in_flight
            and len(self.out) < _BATCH_LEN
        )

    def is_quiet(self) -> bool:
        return (
            self.answered
            and self.ending is None
            and not self.sent
            and not self.abandoned
            and not self.out
            and self.buffer.is_empty()
        )

    def end(self, error: LeafdError, now: float) -> None:
        """Send nothing more, and read what still arrives."""
        self.out.clear()
        if self.ending is None:
            self.ending = error
            self.end_at = now + _DRAIN

    def take_request(self, request_id: int) -> Call | None:
        """Remove a request that was answered. Returns ``None`` if its caller gave up."""
        call = self.sent.pop(request_id, None)
        if call is None:
            if request_id not in self.abandoned:
                raise ProtocolError(
                    f"it answered request {request_id}, which was never sent or already has an answer"
                )
            self.abandoned.discard(request_id)
        return call


class Session:
    """All calls of a client that are not finished, and its present connection.

    The client's part is to open a socket when :meth:`wants_socket` says so, to move bytes, and to close
    the socket as soon as :attr:`connection` is ``None``.
    """

    def __init__(self, options: Options, jitter: Callable[[], float] = random.random) -> None:
        self._options = options
        self._jitter = jitter
        self._backoff = Backoff(options.backoff_min, options.backoff_max)
        #: Calls to be sent, in order.
        self._queued: deque[Call] = deque()
        #: The ID of the next request.
        self.next_id = _FIRST_CALL_ID
        #: Why the last attempt failed, until another one succeeds.
        self._last_error: LeafdError | None = None
        self.connection: Connection | None = None

    # Calls

    def add(self, call: Call) -> None:
        """Queue a call."""
        self._queued.append(call)

    def pending(self) -> Iterator[Call]:
        """Iterate over the calls that are not finished."""
        sent = self.connection.sent.values() if self.connection is not None else ()
        return chain(sent, self._queued)

    def is_quiet(self) -> bool:
        """Whether a connection that works has nothing in flight and nothing to send."""
        connection = self.connection
        return connection is not None and not self._queued and connection.is_quiet()

    def sent_alone(self, call: Call) -> None:
        """Note a call whose request was sent on a quiet connection as soon as it was made."""
        connection = self.connection
        if connection is not None:
            call.sent_at = connection.quiet_since = call.deadline - call.timeout
            connection.sent[call.request_id] = call

    def give_up(self, call: Call, now: float, overdue: bool = True) -> None:
        """Stop waiting for a call, because its deadline passed (``overdue``) or it was cancelled."""
        if call.finished:
            return
        connection = self.connection
        if connection is not None and connection.sent.get(call.request_id) is call:
            del connection.sent[call.request_id]
            connection.abandoned.add(call.request_id)
            call.finish(error=DeadlineError(call.name, call.timeout))
            # A daemon answers within the timeout of a request, if only with an error. If nothing at all
            # has arrived since this call was sent, the daemon hangs. If others wait, it has to last.
            silent = (
                overdue
                and connection.quiet_since <= call.sent_at
                and (not connection.sent or now - connection.quiet_since >= _SILENCE)
            )
            limits = connection.limits
            if silent or (limits and len(connection.abandoned) >= limits.max_in_flight):
                self._lose(self._unavailable("the daemon stopped answering"), now)
            return
        try:
            self._queued.remove(call)
        except ValueError:
            pass
        call.finish(error=self._queued_too_long(call))
        if connection is not None and connection.limits is None and not self._queued:
            # Nobody waits for this handshake any more. The next call tries a connection of its own.
            self._lose(self._unavailable("it did not say hello in time"), now)

    def _queued_too_long(self, call: Call) -> LeafdError:
        connection = self.connection
        if connection is not None and connection.ending is not None:
            return connection.ending.copy()
        if connection is not None and connection.limits is not None:
            return DeadlineError(call.name, call.timeout)
        if self._last_error is not None:
            return self._last_error.copy()
        return self._unavailable("it did not say hello in time")

    def fail_all(self, error: LeafdError) -> None:
        """Fail every call, and forget the connection."""
        calls = list(self.pending())
        self.connection = None
        self._queued.clear()
        for call in calls:
            call.finish(error=error.copy())

    # Time

    def wants_socket(self, now: float) -> bool:
        """Whether to connect now."""
        return self.connection is None and bool(self._queued) and now >= self._backoff.not_before

    def next_event(self) -> float | None:
        """When to call :meth:`tick` or to connect, if nothing else happens."""
        connection = self.connection
        if connection is None:
            return self._backoff.not_before if self._queued else None
        if connection.ending is not None:
            return connection.end_at
        if connection.limits is None:
            return connection.opened_at + self._options.timeout
        return None

    def tick(self, now: float) -> None:
        """Do what is due."""
        connection = self.connection
        if connection is None:
            return
        if connection.ending is not None:
            if now >= connection.end_at:
                self._lose(connection.ending, now)
        elif connection.limits is None and now >= connection.opened_at + self._options.timeout:
            self._lose(self._unavailable("it did not say hello in time"), now)

    # The socket

    def opened(self, now: float) -> None:
        """A socket is connected."""
        self.connection = Connection(now)

    def open_failed(self, error: OSError, now: float) -> None:
        """Connecting failed."""
        self._lose(self._from_os_error(error), now)

    def pump(self, now: float) -> bytearray | None:
        """Return the bytes to send, which the client removes as it sends them."""
        connection = self.connection
        if connection is None:
            return None
        while self._queued and connection.has_room():
            call = self._queued.popleft()
            if call.finished:
                continue
            call.request_id = self.next_id
            self.next_id += 1
            call.sent_at = now
            if not connection.sent and not connection.abandoned:
                connection.quiet_since = now
            max_count = connection.limits.max_count if connection.limits is not None else 1
            connection.sent[call.request_id] = call
            connection.out += call.encode(now, max_count)
        return connection.out

    def has_unsent(self) -> bool:
        """Whether :meth:`pump` would return something."""
        connection = self.connection
        return connection is not None and (
            bool(connection.out) or bool(self._queued and connection.has_room())
        )

    def take_unsent(self, now: float) -> bytes:
        """Remove and return the bytes to send. What is not sent is put back."""
        out = self.pump(now)
        if not out:
            return b""
        data = bytes(out)
        out.clear()
        return data

    def put_back(self, data: bytes) -> None:
        """Be about to send bytes again, before all others."""
        if self.connection is not None and self.connection.ending is None:
            self.connection.out[:0] = data

    def send_failed(self, error: OSError, now: float) -> None:
        """Sending failed. What the daemon said before it closed the connection says more."""
        if self.connection is not None:
            self.connection.end(self._from_os_error(error), now)

    def received(self, data: bytes, now: float) -> None:
        """Bytes arrived."""
        connection = self.connection
        if connection is None:
            return
        connection.buffer.append(data)
        try:
            while self.connection is connection:
                body = connection.buffer.take()
                if body is None:
                    break
                self._message(connection, body, now)
        except ProtocolError as error:
            self._lose(error.copy(), now)

    def ended(self, error: OSError | None, now: float) -> None:
        """The stream ended, or reading failed."""
        connection = self.connection
        if connection is None:
            return
        if connection.ending is not None:
            self._lose(connection.ending, now)
        elif error is not None:
            self._lose(self._from_os_error(error), now)
        else:
            self._lose(self._unavailable("the daemon closed the connection"), now)

    def broken(self, now: float) -> None:
        """The client lost track of the stream, for example because a signal handler raised an error."""
        if self.connection is not None:
            self._lose(self._unavailable("the connection was interrupted"), now)

    # Messages

    def _message(self, connection: Connection, body: bytes, now: float) -> None:
        request_id, reply = decode_response(body)
        connection.quiet_since = now
        if request_id == 0:
            self._unsolicited(connection, reply, now)
        elif connection.limits is None:
            self._greeted(connection, request_id, reply, now)
        elif isinstance(reply, RefusedError) and reply.number == ErrorCode.ShuttingDown:
            call = connection.take_request(request_id)
            if call is not None:
                self._queued.appendleft(call)
            self._stopping(connection, now)
        else:
            self._answer(connection, request_id, reply, now)

    def _unsolicited(self, connection: Connection, reply: Reply, now: float) -> None:
        stopping = isinstance(reply, RefusedError) and reply.number == ErrorCode.ShuttingDown
        if stopping or isinstance(reply, Goodbye):
            self._stopping(connection, now)
        elif isinstance(reply, RefusedError):
            self._lose(reply, now)
        else:
            raise ProtocolError(f"it sent {type(reply).__name__} without a request")

    def _greeted(self, connection: Connection, request_id: int, reply: Reply, now: float) -> None:
        if request_id != _HELLO_ID:
            raise ProtocolError(f"it answered request {request_id}, which was never sent")
        if isinstance(reply, RefusedError):
            if reply.number == ErrorCode.ShuttingDown:
                self._stopping(connection, now)
            else:
                self._lose(reply, now)
            return
        if not isinstance(reply, HelloReply):
            raise ProtocolError(f"it answered Hello with {type(reply).__name__}")
        if reply.version != VERSION:
            raise ProtocolError(f"it chose protocol version {reply.version}, which was not offered")
        connection.limits = reply._replace(
            max_count=max(reply.max_count, 1), max_in_flight=max(reply.max_in_flight, 1)
        )
        self._last_error = None

    def _answer(self, connection: Connection, request_id: int, reply: Reply, now: float) -> None:
        call = connection.take_request(request_id)
        if isinstance(reply, (Goodbye, HelloReply)):
            if call is not None:
                connection.sent[request_id] = call
            raise ProtocolError(f"it answered request {request_id} with {type(reply).__name__}")
        if call is None:
            return  # Its IDs become a gap.
        if isinstance(reply, RefusedError):
            connection.answered = True
            call.finish(error=reply)
        else:
            try:
                result = call.accept(reply)
            except ProtocolError:
                connection.sent[request_id] = call
                raise
            connection.answered = True
            call.finish(result)
        if connection.ending is not None and not connection.sent:
            self._lose(connection.ending, now)

    def _stopping(self, connection: Connection, now: float) -> None:
        connection.end(self._unavailable("the daemon is stopping"), now)
        if not connection.sent:
            self._lose(self._unavailable("the daemon is stopping"), now)

    # The end of a connection

    def _lose(self, error: LeafdError, now: float) -> None:
        """End the connection, or note that there is none. Repeat its calls on the next one, unless
        that would fail in the same way."""
        connection = self.connection
        self.connection = None
        self._last_error = error
        retry_after = error.retry_after if isinstance(error, RefusedError) else 0.0
        answered = connection is not None and connection.answered
        self._backoff.lost(now, answered, retry_after, self._jitter())
        greeted = connection is not None and connection.limits is not None
        sent = list(connection.sent.values()) if connection is not None else []
        if not error.temporary:
            # Each call makes one attempt of its own, and reports at once.
            self._backoff.skip()
            failed = sent if greeted else [*sent, *self._queued]
            if not greeted:
                self._queued.clear()
        else:
            # Calls are queued again in the order in which they were made.
            again = [*sent, *self._queued]
            failed = [call for call in again if call.once and not answered]
            self._queued = deque(call for call in again if not call.once or answered)
        for call in failed:
            call.finish(error=error.copy())

    def _unavailable(self, reason: str) -> UnavailableError:
        return UnavailableError(self._options.path, reason)

    def _from_os_error(self, error: OSError) -> UnavailableError:
        reason = error.strerror or str(error) or type(error).__name__
        return UnavailableError(self._options.path, reason, error.errno)
