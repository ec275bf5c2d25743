'use strict';

const assert = require('node:assert');
const { test } = require('node:test');

const { CancelledError } = require('../src/errors.js');
const { Wait, Waits } = require('../src/waits.js');
const { sleep } = require('./fake.js');

/** Waits whose end is noted, in order, by name. */
function noted(onGiveUp = () => {}) {
  const ends = [];
  const waits = new Waits((wait, makeError) => {
    waits.settle(wait, { error: makeError ?? 'overdue' });
    onGiveUp(wait, waits);
  });
  const begin = (name, waiting) => {
    const wait = new Wait({ timeoutMs: 60_000, ...waiting });
    const began = performance.now();
    wait.ended = waits.begin(wait).then((outcome) => {
      ends.push(name);
      return { ...outcome, afterMs: performance.now() - began };
    });
    return wait;
  };
  return { waits, begin, ends };
}

test('each wait ends at its own deadline, although all share one timer', async () => {
  const { begin, ends } = noted();
  const all = [
    begin('third', { timeoutMs: 120 }),
    begin('first', { timeoutMs: 40 }),
    begin('second', { timeoutMs: 80 }),
    begin('with the third', { timeoutMs: 120 }),
  ];
  for (const wait of all) {
    const { error, afterMs } = await wait.ended;
    assert.strictEqual(error, 'overdue');
    assert.ok(afterMs >= wait.timeoutMs - 1, `${afterMs} ms instead of ${wait.timeoutMs}`);
  }
  assert.deepStrictEqual(ends.slice(0, 2), ['first', 'second']);
});

test('a wait that ended early moves no other deadline', async () => {
  const { waits, begin } = noted();
  const short = begin('short', { timeoutMs: 30 });
  const long = begin('long', { timeoutMs: 100 });
  waits.settle(short, { reply: 1 });
  assert.strictEqual((await short.ended).reply, 1);
  // The timer of the one that is over passes meanwhile.
  await sleep(50);
  const later = begin('later', { timeoutMs: 10 });
  assert.strictEqual((await later.ended).error, 'overdue');
  const { error, afterMs } = await long.ended;
  assert.strictEqual(error, 'overdue');
  assert.ok(afterMs >= 99, `${afterMs} ms`);
});

test('a wait ends once, and the others stay', async () => {
  const { waits, begin } = noted();
  const all = Array.from({ length: 5 }, (_, index) => begin(index));
  waits.settle(all[1], { reply: 'first' });
  waits.settle(all[1], { reply: 'second' });
  waits.settle(all[4], { reply: 'last' });
  waits.settleAll({ error: 'closed' });
  const outcomes = await Promise.all(all.map(({ ended }) => ended));
  assert.deepStrictEqual(outcomes.map(({ reply, error }) => reply ?? error), ['closed', 'first', 'closed', 'closed', 'last']);
});

test('a wait that is served because another one was given up is not given up, too', async () => {
  let given = 0;
  let second;
  const { begin } = noted((wait, waits) => {
    given += 1;
    waits.settle(second, { reply: 'served' });
  });
  const controller = new AbortController();
  const first = begin('first', { signal: controller.signal });
  second = begin('second', { signal: controller.signal });
  const other = begin('other', { signal: new AbortController().signal, timeoutMs: 20 });
  controller.abort();
  assert.ok((await first.ended).error() instanceof CancelledError);
  assert.strictEqual((await second.ended).reply, 'served');
  assert.strictEqual(given, 1);
  assert.strictEqual((await other.ended).error, 'overdue', 'another signal is another matter');
});

test('what arrived before the deadline was noticed is read before anybody is given up', async () => {
  const { waits, begin } = noted();
  const answered = begin('answered', { timeoutMs: 20 });
  const silent = begin('silent', { timeoutMs: 20 });
  // Both deadlines pass while nothing runs. The timers come first, then what stands for the socket.
  setTimeout(() => setImmediate(() => waits.settle(answered, { reply: 'in time' })), 1);
  const until = performance.now() + 60;
  while (performance.now() < until);
  assert.strictEqual((await answered.ended).reply, 'in time');
  assert.strictEqual((await silent.ended).error, 'overdue');
});
