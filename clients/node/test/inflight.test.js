'use strict';

const assert = require('node:assert');
const { test } = require('node:test');

const { InFlight } = require('../src/inflight.js');

/** Random numbers that are the same in every run. */
function random(seed) {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

test('requests in flight are found by their IDs, as in a Map', () => {
  // Also where an ID has more than 32 bits.
  for (const start of [2, 2 ** 32 - 1000, 2 ** 53 - 5000]) {
    const pick = random(start % 1000);
    const inFlight = new InFlight();
    const model = new Map();
    const abandoned = new Set();
    let nextId = start;
    for (let round = 0; round < 4000; round += 1) {
      const id = nextId - pick(Math.min(nextId - start + 1, 1200));
      if (pick(2) === 0) {
        const call = { id: nextId, isAbandoned: false };
        nextId += 1;
        inFlight.add(call);
        model.set(call.id, call);
      } else if (pick(3) === 0) {
        const call = model.get(id);
        if (call !== undefined && !call.isAbandoned) {
          inFlight.abandon(call);
          abandoned.add(id);
        }
      } else {
        const call = inFlight.take(id);
        assert.strictEqual(call, model.get(id));
        if (call !== undefined) assert.strictEqual(call.isSent, false);
        model.delete(id);
        abandoned.delete(id);
      }
      assert.deepStrictEqual(
        [inFlight.size, inFlight.abandoned, inFlight.awaited],
        [model.size, abandoned.size, model.size - abandoned.size],
      );
    }
    assert.ok(model.size > 300, 'more than one request in a slot');
    const left = inFlight.takeAll().map(({ id }) => id);
    assert.deepStrictEqual(left.sort((a, b) => a - b), [...model.keys()].filter((id) => !abandoned.has(id)));
    assert.deepStrictEqual([inFlight.size, inFlight.abandoned], [0, 0]);
  }
});

test('an ID that no number can hold is not in flight', () => {
  const inFlight = new InFlight();
  inFlight.add({ id: 2, isAbandoned: false });
  assert.strictEqual(inFlight.take(2n ** 63n + 2n), undefined);
  assert.strictEqual(inFlight.size, 1);
});
