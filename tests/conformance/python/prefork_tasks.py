"""Celery tasks. The module is loaded, and the client used, before the worker forks."""

from __future__ import annotations

import os

from celery import Celery
from celery.signals import worker_init

from leafd_client import Client, Pool

folder = os.environ["PREFORK_CELERY"]
app = Celery("prefork", broker="filesystem://", backend=f"file://{folder}/results")
app.conf.update(
    broker_transport_options={
        "data_folder_in": f"{folder}/queue",
        "data_folder_out": f"{folder}/queue",
        "control_folder": f"{folder}/control",
    },
    task_serializer="json",
    broker_connection_retry_on_startup=True,
)

client = Client(timeout=30)
pool = Pool("prefork", timeout=30)
numbers = client.ids("prefork", batch=50)


def ids() -> list[int]:
    """Return IDs by every way there is."""
    return [
        *(client.next("prefork") for _ in range(5)),
        *client.next_many("prefork", 20),
        *(pool.next() for _ in range(60)),
        *(next(numbers) for _ in range(15)),
    ]


@worker_init.connect
def use(**_: object) -> None:
    """Use everything in the parent, so that its children inherit it in use."""
    with open(f"{folder}/parent", "a", encoding="ascii") as file:
        file.writelines(f"{value}\n" for value in ids())


@app.task
def take() -> tuple[int, list[int]]:
    return os.getpid(), ids()
