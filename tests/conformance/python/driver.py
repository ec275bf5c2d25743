"""The driver of the conformance suite: one JSON object per line in, one per line out.

driver.py [sync|async]. tests/conformance/README.md describes the lines.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

import leafd_client
from leafd_client import AsyncClient, Client, Layout, Pool, _wire
from storm import describe, run_storm, runs_of

Json = dict[str, Any]

_calls = ("next", "next_many", "snowflake", "snowflakes", "time", "status")
_u64_fields_as_text = frozenset(
    "detail first unix_ms uptime_ms requests tags waiting issued leases behind_ms worker ceiling_unix_ms "
    "last_unix_ms clock_unix_ms last_report_ms_ago limit_unix_ms clock_offset_ms".split()
)
_kinds = {
    leafd_client.RefusedError: "refused",
    leafd_client.UnavailableError: "unavailable",
    leafd_client.DeadlineError: "deadline",
    leafd_client.ProtocolError: "protocol",
    leafd_client.InvalidArgumentError: "invalid",
    leafd_client.ClosedError: "closed",
    leafd_client.ForkedError: "forked",
    leafd_client.UnsupportedError: "unsupported",
}


def error_json(error: BaseException) -> Json:
    if isinstance(error, asyncio.CancelledError):
        return {"kind": "cancelled", "message": "cancelled", "temporary": False}
    kind = _kinds.get(type(error))
    if kind is None:
        traceback.print_exception(type(error), error, error.__traceback__)
        return {"kind": f"defect: {type(error).__name__}", "message": str(error), "temporary": False}
    assert isinstance(error, leafd_client.LeafdError)
    answer: Json = {"kind": kind, "message": str(error), "temporary": error.temporary}
    if isinstance(error, leafd_client.RefusedError):
        answer.update(
            number=error.number,
            name=error.name,
            retry_after_ms=error.retry_after_ms,
            detail=str(error.detail),
        )
    return answer


def seconds(request: Json, name: str = "timeout_ms") -> float | None:
    value = request.get(name)
    return None if value is None else value / 1000


def given(request: Json, **names: str) -> Json:
    """The options that a line has, with times in seconds."""
    options = {}
    for option, name in names.items():
        if request.get(name) is not None:
            options[option] = request[name] / 1000 if name.endswith("_ms") else request[name]
    return options


def to_json(value: Any, name: str = "") -> Any:
    """Fields as protocol/vectors.json has them."""
    if hasattr(value, "_asdict"):
        return {key: to_json(field, key) for key, field in value._asdict().items()}
    if isinstance(value, int) and not isinstance(value, bool) and name in _u64_fields_as_text:
        return str(value)
    return value


def status_json(status: leafd_client.DaemonStatus) -> Json:
    fields: Json = to_json(status)
    state = fields["snowflake"]["state"]
    fields["snowflake"]["state"] = {key: part for key, part in state.items() if part is not None}
    return fields


def encode(request: Json) -> Json:
    fields, request_id = request["fields"], int(request["request_id"])
    message = request["message"]
    if message == "Hello":
        body = _wire.hello_fields(bytes.fromhex(fields["magic"]), fields["version"])
    elif message == "Segment":
        body = _wire.encode_str(fields["tag"]) + _wire.count_fields(fields["count"], fields["timeout_ms"])
    elif message == "Snowflake":
        body = _wire.count_fields(fields["count"], fields["timeout_ms"])
    elif message in ("Time", "Status"):
        body = b""
    else:
        return {"unsupported": True}
    frame = _wire.encode_request(request_id, _wire.CALL_NAMES.index(message), body)
    return {"hex": frame.hex()}


def decode_response(request: Json) -> Json:
    frame = bytes.fromhex(request["hex"].replace(" ", ""))
    if len(frame) >= 16 and int.from_bytes(frame[12:16], "little") in (5, 7):
        return {"unsupported": True}
    buffer = _wire.FrameBuffer()
    buffer.append(frame)
    body = buffer.take()
    if body is None or len(body) + 4 != len(frame):
        raise leafd_client.ProtocolError("the hex is not one frame")
    request_id, reply = _wire.decode_response(body)
    message = type(reply).__name__.replace("Reply", "").replace("DaemonStatus", "Status")
    if isinstance(reply, leafd_client.RefusedError):
        message = "Error"
        fields = {
            "code": reply.number,
            "retry_after_ms": reply.retry_after_ms,
            "detail": str(reply.detail),
            "message": reply.message,
        }
    elif isinstance(reply, _wire.IdsReply):
        first, *more = ({"first": str(first), "count": count} for first, count in reply.runs)
        fields = {"first": first, "more": more}
    elif isinstance(reply, leafd_client.DaemonStatus):
        fields = status_json(reply)
    else:
        fields = to_json(reply)
    return {"message": message, "request_id": str(request_id), "fields": fields}


def decode_id(request: Json) -> Json:
    parts = Layout.parse(request["layout"]).decode(int(request["value"]))
    return {
        "unix_ms": str(parts.unix_ms),
        "worker": str(parts.worker),
        "sequence": str(parts.sequence),
    }


def in_child(call: Callable[[], int]) -> Callable[[], Json]:
    """Fork, make the call in the child, and return what waits for its answer."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reading)
            try:
                answer: Json = {"ok": {"runs": [[str(call()), 1]]}}
            except BaseException as error:
                answer = {"error": error_json(error)}
            os.write(writing, json.dumps(answer).encode())
        finally:
            os._exit(0)
    os.close(writing)

    def wait() -> Json:
        with os.fdopen(reading, "rb") as pipe:
            data = pipe.read()
        os.waitpid(pid, 0)
        return json.loads(data) if data else {"error": {"kind": "defect: the child died"}}

    return wait


