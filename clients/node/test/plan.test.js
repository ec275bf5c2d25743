'use strict';

// When a pool leases, and how much. The time is a number here.

const assert = require('node:assert');
const { test } = require('node:test');

const { RefusedError } = require('../src/errors.js');
const { MAX_CHUNK, RefillPlan } = require('../src/plan.js');

const RULE = { min: 100, max: MAX_CHUNK, lastsMs: 1000 };
const [BAD_COUNT, FORBIDDEN, STORE_UNAVAILABLE, QUOTA_EXCEEDED] = [200, 206, 302, 312];

/** A pool whose daemon answers at once. */
class Bench {
  now = 0;
  held = 0;
  used = 0;

  constructor(rule = {}) {
    this.plan = new RefillPlan({ ...RULE, ...rule }, { minMs: 5, maxMs: 500 });
  }

  due(asked = true) {
    return this.plan.due(this.now, { held: this.held, used: this.used, asked });
  }

  lease() {
    const { lease } = this.due();
    this.plan.leased(this.now, this.used);
    this.held += lease;
    return lease;
  }

  useUp(count, ms) {
    this.held -= count;
    this.used += count;
    this.now += ms;
  }

  refused(code, { detail = 0n, retryAfterMs = 0 } = {}) {
    const error = new RefusedError({ code, detail, retryAfterMs, text: '' });
    const { isNews, until } = this.plan.failed(this.now, error, 0);
    return [isNews, until - this.now];
  }
}

test('a chunk is due once half of the last one is used', () => {
  const bench = new Bench();
  assert.strictEqual(bench.lease(), 100);
  bench.useUp(49, 1000);
  assert.strictEqual(bench.due(), null);
  bench.useUp(1, 1000);
  assert.ok(bench.due().lease > 0);
});

test('a chunk lasts about a second at the rate of the last one', () => {
  const bench = new Bench();
  bench.lease();
  const sizes = [];
  for (let round = 0; round < 8; round += 1) {
    const used = bench.held - bench.plan.chunk / 2;
    bench.useUp(used, used / 10);
    sizes.push(bench.lease());
  }
  assert.deepStrictEqual(sizes.slice(0, 2), [800, 6400]);
  assert.ok(sizes.slice(3).every((size) => Math.abs(size - 10_000) <= 1), String(sizes));
});

test('the fastest user gets the largest chunk after five leases, and a slow one the smallest again', () => {
  const bench = new Bench();
  const sizes = [];
  for (let round = 0; round < 6; round += 1) {
    sizes.push(bench.lease());
    bench.useUp(bench.held, 1);
  }
  assert.deepStrictEqual(sizes, [100, 800, 6_400, 51_200, 409_600, MAX_CHUNK]);
  for (let round = 0; round < 16; round += 1) {
    bench.lease();
    bench.useUp(bench.held, 3_600_000);
  }
  assert.strictEqual(bench.lease(), 100);
});

test('a quota below the chunk is learned at once and forgotten after a minute', () => {
  const bench = new Bench({ min: 250_000 });
  assert.deepStrictEqual(bench.due(), { lease: 250_000 });
  assert.deepStrictEqual(bench.refused(BAD_COUNT, { detail: 5_000n }), [false, 0]);
  assert.deepStrictEqual(bench.due(), { lease: 5_000 });
  bench.now += 60_000;
  assert.deepStrictEqual(bench.due(), { lease: 250_000 });
});

test('a limit that is no lower is trouble, and not tried at once again', () => {
  for (const detail of [100_000n, 100n]) {
    const bench = new Bench();
    bench.due();
    const [isNews, pause] = bench.refused(BAD_COUNT, { detail });
    assert.ok(isNews && pause > 0);
  }
  const bench = new Bench();
  bench.due();
  assert.deepStrictEqual(bench.refused(BAD_COUNT), [false, 0]);
  assert.deepStrictEqual(bench.due(), { lease: 1 });
  assert.deepStrictEqual(bench.refused(BAD_COUNT), [true, 5], 'a limit of 0 does not loop');
});

test("a quota makes chunks a quarter of it, and the daemon's pause is kept", () => {
  const bench = new Bench({ min: 1000 });
  bench.due();
  assert.deepStrictEqual(bench.refused(QUOTA_EXCEEDED, { detail: 2000n, retryAfterMs: 700 }), [false, 700]);
  assert.deepStrictEqual(bench.due(), { at: 700 });
  bench.now += 700;
  assert.deepStrictEqual(bench.due(), { lease: 500 });
});

test('pauses between failures double, and an outage is reported once after a second', () => {
  const bench = new Bench();
  for (const [number, pause] of [5, 10, 20, 40, 80, 160, 320, 500, 500, 500].entries()) {
    assert.ok(bench.due(false).lease > 0);
    assert.deepStrictEqual(bench.refused(STORE_UNAVAILABLE), [number === 8, pause]);
    assert.deepStrictEqual(bench.due(), { at: bench.now + pause });
    bench.now += pause;
  }
  assert.strictEqual(bench.plan.leased(bench.now, 0), bench.now);
  assert.strictEqual(bench.plan.leased(bench.now, 0), null);
  bench.refused(STORE_UNAVAILABLE);
  bench.now += 900;
  assert.strictEqual(bench.plan.leased(bench.now, 0), null, 'a short one is nobody’s business');
});

test('an error that does not pass is reported at once, and tried again only when somebody asks', () => {
  const bench = new Bench();
  bench.due();
  assert.strictEqual(bench.refused(FORBIDDEN)[0], true);
  assert.strictEqual(bench.refused(FORBIDDEN)[0], false);
  bench.now += 1000;
  assert.strictEqual(bench.due(false), null);
  assert.ok(bench.due(true).lease > 0);
});

test('never more than two of the largest chunks are held', () => {
  const random = (below) => Math.floor(Math.random() * below);
  for (let run = 0; run < 200; run += 1) {
    const max = 1 + random(MAX_CHUNK);
    const bench = new Bench({ min: Math.min(1 + random(2000), max), max });
    for (let step = 0; step < 100; step += 1) {
      const kind = random(4);
      const due = kind === 0 ? bench.due() : null;
      if (due?.lease !== undefined) {
        assert.ok(due.lease >= 1 && due.lease <= max && bench.held + due.lease <= 2 * max);
        bench.plan.leased(bench.now, bench.used);
        bench.held += due.lease;
      } else if (kind === 1) {
        const code = [BAD_COUNT, QUOTA_EXCEEDED, FORBIDDEN][random(3)];
        bench.refused(code, { detail: BigInt(random(MAX_CHUNK)) });
      } else {
        bench.useUp(random(bench.held + 1), random(5000));
      }
    }
  }
});
