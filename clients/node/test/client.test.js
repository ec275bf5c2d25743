'use strict';

const assert = require('node:assert');
const { fork } = require('node:child_process');
const events = require('node:events');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { test } = require('node:test');

const leafd = require('../src/index.js');
const { replies, response, sleep, until, withDaemon } = require('./fake.js');

const {
  CancelledError,
  Client,
  ClosedError,
  DeadlineError,
  InvalidError,
  Pool,
  ProtocolError,
  RefusedError,
  UnavailableError,
} = leafd;

/** Answers nothing. */
const silent = () => {};

function client(daemon, use, options = {}) {
  return use(new Client({ socketPath: daemon.path, timeoutMs: 10_000, ...options }));
}

/** Runs a test with a daemon in another process, which answers while this one is blocked. */
async function withAnsweringProcess(test) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'leafd-node-'));
  const socketPath = path.join(folder, 's');
  const child = fork(path.join(__dirname, 'answering.js'), [socketPath]);
  const open = [];
  try {
    await events.once(child, 'message');
    await test(socketPath, (closable) => {
      open.push(closable);
      return closable;
    });
  } finally {
    for (const each of open) await each.close();
    child.kill();
    fs.rmSync(folder, { recursive: true, force: true });
  }
}

/** Lets nothing else run for at least so long, and until the condition holds. */
function block(ms, condition) {
  const began = performance.now();
  while (performance.now() - began < ms || (!condition() && performance.now() - began < 20_000));
}

/** How many requests the daemon in another process has answered. */
function answersOf(socketPath) {
  return fs.statSync(`${socketPath}.answers`, { throwIfNoEntry: false })?.size ?? 0;
}

function refusedWith(number) {
  return (error) => error instanceof RefusedError && error.number === number;
}

test('each call gets what it asks for', () =>
  withDaemon(
    (request, peer) => {
      if (request.type === 'Time') peer.reply(replies.time(1_700_000_000_000n), request.id);
      else peer.daemon.give(request, peer);
    },
    {},
    async (daemon, use) => {
      const leaf = client(daemon, use);
      assert.strictEqual(await leaf.next('orders'), 1n);
      assert.deepStrictEqual((await leaf.nextMany('orders', 3)).toArray(), [2n, 3n, 4n]);
      assert.strictEqual(await leaf.snowflake(), 5n);
      assert.deepStrictEqual((await leaf.snowflakes(2)).runs, [{ first: 6n, count: 2 }]);
      assert.deepStrictEqual(await leaf.time(), new Date(1_700_000_000_000));
      assert.strictEqual(daemon.connections.length, 1);
      const taken = [];
      for await (const id of leaf.iterate('orders', { batch: 2 })) {
        taken.push(id);
        if (taken.length === 3) break;
      }
      assert.deepStrictEqual(taken, [8n, 9n, 10n]);
      assert.deepStrictEqual(daemon.requests.slice(-2).map(({ count }) => count), [2, 2]);
    },
  ));

test('invalid arguments reject, and nothing is sent', () =>
  withDaemon(undefined, {}, async (daemon, use) => {
    const leaf = client(daemon, use);
    for (const call of [
      () => leaf.next(''),
      () => leaf.next('a\n'),
      () => leaf.next(5),
      () => leaf.nextMany('a', 0),
      () => leaf.nextMany('a', 1.5),
      () => leaf.nextMany('a', 5n),
      () => leaf.nextMany('a', 2 ** 32),
      () => leaf.snowflakes(0),
      () => leaf.next('a', { timeout: 5 }),
      () => leaf.next('a', { timeoutMs: 0 }),
      () => leaf.next('a', { signal: {} }),
      () => leaf.iterate('').next(),
      () => leaf.iterate('a', { batch: 0 }).next(),
    ]) {
      await assert.rejects(call, InvalidError, String(call));
    }
    assert.strictEqual(daemon.connections.length, 0);
  }));

