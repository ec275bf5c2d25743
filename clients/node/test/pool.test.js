'use strict';

const assert = require('node:assert');
const events = require('node:events');
const { test } = require('node:test');

const { CancelledError, ClosedError, DeadlineError, InvalidError, Pool, RefusedError, UnavailableError } = require('../src/index.js');
const { replies, sleep, until, withDaemon } = require('./fake.js');

const silent = () => {};

function ordersPool(daemon, use, options = {}) {
  return use(Pool.tag('orders', { socketPath: daemon.path, timeoutMs: 10_000, ...options }));
}

function checkBooks(pool) {
  const { leased, issued, held, lost } = pool.stats();
  assert.strictEqual(leased, issued + held + lost);
}

test('a pool gives every ID once, in rising order, whoever takes them', () =>
  withDaemon(undefined, {}, async (daemon, use) => {
    const pool = ordersPool(daemon, use);
    const taken = [];
    // What resolves first was taken first.
    const take = async () => {
      for (let round = 0; round < 300; round += 1) {
        if (round % 7 === 0) taken.push(...(await pool.nextMany(1 + (round % 30))));
        else taken.push(await pool.next());
        const id = round % 5 === 0 ? pool.tryNext() : undefined;
        if (id !== undefined) taken.push(id);
      }
    };
    await Promise.all([take(), take(), take()]);
    assert.strictEqual(new Set(taken).size, taken.length);
    assert.ok(taken.length > 900);
    checkBooks(pool);
    assert.strictEqual(daemon.connections.length, 1);
    const alone = [];
    for await (const id of pool) {
      alone.push(id);
      if (alone.length === 2000) break;
    }
    assert.ok(alone.every((id, index) => index === 0 || id > alone[index - 1]));
  }));

test('nothing is leased before the first use, then min-chunk, and again at half', () =>
  withDaemon(undefined, {}, async (daemon, use) => {
    const pool = ordersPool(daemon, use, { minChunk: 10, maxChunk: 10 });
    await sleep(20);
    assert.strictEqual(daemon.connections.length, 0);
    assert.strictEqual(pool.tryNext(), undefined);
    assert.strictEqual(await pool.next(), 1n);
    for (let id = 2n; id <= 4n; id += 1n) assert.strictEqual(pool.tryNext(), id);
    await sleep(20);
    assert.strictEqual(daemon.requests.length, 1);
    assert.strictEqual(pool.tryNext(), 5n);
    await until(() => pool.stats().held === 15);
    assert.deepStrictEqual(daemon.requests.map(({ count }) => count), [10, 10]);
    assert.ok(pool.secondsLeft > 0);
    checkBooks(pool);
  }));

test('a large chunk takes several requests, one after the other and within the limit', () => {
  let inFlight = 0;
  return withDaemon(
    async (request, peer) => {
      inFlight += 1;
      assert.strictEqual(inFlight, 1);
      await sleep(1);
      inFlight -= 1;
      peer.daemon.give(request, peer);
    },
    { hello: { maxCount: 300 } },
    async (daemon, use) => {
      const pool = ordersPool(daemon, use, { minChunk: 1000, maxChunk: 1000 });
      assert.deepStrictEqual((await pool.nextMany(1000)).runs, [{ first: 1n, count: 1000 }]);
      assert.deepStrictEqual(daemon.requests.slice(0, 4).map(({ count }) => count), [300, 300, 300, 100]);
    },
  );
});

test('what a lease that broke off has brought is issued, and the rest asked for again', () =>
  withDaemon(
    (request, peer) => {
      if (peer.daemon.requests.length === 2) peer.socket.destroy();
      else peer.daemon.give(request, peer);
    },
    { hello: { maxCount: 100 } },
    async (daemon, use) => {
      const pool = ordersPool(daemon, use, { minChunk: 200, maxChunk: 200 });
      assert.deepStrictEqual((await pool.nextMany(200)).runs, [{ first: 1n, count: 200 }]);
      assert.strictEqual(daemon.connections.length, 2);
      assert.strictEqual(pool.stats().failures, 0);
    },
  ));

test('in an outage the pool gives what it holds, then the error of the last attempt, and recovers', () =>
  withDaemon(undefined, {}, async (daemon, use) => {
    const told = [];
    const pool = ordersPool(daemon, use, { maxChunk: 100, onEvent: (event) => told.push(event), backoffMaxMs: 50 });
    await pool.next();
    await daemon.stop();
    for (let id = 2n; id <= 100n; id += 1n) assert.strictEqual(await pool.next(), id);
    const began = performance.now();
    await assert.rejects(pool.next({ timeoutMs: 100 }), UnavailableError);
    assert.ok(performance.now() - began >= 99);
    assert.ok(pool.stats().failures < 30, String(pool.stats().failures));
    await until(() => pool.stats().failures >= 2);
    await until(() => told.length === 1);
    assert.strictEqual(told[0].type, 'outageBegan');
    const waiting = Promise.all([pool.next(), pool.nextMany(5), pool.next()]);
    await daemon.listen();
    const [one, some, other] = await waiting;
    assert.deepStrictEqual([one, ...some, other], [101n, 102n, 103n, 104n, 105n, 106n, 107n]);
    await until(() => told.length === 2);
    assert.ok(told[1].type === 'outageEnded' && told[1].afterMs >= 1000);
    checkBooks(pool);
  }));

