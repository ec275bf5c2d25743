'use strict';

const { Deadline } = require('./clock.js');
const { CancelledError } = require('./errors.js');

/**
 * Everything that waits in one client or pool, until it is settled, its deadline passes or its signal
 * aborts. Many waits may share a signal, which gets one listener only, removed with the last of them.
 */
class Waits {
  #all = new Set();
  #signals = new Map();

  get isEmpty() {
    return this.#all.size === 0;
  }

  /**
   * Begins a wait. `giveUp(wait, makeError)` runs when the deadline passes, with undefined, or when the
   * signal aborts. The signal must not have aborted yet.
   */
  begin(wait, { timeoutMs, signal, keepsAlive = true }, giveUp) {
    wait.deadline = new Deadline(timeoutMs, () => giveUp(wait, undefined), { keepsAlive });
    wait.signal = signal;
    wait.outcome = new Promise((resolve) => {
      wait.resolve = resolve;
    });
    this.#all.add(wait);
    if (signal === undefined) return;
    let entry = this.#signals.get(signal);
    if (entry === undefined) {
      const waits = new Set();
      const listener = () => {
        for (const each of [...waits]) giveUp(each, () => new CancelledError(signal.reason));
      };
      entry = { waits, listener };
      this.#signals.set(signal, entry);
      signal.addEventListener('abort', listener);
    }
    entry.waits.add(wait);
  }

  /** Ends a wait with its outcome. A second outcome changes nothing. */
  settle(wait, outcome) {
    if (!this.#all.delete(wait)) return;
    wait.deadline.cancel();
    const { signal } = wait;
    if (signal !== undefined) {
      const { waits, listener } = this.#signals.get(signal);
      waits.delete(wait);
      if (waits.size === 0) {
        this.#signals.delete(signal);
        signal.removeEventListener('abort', listener);
      }
    }
    wait.resolve(outcome);
  }

  settleAll(outcome) {
    for (const wait of [...this.#all]) this.settle(wait, outcome);
  }
}

module.exports = { Waits };