test('answers that come byte by byte, together, or out of order reach their callers', () => {
  let held = [];
  return withDaemon(
    async (request, peer) => {
      held.push(request);
      if (held.length < 3) return;
      const frames = held.reverse().map(({ id }) => response(id, replies.ids([id * 100n, 1])));
      held = [];
      if (peer.daemon.requests.length > 3) return peer.send(...frames);
      for (const byte of Buffer.concat(frames)) {
        peer.socket.write(Buffer.from([byte]));
        await sleep(0);
      }
    },
    {},
    async (daemon, use) => {
      const leaf = client(daemon, use);
      for (const first of [2n, 5n]) {
        const ids = await Promise.all([leaf.next('a'), leaf.next('b'), leaf.next('c')]);
        assert.deepStrictEqual(ids, [first * 100n, (first + 1n) * 100n, (first + 2n) * 100n]);
      }
      assert.strictEqual(daemon.connections.length, 1);
    },
  );
});

test('no more requests are in flight than the daemon allows', () => {
  let inFlight = 0;
  let most = 0;
  return withDaemon(
    async (request, peer) => {
      inFlight += 1;
      most = Math.max(most, inFlight);
      await sleep(2);
      inFlight -= 1;
      peer.daemon.give(request, peer);
    },
    { hello: { maxInFlight: 3 } },
    async (daemon, use) => {
      const leaf = client(daemon, use);
      const ids = await Promise.all(Array.from({ length: 50 }, () => leaf.next('a')));
      assert.strictEqual(new Set(ids).size, 50);
      assert.strictEqual(most, 3);
    },
  );
});

test('requests that the socket does not take at once arrive whole', () => {
  const tag = '🍃'.repeat(128);
  let paused;
  return withDaemon(
    (request, peer) => {
      if (paused === undefined) {
        paused = peer.socket;
        paused.pause();
      }
      peer.daemon.give(request, peer);
    },
    { hello: { maxInFlight: 10_000 } },
    async (daemon, use) => {
      const leaf = client(daemon, use, { timeoutMs: 60_000 });
      const calls = [];
      // So few at a time that some more are written while the socket still has the ones before.
      for (let round = 0; round < 200; round += 1) {
        for (let call = 0; call < 10; call += 1) calls.push(leaf.nextMany(tag, calls.length + 1));
        await sleep(0);
      }
      await until(() => paused !== undefined);
      paused.resume();
      const counts = (await Promise.all(calls)).map(({ length }) => length);
      assert.deepStrictEqual(counts, calls.map((_, index) => index + 1));
      assert.deepStrictEqual(daemon.requests.map(({ count }) => count), counts);
      assert.strictEqual(daemon.connections.length, 1);
    },
  );
});

test('a late answer is dropped, and its request ID is not used again', () => {
  let late;
  return withDaemon(
    (request, peer) => {
      if (late === undefined) late = request;
      else if (request.count === 2) peer.daemon.give(request, peer);
      else peer.send(response(late.id, replies.ids([500n, 1])), response(request.id, replies.ids([900n, 1])));
    },
    {},
    async (daemon, use) => {
      const leaf = client(daemon, use);
      const first = leaf.next('a', { timeoutMs: 150 });
      // Another answer shows that the daemon is not stuck, so the connection stays.
      await until(() => late !== undefined);
      await leaf.nextMany('a', 2);
      await assert.rejects(first, DeadlineError);
      assert.strictEqual(await leaf.next('a'), 900n);
      assert.strictEqual(daemon.connections.length, 1);
      assert.strictEqual(new Set(daemon.requests.map(({ id }) => id)).size, 3);
    },
  );
});

test('a daemon that stopped answering is replaced', () =>
  withDaemon(
    (request, peer) => peer.number > 0 && peer.daemon.give(request, peer),
    {},
    async (daemon, use) => {
      const leaf = client(daemon, use);
      await assert.rejects(leaf.next('a', { timeoutMs: 50 }), DeadlineError);
      assert.strictEqual(await leaf.next('a'), 1n);
      assert.strictEqual(daemon.connections.length, 2);
    },
  ));

test('an impatient caller does not cost a patient one its answer', () => {
  let patient;
  return withDaemon(
    (request, peer) => {
      if (request.count === 2) patient = { request, peer };
    },
    {},
    async (daemon, use) => {
      const leaf = client(daemon, use);
      const began = performance.now();
      const call = leaf.nextMany('a', 2);
      await until(() => patient !== undefined);
      for (let round = 0; round < 5; round += 1) {
        await assert.rejects(leaf.next('a', { timeoutMs: 1 }), DeadlineError);
      }
      // After a second of silence the connection is replaced rightly; a slow machine takes that long.
      if (performance.now() - began < 900) assert.strictEqual(daemon.connections.length, 1);
      await until(() => !patient.peer.isClosed);
      daemon.give(patient.request, patient.peer);
      assert.strictEqual((await call).length, 2);
    },
  );
});

