"""A web application that gunicorn preloads: client, pool and iterator are made and used before it forks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

from leafd_client import Client, Pool

client = Client(timeout=30)
pool = Pool("prefork", timeout=30)
numbers = client.ids("prefork", batch=50)


def take() -> list[int]:
    """Return IDs by every way there is."""
    return [
        *(client.next("prefork") for _ in range(5)),
        *client.next_many("prefork", 20),
        *(pool.next() for _ in range(60)),
        *pool.next_many(30),
        *(next(numbers) for _ in range(15)),
    ]


# Held from here on by the master; none of these may come again.
with open(os.environ["PREFORK_MASTER_IDS"], "a", encoding="ascii") as file:
    file.writelines(f"{value}\n" for value in take())


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    body = "".join(f"{value}\n" for value in take()).encode()
    headers = [("Content-Type", "text/plain"), ("Content-Length", str(len(body))), ("Pid", str(os.getpid()))]
    start_response("200 OK", headers)
    return [body]
