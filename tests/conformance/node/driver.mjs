// The driver of the conformance suite: obeys lines of JSON, as ../README.md says. Each line is handled on
// its own, so answers come in any order.

import { createInterface } from 'node:readline';

import { Client, LeafError, Layout, Pool, defaultSocketPath } from 'leafd-client';
import * as wire from 'leafd-client/wire';

import { decodeResponse, encode, statusFields } from './fields.mjs';
import { storm } from './storm.mjs';

const clients = new Map();
const pools = new Map();
/** The controllers of the calls in flight, by the ID of their line. */
const calls = new Map();

const ops = {
  about: () => ({
    language: 'node',
    mode: 'async',
    concurrent: true,
    forks: false,
    pools: true,
    cancels: true,
    version: process.version,
  }),
  socket_path: () => ({ path: defaultSocketPath() }),
  encode: (line) => encode(wire, line),
  decode_response: (line) => decodeResponse(wire, line),
  decode_id({ layout, value }) {
    const { unixMs, worker, sequence } = Layout.parse(layout).decode(BigInt(value));
    return { unix_ms: String(unixMs), worker: String(worker), sequence: String(sequence) };
  },

  open({ client, ...fields }) {
    clients.set(client, new Client(connection(fields)));
    return {};
  },
  async close({ client }) {
    await clientOf(client).close();
    return {};
  },
  next: async (line) => runs([await clientOf(line.client).next(line.tag, call(line))]),
  next_many: async (line) => runs(await clientOf(line.client).nextMany(line.tag, line.count, call(line))),
  snowflake: async (line) => runs([await clientOf(line.client).snowflake(call(line))]),
  snowflakes: async (line) => runs(await clientOf(line.client).snowflakes(line.count, call(line))),
  async time(line) {
    const time = await clientOf(line.client).time(call(line));
    return { unix_ms: String(time.getTime()) };
  },
  status: async (line) => statusFields(await clientOf(line.client).status(call(line))),
  cancel({ target }) {
    calls.get(target)?.abort();
    return {};
  },

  pool_open({ pool, tag, min_chunk, max_chunk, max_age_ms, ...fields }) {
    const options = {
      ...connection(fields),
      ...given({ minChunk: min_chunk, maxChunk: max_chunk, maxAgeMs: max_age_ms }),
    };
    pools.set(pool, tag === undefined ? Pool.snowflake(options) : Pool.tag(tag, options));
    return {};
  },
  pool_next: async (line) => runs([await poolOf(line.pool).next(call(line))]),
  pool_next_many: async (line) => runs(await poolOf(line.pool).nextMany(line.count, call(line))),
  pool_try_next({ pool }) {
    const id = poolOf(pool).tryNext();
    return runs(id === undefined ? [] : [id]);
  },
  pool_stats({ pool }) {
    const stats = poolOf(pool).stats();
    return Object.fromEntries(Object.entries(stats).map(([name, value]) => [name, String(value)]));
  },
  async pool_close({ pool }) {
    await poolOf(pool).close();
    return {};
  },

  storm,
};

function clientOf(name) {
  return existing(clients, name);
}

function poolOf(name) {
  return existing(pools, name);
}

function existing(map, name) {
  const found = map.get(name);
  if (found === undefined) throw new Error(`nothing is called ${name}`);
  return found;
}

function connection({ socket, timeout_ms, backoff_min_ms, backoff_max_ms }) {
  return given({
    socketPath: socket,
    timeoutMs: timeout_ms,
    backoffMinMs: backoff_min_ms,
    backoffMaxMs: backoff_max_ms,
  });
}

function call({ timeout_ms, signal }) {
  return given({ timeoutMs: timeout_ms, signal });
}

function given(options) {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}

function runs(ids) {
  const list = ids.runs ?? ids.map((first) => ({ first, count: 1 }));
  return { runs: list.map(({ first, count }) => [String(first), count]) };
}

function errorOf(error) {
  if (!(error instanceof LeafError)) {
    process.stderr.write(`${error.stack}\n`);
    return { kind: 'driver', message: error.message, temporary: false };
  }
  const { kind, message, temporary } = error;
  if (kind !== 'refused') return { kind, message, temporary };
  return {
    kind,
    message,
    temporary,
    number: error.number,
    name: error.numberName,
    retry_after_ms: error.retryAfterMs,
    detail: String(error.detail),
  };
}

async function handle(line) {
  const { id, op } = line;
  const controller = new AbortController();
  calls.set(id, controller);
  let answer;
  try {
    if (!Object.hasOwn(ops, op)) throw new Error(`there is no op ${op}`);
    answer = { id, ok: await ops[op]({ ...line, signal: controller.signal }) };
  } catch (error) {
    answer = { id, error: errorOf(error) };
  }
  calls.delete(id);
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}

const handled = [];
for await (const text of createInterface({ input: process.stdin })) {
  handled.push(handle(JSON.parse(text)));
}
// Lines still in flight get an answer too: that their client was closed.
for (const object of [...clients.values(), ...pools.values()]) {
  await object.close();
}
await Promise.all(handled);