test('a daemon that is silent for long is replaced although others wait', () =>
  withDaemon(
    (request, peer) => peer.number > 0 && peer.daemon.give(request, peer),
    {},
    async (daemon, use) => {
      const leaf = client(daemon, use, { timeoutMs: 60_000 });
      const call = leaf.next('a');
      await assert.rejects(leaf.next('a', { timeoutMs: 1100 }), DeadlineError);
      assert.strictEqual(await call, 1n);
      assert.strictEqual(daemon.connections.length, 2);
    },
  ));

test('a call ends at its deadline although bytes trickle in', () =>
  withDaemon(
    async ({ id }, peer) => {
      for (const byte of response(id, replies.error(202, { text: 'x'.repeat(1000) }))) {
        if (peer.isClosed) return;
        peer.socket.write(Buffer.from([byte]));
        await sleep(10);
      }
    },
    {},
    async (daemon, use) => {
      const began = performance.now();
      await assert.rejects(client(daemon, use).next('a', { timeoutMs: 200 }), DeadlineError);
      const tookMs = performance.now() - began;
      assert.ok(tookMs >= 199 && tookMs < 8000, `${tookMs} ms`);
    },
  ));

test('without hello a call ends as unavailable, at its deadline', () =>
  withDaemon(undefined, { hello: null }, async (daemon, use) => {
    await assert.rejects(client(daemon, use).next('a', { timeoutMs: 100 }), UnavailableError);
  }));

test('an answer that lies in the socket wins against a deadline that passed during a synchronous block', () =>
  withAnsweringProcess(async (socketPath, use) => {
    const leaf = use(new Client({ socketPath, timeoutMs: 100 }));
    const pool = use(Pool.tag('a', { socketPath, timeoutMs: 100 }));
    await leaf.next('a', { timeoutMs: 10_000 });
    await pool.next({ timeoutMs: 10_000 });
    for (let round = 0; round < 5; round += 1) {
      const before = answersOf(socketPath);
      const calls = Array.from({ length: 20 }, () => leaf.next('a'));
      const many = pool.nextMany(pool.stats().held + 10);
      // The requests leave now, and then nothing runs until long after the deadline.
      await new Promise((resolve) => process.nextTick(resolve));
      block(250, () => answersOf(socketPath) >= before + calls.length + 1);
      assert.strictEqual((await Promise.all(calls)).length, 20);
      assert.ok((await many).length >= 10);
    }
  }));

test('what breaks the protocol fails the calls in flight, and the next call connects anew', async () => {
  const damage = {
    'an unknown reply': (id) => response(id, replies.unknown()),
    'an answer that nobody asked for': () => response(12345, replies.ids([1n, 1])),
    'an ID above 2^53 that nobody asked for': (id) => response(id + 2n ** 63n, replies.ids([1n, 1])),
    'a reply without a request': () => response(0, replies.time(1n)),
    'another reply': (id) => response(id, replies.time(1n)),
    'too many IDs': (id) => response(id, replies.ids([1n, 2])),
    'an ID above 2^63 - 1': (id) => response(id, replies.ids([2n ** 63n, 1])),
    'a message that is too long': () => Buffer.from('00040001', 'hex'),
    'an empty message': () => Buffer.from('00000000', 'hex'),
    'bytes left over': (id) => response(id, [...replies.ids([1n, 1]), Buffer.alloc(1)]),
  };
  for (const [name, bytes] of Object.entries(damage)) {
    await withDaemon(
      (request, peer) => {
        if (peer.number > 0) peer.daemon.give(request, peer);
        else if (peer.daemon.requests.length === 2) peer.send(bytes(request.id));
      },
      {},
      async (daemon, use) => {
        const leaf = client(daemon, use);
        const began = performance.now();
        const calls = await Promise.allSettled([leaf.next('a'), leaf.next('a')]);
        assert.ok(performance.now() - began < 5000, `${name}: not at once`);
        for (const { reason } of calls) assert.ok(reason instanceof ProtocolError, `${name}: ${reason}`);
        assert.strictEqual(await leaf.next('a'), 1n, name);
        assert.strictEqual(daemon.connections.length, 2, name);
      },
    );
  }
});

