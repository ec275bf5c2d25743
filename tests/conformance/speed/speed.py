"""One request at a time: a bare echo, the client, a pool. Prints a line of JSON; see tests/measure-clients."""

import json
import os
import socket
import time

from leafd_client import Client, Pool

CALLS, ROUNDS, POOLED = (int(os.environ[name]) for name in ("CALLS", "ROUNDS", "POOLED"))
SIZE, ANSWER = int(os.environ["SIZE"]), int(os.environ["ANSWER"])

bare = socket.socket(socket.AF_UNIX)
bare.connect(os.environ["ECHO"])
request = bytes(SIZE)


def echo():
    bare.sendall(request)
    left = ANSWER
    while left:
        left -= len(bare.recv(left))


def rate(call, calls):
    began = time.perf_counter()
    for _ in range(calls):
        call()
    return calls / (time.perf_counter() - began)


client = Client()
pool = Pool("pooled")
for call in (echo, lambda: client.next("speed")):
    rate(call, CALLS // 4)
rate(pool.next, POOLED // 4)
echoes, clients = [], []
for _ in range(ROUNDS):
    echoes.append(rate(echo, CALLS))
    clients.append(rate(lambda: client.next("speed"), CALLS))
print(json.dumps({"echo": echoes, "client": clients, "pool": [rate(pool.next, POOLED) for _ in range(3)]}))
