"""Forks as a C extension does, without Python's hooks. A process of its own: after such a fork, Python itself
only works if no other thread was running. Prints what parent and child got as JSON."""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time

from leafd_client import Client, Pool


def main(path: str) -> None:
    client, pool = Client(path), Pool("orders", path=path)
    numbers = client.ids("orders", batch=10)

    def take() -> list[int]:
        return [client.next("orders"), *(pool.next() for _ in range(5)), *(next(numbers) for _ in range(3))]

    parent = take()
    link = client._links.get()
    inherited = [sock for sock in (link._sock, *(link._watch.wakers or ())) if sock is not None]
    time.sleep(0.2)  # The pool's thread is at rest.
    reading, writing = os.pipe()
    pid = ctypes.PyDLL(None).fork()
    if pid == 0:
        child = [pool.stats().held, *take()]
        open_ones = sum(sock.fileno() >= 0 for sock in inherited)
        os.write(writing, json.dumps([child, open_ones]).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        child, open_ones = json.loads(pipe.read())
    os.waitpid(pid, 0)
    parent += take()
    print(json.dumps({"parent": parent, "child": child[1:], "held": child[0], "open": open_ones}))
    client.close()
    pool.close()


if __name__ == "__main__":
    main(sys.argv[1])