test('a version that was not offered is a protocol error', () =>
  withDaemon(undefined, { hello: { version: 2 } }, async (daemon, use) => {
    await assert.rejects(client(daemon, use).next('a'), ProtocolError);
    assert.strictEqual(daemon.connections.length, 1);
  }));

test("the daemon's errors reach their callers, unknown numbers too", () =>
  withDaemon(
    ({ id }, peer) =>
      peer.reply(replies.error([202, 399, 999][peer.daemon.requests.length - 1], { retryAfterMs: 5, detail: 9n }), id),
    {},
    async (daemon, use) => {
      const leaf = client(daemon, use);
      for (const [number, name, temporary] of [[202, 'UnknownTag', false], [399, 'Unknown', true], [999, 'Unknown', false]]) {
        const error = await leaf.next('a').catch((reason) => reason);
        assert.deepStrictEqual(
          [error.number, error.numberName, error.temporary, error.retryAfterMs, error.detail],
          [number, name, temporary, 5, 9n],
        );
        assert.match(error.stack, /client\.test\.js/, 'its stack leads to the caller');
      }
      assert.strictEqual(daemon.requests.length, 3);
    },
  ));

test('an error about the connection says more than the failed write', () =>
  withDaemon(
    undefined,
    {
      onConnect: (peer) => {
        // It never reads, and closes at once.
        peer.reply(replies.error(206, { detail: 1000n }));
        peer.socket.destroySoon();
        return false;
      },
    },
    async (daemon, use) => {
      for (let round = 0; round < 50; round += 1) {
        await assert.rejects(client(daemon, use).next('a'), refusedWith(206));
      }
      assert.strictEqual(daemon.connections.length, 50);
    },
  ));

test('a failed write does not hide the last error of the daemon', () =>
  withAnsweringProcess(async (socketPath, use) => {
    const leaf = use(new Client({ socketPath, timeoutMs: 10_000 }));
    // The daemon will send error 206 and close, while this process is blocked.
    await leaf.nextMany('a', 206);
    block(0, () => fs.existsSync(`${socketPath}.closed`));
    // The request is written before anything is read.
    await assert.rejects(leaf.next('a'), refusedWith(206));
    assert.ok((await leaf.next('a')) > 206n);
  }));

test('a daemon that stops instead of saying hello is tried again', () =>
  withDaemon(
    undefined,
    {
      onConnect: (peer) => {
        if (peer.number > 1) return true;
        peer.send(peer.number === 0 ? response(0, replies.goodbye()) : response(1, replies.error(309)));
        return false;
      },
    },
    async (daemon, use) => {
      const began = performance.now();
      assert.strictEqual(await client(daemon, use).next('a'), 1n);
      assert.ok(performance.now() - began < 5000);
      assert.strictEqual(daemon.connections.length, 3);
    },
  ));

test('an error 3xx about the connection is retried, not before the time it names', () => {
  let refusals = 0;
  return withDaemon(
    undefined,
    {
      onConnect: (peer) => {
        if (refusals === 2) return true;
        refusals += 1;
        peer.reply(replies.error(300, { retryAfterMs: 80 }));
        peer.socket.end();
        return false;
      },
    },
    async (daemon, use) => {
      const began = performance.now();
      assert.strictEqual(await client(daemon, use).next('a'), 1n);
      assert.ok(performance.now() - began >= 155);
      refusals = -1000;
      await assert.rejects(client(daemon, use).next('a', { timeoutMs: 100 }), refusedWith(300));
    },
  );
});

test('an error about the connection fails the calls in flight if it does not pass', () =>
  withDaemon(
    (request, peer) => {
      if (peer.number === 0) peer.reply(replies.error(105));
      else peer.daemon.give(request, peer);
    },
    {},
    async (daemon, use) => {
      const leaf = client(daemon, use);
      await assert.rejects(leaf.next('a'), refusedWith(105));
      assert.strictEqual(await leaf.next('a'), 1n);
    },
  ));

