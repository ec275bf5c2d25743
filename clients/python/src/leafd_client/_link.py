"""The connection of a synchronous client, and the threads that share it.

There is no background thread: one of the calling threads, the leader, reads for all of them, and passes
that on to another one when its own call is finished. Any thread sends, one at a time. Threads read and
send without the lock: in a system call, a thread loses the GIL, and may not get it back for a while.

A call that finds the connection quiet is alone: its thread sends its request and reads its answer without
telling anybody. As soon as another thread changes anything, the call becomes an ordinary one, whose
thread leads.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from functools import lru_cache
from typing import Any

from ._errors import ClosedError
from ._ids import Ids
from ._options import Options
from ._process import Forkable, Process, close
from ._session import Call, Session, daemon_timeout_ms
from ._socket import NO_SIGNAL, Watch, open_if_wanted
from ._wire import count_fields, decode_one_id, frame_start, split_request

_now = time.monotonic

_READ_LEN = 32 * 1024

# Of a call that is alone. More than one answer stays in the socket.
_SHORT_READ_LEN = 256

# How long a call is alone at most, in milliseconds. Until then nobody can wake its thread: this bounds how
# long it takes to notice a close, or that a full socket has room again.
_ALONE_MS = 20

# A thread that leads or sends and whose deadline passed this many seconds ago is gone: a second exception
# struck it while it dealt with the first.
_GRACE = 1.0


class Link(Forkable):
    """The connection of one client in one process, and the threads that wait for it."""

    def __init__(self, process: Process, options: Options) -> None:
        super().__init__(process)
        self._path = options.path
        self._lock = threading.Lock()
        self._session = Session(options)
        self._sock: socket.socket | None = None
        # What the next call needs to be alone, if it can be: the socket, and what waits for nothing else.
        self._quiet: tuple[socket.socket, select.poll] | None = None
        self._latest_quiet: tuple[socket.socket, select.poll] | None = None
        # The call that is alone. The session does not know of it.
        self._alone: Call | None = None
        # All other calls, in the order in which they were made, and the lock on which each thread waits.
        self._calls: dict[Call, threading.Lock] = {}
        # The call whose thread reads for all.
        self._leader: Call | None = None
        # The call whose thread sends. That thread resets it without the lock once everything is sent, and
        # then looks whether more has come.
        self._writer: Call | None = None
        # Whether the leader has taken bytes from the socket that the session does not have yet.
        self._receiving = False
        # The sockets that threads read and write without the lock.
        self._read_by: dict[Call, socket.socket] = {}
        self._written: socket.socket | None = None
        # Sockets whose connection is lost. They are closed once no thread uses them: until then, no other
        # file may get their number.
        self._lost: list[socket.socket] = []
        # Whether the socket did not take all bytes the last time.
        self._is_full = False
        # On what the leader waits.
        self._watch = Watch()
        # Whether the session is being changed. If it is although the lock was free, an exception struck
        # in the middle, for example from a signal handler.
        self._changing = False
        self._closed = False

    def one(self, number: int, timeout: float, tag: bytes) -> int:
        """Make a call for one ID and wait for it."""
        call = Call(number, _now(), timeout, 1, tag)
        if self._quiet is not None:
            value = self._run_alone(call)
            if value is not None:
                return value
        ids: Ids = call.outcome() if call.finished else self.run(call)
        return ids.runs[0].start

    def run(self, call: Call) -> Any:
        """Make a call and wait for its result."""
        try:
            leads = self._begin(call)
            self._write(call)
            if leads or self._follow(call):
                self._lead(call)
        except BaseException:
            self._abandon(call)
            raise
        return call.outcome()

    def close(self) -> None:
        """Fail the calls in flight and close the connection."""
        with self._lock:
            self._begin_change()
            self._closed = True
            self._session.fail_all(ClosedError())
            self._close_lost_sockets()
            self._watch.wake()
            if self._leader is None:
                self._watch.close()
            self._changing = False

    def abandon(self) -> None:
        for sock in (self._sock, *self._lost):
            if sock is not None:
                close(sock)
        self._watch.close()

    # One call alone

    def _run_alone(self, call: Call) -> int | None:
        """Make a call while the connection is quiet. ``None``: it was not, or the call is finished."""
        header, rest, wait_ms = _prepare(call.number, call.tag, call.timeout)
        try:
            with self._lock:
                quiet = self._quiet
                if quiet is None:
                    return None
                self._quiet = None
                session = self._session
                call.request_id = request_id = session.next_id
                session.next_id = request_id + 1
                self._writer = self._alone = call
            sock, waiting = quiet
            self._send(call, sock, frame_start(header, request_id) + rest)
            # If this call is not alone any more, others may have left their requests to this thread.
            if self._alone is call:
                waiting.poll(wait_ms)
                self._receiving = True
                value = None
                data: bytes | OSError
                try:
                    data = sock.recv(_SHORT_READ_LEN)
                    value = decode_one_id(data, request_id)
                except OSError as error:
                    data = error
                with self._lock:
                    if value is not None and self._alone is call:
                        self._receiving = False
                        self._alone = None
                        self._quiet = quiet
                        return value
                    self._received(call, sock, data, self._begin_change())
                    self._changing = False
            self._lead(call)
        except BaseException:
            self._abandon(call)
            raise
        return None

    def _join(self, call: Call) -> None:
        """Make the call that is alone an ordinary one, whose thread leads."""
        if call not in self._calls:
            self._calls[call] = threading.Lock()
        call.on_finish = self._finished
        self._session.sent_alone(call)
        self._leader = call
        self._written = self._sock
        if self._sock is not None:
            self._read_by[call] = self._sock
        self._alone = None

    # All calls

    def _begin(self, call: Call) -> bool:
        """Queue a call. Returns whether its thread is the leader."""
        wait = threading.Lock()
        wait.acquire()
        call.on_finish = self._finished
        with self._lock:
            now = self._begin_change()
            if self._closed:
                self._changing = False
                raise ClosedError
            self._calls[call] = wait
            self._session.add(call)
            leads = self._take_lead(call, now)
            self._step(now)
            self._changing = False
            return leads

    def _take_lead(self, call: Call, now: float) -> bool:
        """Make this call's thread the leader if there is none."""
        for other in (self._leader, self._writer):
            if other is not None and now >= other.deadline + _GRACE:
                self._replace(other, now)
        if self._leader is None:
            self._leader = call
        return self._leader is call

    def _replace(self, gone: Call, now: float) -> None:
        """Do without a thread that is gone. Should it come back, it finds its socket lost but not closed."""
        if self._writer is gone:
            self._writer = None
            if self._written is not None:
                self._read_by[gone] = self._written
        if self._leader is gone:
            self._leader = None
            self._receiving = False
        self._repair(now)

    def _follow(self, call: Call) -> bool:
        """Wait until the call is finished, or until this thread becomes the leader. Returns the latter."""
        wait = self._calls.get(call)
        while wait is not None and not call.finished:
            wait.acquire(timeout=max(call.deadline - _now(), 0.0))
            if call.finished:
                break
            with self._lock:
                now = self._begin_change()
                leads = not call.finished and self._take_lead(call, now)
                if not leads and now >= call.deadline:
                    self._session.give_up(call, now)
                    self._step(now)
                    self._leave(call)
                self._changing = False
            if leads:
                return True
        return False

    def _lead(self, call: Call) -> None:
        """Move bytes until this call is finished."""
        sock: socket.socket | None = None
        data: bytes | OSError | None = None
        while True:
            with self._lock:
                now = self._begin_change()
                self._read_by.pop(call, None)
                self._received(call, sock, data, now)
                self._step(now)
                if not call.finished and now >= call.deadline:
                    self._session.give_up(call, now)
                    self._step(now)
                if call.finished:
                    self._leave(call)
                    self._changing = False
                    return
                until = min(call.deadline, self._session.next_event() or call.deadline)
                sock = self._sock
                self._watch.set(sock, writable=self._is_full and self._session.has_unsent())
                if sock is not None:
                    self._read_by[call] = sock
                self._changing = False
            self._write(call)
            self._watch.wait(until - _now())
            self._receiving = True
            data = None
            if sock is not None:
                try:
                    data = sock.recv(_READ_LEN)
                except OSError as error:
                    data = error

    def _leave(self, call: Call) -> None:
        """End a call. If nobody reads then, a waiting thread is woken, and does."""
        self._calls.pop(call, None)
        self._read_by.pop(call, None)
        if self._leader is call:
            self._leader = None
        self._close_lost_sockets()
        if self._leader is not None:
            return
        if self._closed:
            self._watch.close()
        for other in self._calls:
            self._wake(other)
            return
        sock = self._sock
        if sock is not None and self._writer is None and self._session.is_quiet():
            if self._latest_quiet is None or self._latest_quiet[0] is not sock:
                waiting = select.poll()
                waiting.register(sock, select.POLLIN)
                self._latest_quiet = sock, waiting
            self._quiet = self._latest_quiet

    def _abandon(self, call: Call) -> None:
        """Leave a call that an exception struck."""
        with self._lock:
            now = self._begin_change()
            is_reading = self._leader is call and self._receiving
            if is_reading or self._writer is call:
                # Bytes may be lost, or half a request may be sent.
                self._session.broken(now)
            if is_reading:
                self._receiving = False
            if self._writer is call:
                self._writer = None
            self._session.give_up(call, now, overdue=False)
            self._step(now)
            self._leave(call)
            self._watch.wake()  # Others may have left their requests to this thread.
            self._changing = False

    def _finished(self, call: Call) -> None:
        wait = self._calls.pop(call, None)
        if wait is not None and wait.locked():
            wait.release()

    def _wake(self, call: Call) -> None:
        """Wake the thread of a call, which looks what there is to do. It may come once too often."""
        wait = self._calls.get(call)
        if wait is not None and wait.locked():
            wait.release()

    def _begin_change(self) -> float:
        now = _now()
        is_interrupted = self._changing
        self._changing = True
        self._quiet = None
        if self._alone is not None:
            self._join(self._alone)
        if is_interrupted:
            self._repair(now)
        return now

    def _repair(self, now: float) -> None:
        """Begin again with a new connection. No answer is used twice: it is removed before it is used."""
        self._session.broken(now)
        self._close_lost_sockets()
        known = set(self._session.pending())
        for call in list(self._calls):
            if call.finished:
                self._finished(call)
                continue
            if call not in known:
                self._session.add(call)
            self._wake(call)

    # Bytes

    def _step(self, now: float) -> None:
        """Do what is due: connect, close. Nothing here waits."""
        session = self._session
        session.tick(now)
        self._close_lost_sockets()
        opened = open_if_wanted(session, self._path, now)
        if opened is not None:
            self._sock = opened
            self._watch.wake()  # It waits for another socket, or for none.

    def _write(self, call: Call) -> None:
        """Send what there is, unless another thread does: it looks for more when it has sent."""
        while self._session.has_unsent():
            with self._lock:
                now = self._begin_change()
                sock = self._sock
                data = b""
                if self._writer is None and sock is not None:
                    data = self._session.take_unsent(now)
                    if data:
                        self._writer = call
                        self._written = sock
                self._changing = False
            if not data or sock is None or not self._send(call, sock, data):
                return

    def _send(self, call: Call, sock: socket.socket, data: bytes) -> bool:
        """Send as the writer. Returns whether everything was sent."""
        sent = 0
        failure: OSError | None = None
        try:
            sent = sock.send(data, NO_SIGNAL)
        except BlockingIOError:
            pass
        except OSError as error:
            failure = error
        if sent == len(data):
            if self._writer is call:
                self._is_full = False
                self._writer = None
            if self._lost:
                with self._lock:
                    self._close_lost_sockets()
            return True
        with self._lock:
            now = self._begin_change()
            if self._writer is call:
                self._writer = None
            if sock is self._sock:
                if failure is not None:
                    self._session.send_failed(failure, now)
                else:
                    self._session.put_back(data[sent:])
                    self._is_full = True
            self._close_lost_sockets()
            # The leader waits until the socket takes more, or reads for a short time only.
            self._watch.wake()
            self._changing = False
        return False

    def _received(
        self, call: Call, sock: socket.socket | None, data: bytes | OSError | None, now: float
    ) -> None:
        """Take in what the leader read from a socket."""
        if self._leader is call:
            self._receiving = False
        if sock is not self._sock or data is None or isinstance(data, BlockingIOError):
            return
        if isinstance(data, OSError):
            self._session.ended(data, now)
        elif data:
            self._session.received(data, now)
        else:
            self._session.ended(None, now)

    def _close_lost_sockets(self) -> None:
        """Close sockets without a connection that no thread uses."""
        if self._sock is not None and self._session.connection is None:
            self._lost.append(self._sock)
            self._sock = None
            self._watch.wake()
        if self._lost:
            used = list(self._read_by.values())
            if self._writer is not None and self._written is not None:
                used.append(self._written)
            for sock in self._lost:
                if sock not in used:
                    close(sock)
            self._lost = [sock for sock in self._lost if sock in used]


@lru_cache(maxsize=1024)
def _prepare(number: int, tag: bytes, timeout: float) -> tuple[int, bytes, float]:
    """Return the parts of the request of a call that is alone, and how long it is at most."""
    fields = tag + count_fields(1, daemon_timeout_ms(timeout))
    return *split_request(number, fields), min(timeout * 1000, _ALONE_MS)
