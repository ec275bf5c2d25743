'use strict';

// The IDs of one call, checked when they arrive.

const { ProtocolError } = require('./errors.js');

/** The highest ID: IDs fit a signed 64-bit integer. */
const MAX_ID = 2n ** 63n - 1n;

/** IDs as runs without gaps, in the order of issue. */
class Ids {
  #runs;

  constructor(runs) {
    this.#runs = runs;
  }

  get runs() {
    return this.#runs.map(({ first, count }) => ({ first, count }));
  }

  get length() {
    return this.#runs.reduce((sum, run) => sum + run.count, 0);
  }

  get first() {
    return this.#runs[0].first;
  }

  toArray() {
    return [...this];
  }

  *[Symbol.iterator]() {
    for (const { first, count } of this.#runs) {
      const end = first + BigInt(count);
      for (let id = first; id < end; id += 1n) yield id;
    }
  }
}

/** Checks the runs of an answer to a request for `asked` IDs: that many, each once, none too high. */
function checkRuns(runs, asked) {
  let total = 0;
  for (const { first, count } of runs) {
    if (count === 0) {
      throw new ProtocolError(`it sent an empty run of IDs at ${first}`);
    }
    if (first + BigInt(count) - 1n > MAX_ID) {
      throw new ProtocolError(`it sent ${count} IDs from ${first}, which pass the highest ID ${MAX_ID}`);
    }
    total += count;
  }
  if (total !== asked) {
    throw new ProtocolError(`it sent ${total} IDs instead of ${asked}`);
  }
  if (runs.length > 1) checkDistinct(runs);
}

function checkDistinct(runs) {
  const sorted = [...runs].sort((a, b) => (a.first < b.first ? -1 : a.first > b.first ? 1 : 0));
  for (let index = 1; index < sorted.length; index += 1) {
    const below = sorted[index - 1];
    if (below.first + BigInt(below.count) > sorted[index].first) {
      throw new ProtocolError(`it sent ID ${sorted[index].first} twice in one answer`);
    }
  }
}

module.exports = { Ids, MAX_ID, checkRuns };
