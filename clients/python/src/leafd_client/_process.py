"""Tells a process from its children. No state that hands out IDs may be used on both sides of a fork.

Every such state notes the process that made it. In a child it is not repaired but replaced: its
locks may be held for ever there, by threads that only the parent has.
"""

from __future__ import annotations

import os
import socket
from typing import Callable, Generic, NamedTuple, TypeVar


class Process(NamedTuple):
    """Identifies a process.

    The hook counts forks, so a PID that is used again misleads nobody. The PID reveals forks that
    C code made, for which Python runs no hooks.
    """

    forks: int
    pid: int


_forks = 0
_getpid = os.getpid

# Every open socket of this package in this process. The operations of a set on objects without
# an __eq__ of their own are atomic, so a child finds the set whole.
_sockets: set[socket.socket] = set()


def current_process() -> Process:
    """Return the identity of this process."""
    return Process(_forks, _getpid())


def remember(sock: socket.socket) -> None:
    """Have a child of a fork close its copy of this socket."""
    _sockets.add(sock)


def close(sock: socket.socket) -> None:
    """Close a socket, which is never shut down: that would end the connection of the parent."""
    _sockets.discard(sock)
    try:
        sock.close()
    except OSError:
        pass  # The descriptor is closed all the same.


def _after_fork_in_child() -> None:
    global _forks
    _forks += 1
    for sock in list(_sockets):
        close(sock)


os.register_at_fork(after_in_child=_after_fork_in_child)


class Forkable:
    """State of one process. A child abandons its copy."""

    def __init__(self, process: Process) -> None:
        self.process = process

    def abandon(self) -> None:
        """Close the child's copies of descriptors. Take no lock: a thread of the parent may hold it."""


_S = TypeVar("_S", bound=Forkable)


class PerProcess(Generic[_S]):
    """Holds the state of the present process, and makes a new one in a child of a fork."""

    def __init__(self, make: Callable[[Process], _S]) -> None:
        self._make = make
        process = current_process()
        self._latest = make(process)
        self._states: dict[Process, _S] = {process: self._latest}

    def get(self) -> _S:
        """Return the state of this process."""
        state = self._latest
        process = state.process
        if process[1] == _getpid() and process[0] == _forks:
            return state
        return self._replace()

    def known(self) -> _S | None:
        """Return the state of this process if it has one."""
        return self._states.get(current_process())

    def _replace(self) -> _S:
        process = current_process()
        # Atomic: if several threads of a child come here, all of them get the same state.
        state = self._states.setdefault(process, self._make(process))
        self._latest = state
        for other in list(self._states):
            inherited = self._states.pop(other, None) if other != process else None
            if inherited is not None:
                inherited.abandon()
        return state