class Driver:
    """What both modes share: the clients and pools by name, and the lines that need no connection."""

    mode = ""
    cancels = False

    def __init__(self) -> None:
        self.clients: dict[str, Any] = {}
        self.pools: dict[str, Pool] = {}
        self._output = threading.Lock()

    def answer(self, request_id: Any, **answer: Any) -> None:
        line = json.dumps({"id": request_id, **answer}) + "\n"
        with self._output:
            sys.stdout.write(line)
            sys.stdout.flush()

    def simple(self, request: Json) -> Json | None:
        """Answer a line that needs no connection."""
        op = request["op"]
        if op == "about":
            return {
                "language": "python",
                "mode": self.mode,
                "concurrent": True,
                "forks": True,
                "pools": True,
                "cancels": self.cancels,
                "version": platform.python_version(),
            }
        if op == "socket_path":
            return {"path": leafd_client.default_socket_path()}
        if op == "encode":
            return encode(request)
        if op == "decode_response":
            return decode_response(request)
        if op == "decode_id":
            return decode_id(request)
        if op == "open":
            make = Client if self.mode == "sync" else AsyncClient
            options = given(
                request,
                timeout="timeout_ms",
                backoff_min="backoff_min_ms",
                backoff_max="backoff_max_ms",
            )
            self.clients[request["client"]] = make(request.get("socket"), **options)
            return {}
        if op == "pool_open":
            options = given(
                request,
                path="socket",
                timeout="timeout_ms",
                max_age="max_age_ms",
                min_chunk="min_chunk",
                max_chunk="max_chunk",
            )
            self.pools[request["pool"]] = Pool(request.get("tag"), **options)
            return {}
        if op == "pool_try_next":
            value = self.pools[request["pool"]].try_next()
            return {"runs": [] if value is None else [[str(value), 1]]}
        if op == "pool_stats":
            stats = self.pools[request["pool"]].stats()
            return {name: str(value) for name, value in stats._asdict().items()}
        if op == "pool_close":
            self.pools[request["pool"]].close()
            return {}
        return None

    def forked(self, request: Json) -> Callable[[], Json] | None:
        """Begin a line that forks. This has to happen in the thread that reads the lines."""
        if request["op"] == "fork_next":
            client, tag = self.clients[request["client"]], request["tag"]
            if isinstance(client, AsyncClient):
                # Without an event loop: it has to fail before it waits for anything.
                return in_child(lambda: client.next(tag).send(None))
            return in_child(lambda: client.next(tag))
        if request["op"] == "pool_fork_next":
            return in_child(self.pools[request["pool"]].next)
        return None

    @staticmethod
    def arguments(request: Json) -> list[Any]:
        return [request[name] for name in ("tag", "count") if name in request]

    @staticmethod
    def result(op: str, value: Any) -> Json:
        if op == "time":
            return {"unix_ms": str(value)}
        if op == "status":
            return status_json(value)
        return {"runs": [[str(first), count] for first, count in runs_of(value)]}


