// Many callers at once: processes of `cluster`, each with tasks. With `fork_again`, which Node cannot do,
// each process hands the second half of its work to a worker thread, and both go on.

import cluster from 'node:cluster';
import { createWriteStream } from 'node:fs';
import { join } from 'node:path';
import { finished } from 'node:stream/promises';
import { fileURLToPath } from 'node:url';
import { Worker, isMainThread, parentPort, workerData } from 'node:worker_threads';

import { Client, Pool } from 'leafd-client';

const FILE = fileURLToPath(import.meta.url);
const MAX_ERRORS = 10;

/** Runs a storm. Called by the driver. */
export async function storm({ signal: _, ...line }) {
  const results = await Promise.all(
    shares(BigInt(line.ids), line.workers).map((ids, index) => inProcess({ ...line, ids: String(ids), name: `${index}` })),
  );
  return sum(results);
}

function inProcess(job) {
  cluster.setupPrimary({ exec: FILE, args: [JSON.stringify(job)] });
  const worker = cluster.fork();
  return new Promise((resolve, reject) => {
    worker.once('message', resolve);
    worker.once('error', reject);
    worker.once('exit', (code, signal) => reject(new Error(`a worker ended with ${signal ?? code}`)));
  });
}

/** The work of one process. */
async function workProcess(job) {
  if (!job.fork_again) return workAlone(job);
  const [first, second, third] = shares(BigInt(job.ids), 3);
  const source = open(job);
  const before = await work(source, { ...job, ids: String(first), name: `${job.name}-before` });
  const [here, there] = await Promise.all([
    work(source, { ...job, ids: String(second), name: `${job.name}-here` }),
    inThread({ ...job, ids: String(third), name: `${job.name}-there` }),
  ]);
  await source.close();
  return sum([before, here, there]);
}

function inThread(job) {
  const thread = new Worker(FILE, { workerData: job });
  return new Promise((resolve, reject) => {
    thread.once('message', resolve);
    thread.once('error', reject);
  });
}

/** The work of one process or thread with a client or pool of its own. */
async function workAlone(job) {
  const source = open(job);
  const result = await work(source, job);
  await source.close();
  return result;
}

/** All tasks share one client or pool. */
async function work(source, job) {
  const tasks = shares(BigInt(job.ids), job.threads ?? 1);
  const results = await Promise.all(
    tasks.map((ids, index) => task(source, { ...job, ids: Number(ids), name: `${job.name}-${index}` })),
  );
  return sum(results);
}

/** A client or pool behind `get(count)`, which resolves to runs. */
function open({ use, tag, socket, timeout_ms }) {
  const options = {};
  if (socket !== undefined) options.socketPath = socket;
  if (timeout_ms !== undefined) options.timeoutMs = timeout_ms;
  if (use === 'pool') {
    const pool = tag === undefined ? Pool.snowflake(options) : Pool.tag(tag, options);
    return {
      get: async (count) =>
        count === 1 ? [{ first: await pool.next(), count: 1 }] : (await pool.nextMany(count)).runs,
      close: () => pool.close(),
    };
  }
  const client = new Client(options);
  const one = () => (tag === undefined ? client.snowflake() : client.next(tag));
  const many = (count) => (tag === undefined ? client.snowflakes(count) : client.nextMany(tag, count));
  return {
    get: async (count) => (count === 1 ? [{ first: await one(), count: 1 }] : (await many(count)).runs),
    close: () => client.close(),
  };
}

async function task(source, { ids, batch = 1, out, name }) {
  const record = new Record(join(out, `ids-${name}`));
  const result = { issued: '0', calls: 0, failed: 0, errors: [] };
  let issued = 0;
  for (let left = ids; left > 0; ) {
    const count = Math.min(batch, left);
    left -= count;
    result.calls += 1;
    try {
      for (const run of await source.get(count)) await record.add(run);
      issued += count;
    } catch (error) {
      result.failed += 1;
      if (result.errors.length < MAX_ERRORS) result.errors.push(String(error.message));
    }
  }
  await record.end();
  result.issued = String(issued);
  return result;
}

/** A file of runs: first ID and count, joined where IDs are in a row. */
class Record {
  #stream;
  #last = null;

  constructor(path) {
    this.#stream = createWriteStream(path);
  }

  async add({ first, count }) {
    const last = this.#last;
    if (last !== null && last.first + BigInt(last.count) === first && last.count + count < 2 ** 32) {
      last.count += count;
      return;
    }
    this.#last = { first, count };
    if (last !== null) await this.#write(last);
  }

  async #write({ first, count }) {
    const bytes = Buffer.allocUnsafe(12);
    bytes.writeBigUInt64LE(first, 0);
    bytes.writeUInt32LE(count, 8);
    if (!this.#stream.write(bytes)) await new Promise((resolve) => this.#stream.once('drain', resolve));
  }

  async end() {
    if (this.#last !== null) await this.#write(this.#last);
    this.#stream.end();
    await finished(this.#stream);
  }
}

/** Divides a number into parts that differ by one at most. */
function shares(total, parts) {
  const of = BigInt(Math.max(1, parts));
  return Array.from({ length: Number(of) }, (_, index) => total / of + (BigInt(index) < total % of ? 1n : 0n));
}

function sum(results) {
  return {
    issued: String(results.reduce((all, { issued }) => all + BigInt(issued), 0n)),
    calls: results.reduce((all, { calls }) => all + calls, 0),
    failed: results.reduce((all, { failed }) => all + failed, 0),
    errors: results.flatMap(({ errors }) => errors).slice(0, MAX_ERRORS),
  };
}

if (!isMainThread) {
  parentPort.postMessage(await workAlone(workerData));
} else if (cluster.isWorker) {
  const result = await workProcess(JSON.parse(process.argv[2]));
  process.send(result, () => process.disconnect());
}
