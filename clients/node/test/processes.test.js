'use strict';

// Processes and threads: each has its own memory, so nothing is shared that could come twice. And none of
// them is kept alive by an idle client.

const assert = require('node:assert');
const { execFile, fork } = require('node:child_process');
const events = require('node:events');
const path = require('node:path');
const { test } = require('node:test');
const { promisify } = require('node:util');
const { Worker } = require('node:worker_threads');

const { withDaemon } = require('./fake.js');

const TAKER = path.join(__dirname, 'taker.js');
const LEAFD = path.join(__dirname, '../src/index.js');

test('processes and threads of one program get different IDs', () =>
  withDaemon(undefined, {}, async (daemon) => {
    const results = await Promise.all([
      ...[1, 2].map((number) => events.once(fork(TAKER, [daemon.path, `fork ${number}`]), 'message')),
      ...[1, 2].map(() => events.once(fork(TAKER, [daemon.path, 'cluster']), 'message')),
      ...[1, 2].map(() => events.once(new Worker(TAKER, { argv: [daemon.path, 'thread'] }), 'message')),
    ]);
    const taken = results.flatMap(([ids]) => ids);
    // Each of the two cluster primaries takes IDs too, as does each of their two workers.
    assert.strictEqual(taken.length, 1000 * (2 + 2 * 3 + 2));
    assert.strictEqual(new Set(taken).size, taken.length);
  }));

async function runScript(daemon, script) {
  const source = `const { Client, Pool } = require(${JSON.stringify(LEAFD)});
    const options = { socketPath: ${JSON.stringify(daemon.path)}, timeoutMs: 60000 };
    (async () => { ${script} })();`;
  const { stdout } = await promisify(execFile)(process.execPath, ['-e', source], { timeout: 50_000 });
  return stdout.trim();
}

test('an idle client or pool does not keep a script alive', () =>
  withDaemon(
    (request, peer) => {
      if (request.count === 99) peer.socket.pause();
      else if (request.count !== 5) peer.daemon.give(request, peer);
    },
    { hello: { maxInFlight: 10_000 } },
    async (daemon) => {
      const scripts = {
        'after a call': 'console.log(await new Client(options).next("a"))',
        'after a call of a pool': 'console.log(await Pool.tag("a", options).next())',
        'after a call that was cancelled in flight': `
          const client = new Client(options); await client.next("a"); const abort = new AbortController();
          client.nextMany("a", 5, { signal: abort.signal }).catch(({ code }) => console.log(1, code));
          setTimeout(() => abort.abort(), 20)`,
        'after calls that were cancelled while the daemon did not read': `
          const client = new Client(options); await client.next("a"); const abort = new AbortController();
          const calls = Array.from({ length: 9000 }, () => client.nextMany("t".repeat(128), 99, { signal: abort.signal }));
          setTimeout(() => abort.abort(), 100);
          console.log((await Promise.allSettled(calls)).length)`,
        'while a pool asks in vain': `
          const pool = Pool.tag("a", { ...options, minChunk: 5 }); pool.tryNext(); console.log(1)`,
        'while a pool backs off': `
          const pool = Pool.tag("a", { ...options, socketPath: "/nowhere" }); pool.tryNext();
          setTimeout(() => { pool.tryNext(); console.log(1) }, 50)`,
      };
      for (const [name, script] of Object.entries(scripts)) {
        const began = performance.now();
        assert.match(await runScript(daemon, script), /^\d/, name);
        assert.ok(performance.now() - began < 30_000, name);
      }
    },
  ));

test('a call that waits keeps the script alive until its deadline', () =>
  withDaemon((request, peer) => request.count === 1 && peer.daemon.give(request, peer), {}, async (daemon) => {
    const script = `const client = new Client({ ...options, timeoutMs: 1000 }); await client.next("a");
      await client.nextMany("a", 5).catch(({ kind }) => console.log(kind));
      await new Client({ ...options, socketPath: "/nowhere", timeoutMs: 200 }).next("a")
      .catch(({ kind }) => console.log(kind));
      await Pool.tag("a", { ...options, socketPath: "/nowhere", timeoutMs: 200 }).next()
      .catch(({ kind }) => console.log(kind));`;
    assert.strictEqual(await runScript(daemon, script), 'deadline\nunavailable\nunavailable');
  }));