test('without an answer a call of a pool ends at its deadline', () =>
  withDaemon(silent, {}, async (daemon, use) => {
    // Long enough to connect on a busy machine.
    const pool = ordersPool(daemon, use, { timeoutMs: 1500 });
    await assert.rejects(pool.next({ timeoutMs: 1000 }), DeadlineError);
    await assert.rejects(pool.next(), DeadlineError);
  }));

test('an error that does not pass is given at once, to calls that find nothing', () =>
  withDaemon(
    (request, peer) => {
      if (peer.daemon.requests.length === 1) peer.daemon.give(request, peer);
      else peer.reply(replies.error(206), request.id);
    },
    {},
    async (daemon, use) => {
      const pool = ordersPool(daemon, use, { minChunk: 10, maxChunk: 10 });
      for (let id = 1n; id <= 10n; id += 1n) assert.strictEqual(await pool.next(), id);
      const began = performance.now();
      for (let round = 0; round < 3; round += 1) {
        await assert.rejects(pool.next(), (error) => error instanceof RefusedError && error.number === 206);
      }
      assert.ok(performance.now() - began < 2000);
    },
  ));

/** Answers the first request only. */
function oneAnswer() {
  let answers = 1;
  return (request, peer) => {
    if (answers > 0) peer.daemon.give(request, peer);
    answers -= 1;
  };
}

test('what nextMany had got before it failed goes to the next caller', () => {
  return withDaemon(
    oneAnswer(),
    {},
    async (daemon, use) => {
      const pool = ordersPool(daemon, use, { minChunk: 10, maxChunk: 10 });
      const controller = new AbortController();
      const many = pool.nextMany(50, { signal: controller.signal });
      const behind = pool.next();
      await until(() => daemon.requests.length === 2);
      assert.strictEqual(pool.stats().held, 10);
      assert.strictEqual(pool.tryNext(), undefined, 'those who came before are served first');
      controller.abort();
      await assert.rejects(many, CancelledError);
      assert.strictEqual(await behind, 1n);
      assert.strictEqual(await pool.next(), 2n);
      assert.deepStrictEqual([...(await pool.nextMany(3))], [3n, 4n, 5n]);
      assert.strictEqual(events.getEventListeners(controller.signal, 'abort').length, 0);
      checkBooks(pool);
    },
  );
});

test('one signal that ends several callers gives no ID twice', () => {
  return withDaemon(
    oneAnswer(),
    {},
    async (daemon, use) => {
      const pool = ordersPool(daemon, use, { minChunk: 10, maxChunk: 10 });
      const controller = new AbortController();
      const { signal } = controller;
      const many = pool.nextMany(50, { signal });
      const behind = pool.next({ signal });
      await until(() => daemon.requests.length === 2);
      controller.abort();
      await assert.rejects(many, CancelledError);
      // What the first caller gave back served the second one, so it is not cancelled any more.
      assert.strictEqual(await behind, 1n);
      assert.strictEqual(pool.stats().held, 9);
      for (let id = 2n; id <= 10n; id += 1n) assert.strictEqual(pool.tryNext(), id);
      assert.strictEqual(pool.tryNext(), undefined);
      checkBooks(pool);
    },
  );
});

test('snowflake IDs that are too old are dropped, and those of a tag are kept', () =>
  withDaemon(undefined, {}, async (daemon, use) => {
    const flakes = use(Pool.snowflake({ socketPath: daemon.path, maxAgeMs: 500 }));
    const first = await flakes.next();
    await sleep(550);
    assert.strictEqual(flakes.tryNext(), undefined);
    assert.ok((await flakes.next()) > first + 90n);
    assert.strictEqual(flakes.stats().lost, 99);
    await sleep(550);
    assert.strictEqual((await flakes.nextMany(5)).length, 5);
    checkBooks(flakes);

    const orders = ordersPool(daemon, use);
    const id = await orders.next();
    await sleep(550);
    assert.strictEqual(orders.tryNext(), id + 1n);
  }));

test('invalid arguments are refused, and a closed pool gives nothing', () =>
  withDaemon(silent, {}, async (daemon, use) => {
    assert.throws(() => Pool.tag('', {}), InvalidError);
    assert.throws(() => Pool.tag('a\n'), InvalidError);
    const pool = ordersPool(daemon, use);
    await assert.rejects(pool.nextMany(0), InvalidError);
    await assert.rejects(pool.next({ signal: AbortSignal.abort() }), CancelledError);
    assert.strictEqual(daemon.connections.length, 0);
    const waiting = [pool.next(), pool.nextMany(5)];
    await until(() => daemon.requests.length === 1);
    await pool.close();
    for (const { reason } of await Promise.allSettled(waiting)) assert.ok(reason instanceof ClosedError);
    assert.throws(() => pool.tryNext(), ClosedError);
    await assert.rejects(pool.next(), ClosedError);
    await assert.rejects(pool.nextMany(5), ClosedError);
    await until(() => daemon.connections[0].isClosed);
    checkBooks(pool);
  }));