test('after goodbye the answers that still come are used, and the others repeated', () =>
  withDaemon(
    async (request, peer) => {
      if (peer.number > 0) return peer.daemon.give(request, peer);
      if (peer.daemon.requests.length < 3) return undefined;
      const [first, , third] = peer.daemon.requests;
      peer.send(
        response(0, replies.goodbye()),
        response(first.id, replies.ids([100n, 1])),
        response(third.id, replies.error(309)),
      );
      await sleep(20);
      peer.socket.destroy();
      return undefined;
    },
    {},
    async (daemon, use) => {
      const leaf = client(daemon, use);
      const ids = await Promise.all([leaf.next('a'), leaf.next('a'), leaf.next('a')]);
      assert.deepStrictEqual(ids, [100n, 1n, 2n]);
      // The repeated ones in their old order, on one new connection.
      assert.deepStrictEqual(daemon.requests.map(({ id }) => id), [2n, 3n, 4n, 3n, 4n]);
      assert.strictEqual(daemon.connections.length, 2);
    },
  ));

test('an idle connection that the daemon closes fails no call', () =>
  withDaemon(undefined, {}, async (daemon, use) => {
    const leaf = client(daemon, use);
    let last = 0n;
    for (let round = 0; round < 6; round += 1) {
      const id = await leaf.next('a');
      assert.ok(id > last);
      last = id;
      daemon.connections.at(-1).socket.end();
      // In every other round, the call meets the end of the stream.
      if (round % 2 === 0) await sleep(10);
    }
  }));

test('calls wait for a daemon that starts, and fail at their deadline without one', () =>
  withDaemon(undefined, {}, async (daemon, use) => {
    const leaf = client(daemon, use);
    await daemon.stop();
    const error = await leaf.next('a', { timeoutMs: 60 }).catch((reason) => reason);
    assert.ok(error instanceof UnavailableError && error.temporary, String(error));
    assert.strictEqual(error.cause.code, 'ENOENT');
    assert.strictEqual(error.path, daemon.path);
    const call = leaf.next('a');
    await sleep(50);
    await daemon.listen();
    assert.strictEqual(await call, 1n);
  }));

test('a user without permission is told at once', { skip: process.geteuid() === 0 && 'root may do all' }, () =>
  withDaemon(undefined, {}, async (daemon, use) => {
    fs.chmodSync(daemon.path, 0);
    const error = await client(daemon, use).next('a').catch((reason) => reason);
    assert.ok(error instanceof UnavailableError && !error.temporary, String(error));
  }));

test('a call is cancelled by its signal, and leaves no listener behind', () =>
  withDaemon(
    (request, peer) => request.count > 1 && peer.daemon.give(request, peer),
    { hello: { maxInFlight: 2 } },
    async (daemon, use) => {
      const leaf = client(daemon, use);
      const reason = new Error('enough');
      await assert.rejects(
        leaf.next('a', { signal: AbortSignal.abort(reason) }),
        (error) => error instanceof CancelledError && error.name === 'AbortError' && error.cause === reason,
      );
      assert.strictEqual(daemon.connections.length, 0);

      const warnings = [];
      const warn = (warning) => warnings.push(warning);
      process.on('warning', warn);
      const controller = new AbortController();
      const { signal } = controller;
      await Promise.all(Array.from({ length: 100 }, () => leaf.nextMany('a', 2, { signal })));
      assert.strictEqual(events.getEventListeners(signal, 'abort').length, 0);

      // One in flight, the others queued behind the daemon's limit.
      const calls = Array.from({ length: 30 }, () => leaf.next('a', { signal }));
      await until(() => daemon.requests.length >= 102);
      assert.strictEqual(events.getEventListeners(signal, 'abort').length, 1);
      controller.abort();
      for (const { reason: error } of await Promise.allSettled(calls)) {
        assert.ok(error instanceof CancelledError, String(error));
      }
      assert.strictEqual(events.getEventListeners(signal, 'abort').length, 0);
      await sleep(10);
      process.off('warning', warn);
      assert.deepStrictEqual(warnings, []);
      // Both places are taken by abandoned requests, so the connection was replaced.
      await leaf.nextMany('a', 2);
    },
  ));

test('a closed client fails the calls that wait and all later ones', () =>
  withDaemon(silent, {}, async (daemon, use) => {
    const leaf = client(daemon, use);
    const call = leaf.next('a');
    await until(() => daemon.requests.length === 1);
    await leaf.close();
    await leaf.close();
    await assert.rejects(call, ClosedError);
    await assert.rejects(leaf.next('a'), ClosedError);
    await until(() => daemon.connections[0].isClosed);
    assert.strictEqual(daemon.connections.length, 1);
    if (Symbol.asyncDispose !== undefined) assert.strictEqual(typeof leaf[Symbol.asyncDispose], 'function');
  }));