class SyncDriver(Driver):
    mode = "sync"

    def run(self) -> None:
        threading.stack_size(512 * 1024)
        threads: list[threading.Thread] = []
        for line in sys.stdin:
            request = json.loads(line)
            try:
                done = self.simple(request)
                if done is not None:
                    self.answer(request["id"], ok=done)
                    continue
                wait = self.forked(request)
            except Exception as error:
                self.answer(request["id"], error=error_json(error))
                continue
            thread = threading.Thread(target=self.handle, args=(request, wait))
            thread.start()
            threads = [other for other in threads if other.is_alive()]
            threads.append(thread)
        for client in self.clients.values():
            client.close()
        for pool in self.pools.values():
            pool.close()
        for thread in threads:
            thread.join()

    def handle(self, request: Json, wait: Callable[[], Json] | None) -> None:
        try:
            answer = wait() if wait is not None else {"ok": self.call(request)}
        except BaseException as error:
            answer = {"error": error_json(error)}
        self.answer(request["id"], **answer)

    def call(self, request: Json) -> Json:
        op = request["op"]
        if op == "storm":
            return run_storm(request, asynchronous=False)
        if op == "close":
            self.clients[request["client"]].close()
            return {}
        timeout = seconds(request)
        if op in _calls:
            call = getattr(self.clients[request["client"]], op)
            return self.result(op, call(*self.arguments(request), timeout=timeout))
        if op in ("pool_next", "pool_next_many"):
            call = getattr(self.pools[request["pool"]], op[len("pool_") :])
            return self.result(op, call(*self.arguments(request), timeout=timeout))
        raise leafd_client.UnsupportedError(f"the driver has no op {op!r}")


class AsyncDriver(Driver):
    mode = "async"
    cancels = True

    def __init__(self) -> None:
        super().__init__()
        self.tasks: dict[Any, asyncio.Task[None]] = {}

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        lines: asyncio.Queue[str | None] = asyncio.Queue()

        def read() -> None:
            for line in sys.stdin:
                loop.call_soon_threadsafe(lines.put_nowait, line)
            loop.call_soon_threadsafe(lines.put_nowait, None)

        threading.Thread(target=read, daemon=True).start()
        while True:
            line = await lines.get()
            if line is None:
                break
            request = json.loads(line)
            try:
                done = self.simple(request)
                if done is not None:
                    self.answer(request["id"], ok=done)
                    continue
                if request["op"] == "cancel":
                    target = self.tasks.get(request["target"])
                    if target is not None:
                        target.cancel()
                    self.answer(request["id"], ok={})
                    continue
                wait = self.forked(request)
            except Exception as error:
                self.answer(request["id"], error=error_json(error))
                continue
            self.tasks[request["id"]] = asyncio.create_task(self.handle(request, wait))
        for client in self.clients.values():
            await client.close()
        for pool in self.pools.values():
            pool.close()
        await asyncio.gather(*self.tasks.values())

    async def handle(self, request: Json, wait: Callable[[], Json] | None) -> None:
        try:
            if wait is not None:
                answer = await asyncio.get_running_loop().run_in_executor(None, wait)
            else:
                answer = {"ok": await self.call(request)}
        except BaseException as error:
            answer = {"error": error_json(error)}
        self.answer(request["id"], **answer)
        self.tasks.pop(request["id"], None)

    async def call(self, request: Json) -> Json:
        op = request["op"]
        if op == "storm":
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(None, lambda: run_storm(request, asynchronous=True))
        if op == "close":
            await self.clients[request["client"]].close()
            return {}
        timeout = seconds(request)
        if op in _calls:
            call = getattr(self.clients[request["client"]], op)
            return self.result(op, await call(*self.arguments(request), timeout=timeout))
        if op in ("pool_next", "pool_next_many"):
            call = getattr(self.pools[request["pool"]], op[len("pool_") :] + "_async")
            return self.result(op, await call(*self.arguments(request), timeout=timeout))
        raise leafd_client.UnsupportedError(f"the driver has no op {op!r}")


if __name__ == "__main__":
    mode = sys.argv[1] if len(sys.argv) > 1 else "sync"
    if mode == "sync":
        SyncDriver().run()
    elif mode == "async":
        asyncio.run(AsyncDriver().run())
    else:
        sys.exit(f"no mode {mode!r}; there are {describe(('sync', 'async'))}")
