"""Runs gunicorn, then Celery, asks them for IDs, and looks for duplicates."""

from __future__ import annotations

import http.client
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

_REQUESTS = 600
_TASKS = 200


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=60)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(self._path)


@contextmanager
def running(command: list[str], **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    server = subprocess.Popen(command, env={**os.environ, **environment}, stdout=sys.stderr)
    try:
        yield server
    finally:
        server.terminate()
        try:
            server.wait(60)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def read(path: str) -> list[int]:
    with open(path, encoding="ascii") as file:
        return [int(line) for line in file]


def gunicorn(folder: str) -> tuple[list[int], int]:
    """Return all IDs, and how many processes gave some."""
    path, master = f"{folder}/web", f"{folder}/master"
    command = [sys.executable, "-m", "gunicorn", "--preload", "--workers", "4", "--threads", "4"]
    # Workers are replaced now and then: the master forks again and again.
    command += ["--max-requests", "40", "--max-requests-jitter", "20", "--log-level", "warning"]
    command += ["--bind", f"unix:{path}", "prefork_web:application"]
    pids = set()

    def ask(_: int) -> list[int]:
        # A worker that ends may leave a connection unanswered.
        for attempt in range(5):
            try:
                connection = UnixConnection(path)
                connection.request("GET", "/")
                answer = connection.getresponse()
                body = answer.read()
            except (OSError, http.client.HTTPException):
                if attempt == 4:
                    raise
                time.sleep(0.05)
                continue
            if answer.status != 200:
                raise SystemExit(f"gunicorn answered {answer.status}: {body!r}")
            pids.add(answer.headers["Pid"])
            return [int(line) for line in body.split()]
        return []

    with running(command, PREFORK_MASTER_IDS=master) as server:
        wait_for(path, server)
        with ThreadPoolExecutor(16) as executor:
            found = [value for part in executor.map(ask, range(_REQUESTS)) for value in part]
    return read(master) + found, len(pids)


def celery(folder: str) -> tuple[list[int], int]:
    """Return all IDs, and how many processes gave some."""
    for name in ("queue", "control", "results"):
        os.mkdir(f"{folder}/{name}")
    os.environ["PREFORK_CELERY"] = folder
    import prefork_tasks

    command = [sys.executable, "-m", "celery", "-A", "prefork_tasks", "worker", "--pool", "prefork"]
    command += ["--concurrency", "4", "--max-tasks-per-child", "20", "--loglevel", "warning"]
    command += ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    with running(command) as server:
        wait_for(f"{folder}/parent", server)
        results = [prefork_tasks.take.delay() for _ in range(_TASKS)]
        answers = [result.get(timeout=120) for result in results]
    found = [value for _, part in answers for value in part]
    return read(f"{folder}/parent") + found, len({pid for pid, _ in answers})


def wait_for(path: str, server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 60
    while not os.path.exists(path):
        if server.poll() is not None or time.monotonic() > end:
            raise SystemExit(f"the server did not start: no {path}")
        time.sleep(0.05)


def main(out: str) -> None:
    total: list[int] = []
    for run in (gunicorn, celery):
        folder = tempfile.mkdtemp(prefix="prefork-")
        try:
            found, processes = run(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        with open(f"{out}/{run.__name__}.ids", "w", encoding="ascii") as file:
            file.writelines(f"{value}\n" for value in found)
        print(f"{run.__name__}: {len(found)} IDs of {processes} processes", file=sys.stderr)
        if processes < 4:
            raise SystemExit(f"{run.__name__} used {processes} processes only")
        total += found
    twice = len(total) - len(set(total))
    if twice:
        raise SystemExit(f"DUPLICATE: {twice} of {len(total)} IDs came twice")
    print(len(total))


if __name__ == "__main__":
    main(sys.argv[1])
