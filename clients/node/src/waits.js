'use strict';

const { Deadline, isDue, now } = require('./clock.js');
const { CancelledError } = require('./errors.js');

/** A caller that waits. Its owner may add what it needs to know. */
class Wait {
  /** Position among the waits; -1 before the start and after the end. */
  index = -1;
  /** When its deadline passes. */
  overdueAt = 0;
  resolve = null;

  constructor({ timeoutMs, signal, keepsAlive = true }) {
    this.timeoutMs = timeoutMs;
    this.signal = signal;
    this.keepsAlive = keepsAlive;
  }
}

/**
 * Everything that waits in one client or pool, until it is settled, its deadline passes or its signal
 * aborts. All waits share one timer, because starting and stopping a timer for each call is expensive.
 * Many may share a signal, which gets one listener only, removed with the last of them.
 */
class Waits {
  #giveUp;
  /** In no order, so that each can be removed at once. */
  #all = [];
  #signals = new Map();
  /** Passes with the first deadline or earlier: the end of a wait does not move it. */
  #deadline = null;
  /** How many waits keep the process alive. */
  #keeping = 0;

  /**
   * `giveUp(wait, makeError)` runs when the deadline of a wait passes, with undefined, or when its signal
   * aborts. It has to settle the wait.
   */
  constructor(giveUp) {
    this.#giveUp = giveUp;
  }

  /** Begins a wait, whose signal must not have aborted yet. Resolves to its outcome. */
  begin(wait) {
    const time = now();
    wait.overdueAt = time + wait.timeoutMs;
    wait.index = this.#all.push(wait) - 1;
    if (wait.keepsAlive) {
      this.#keeping += 1;
      if (this.#keeping === 1) this.#deadline?.keepAlive(true);
    }
    this.#wakeBy(wait.overdueAt, time);
    if (wait.signal !== undefined) this.#listen(wait);
    return new Promise((resolve) => {
      wait.resolve = resolve;
    });
  }

  /** Ends a wait with its outcome. A second outcome changes nothing. */
  settle(wait, outcome) {
    if (wait.index < 0) return;
    const last = this.#all.pop();
    if (last !== wait) {
      this.#all[wait.index] = last;
      last.index = wait.index;
    }
    wait.index = -1;
    if (wait.keepsAlive) {
      this.#keeping -= 1;
      if (this.#keeping === 0) this.#deadline?.keepAlive(false);
    }
    if (wait.signal !== undefined) this.#unlisten(wait);
    wait.resolve(outcome);
  }

  settleAll(outcome) {
    for (const wait of [...this.#all]) this.settle(wait, outcome);
    this.#deadline?.cancel();
    this.#deadline = null;
  }

  #listen(wait) {
    const { signal } = wait;
    let entry = this.#signals.get(signal);
    if (entry === undefined) {
      const waits = new Set();
      const listener = () => this.#giveUpAll([...waits], () => new CancelledError(signal.reason));
      entry = { waits, listener };
      this.#signals.set(signal, entry);
      signal.addEventListener('abort', listener);
    }
    entry.waits.add(wait);
  }

  #unlisten(wait) {
    const { signal } = wait;
    const { waits, listener } = this.#signals.get(signal);
    waits.delete(wait);
    if (waits.size > 0) return;
    this.#signals.delete(signal);
    signal.removeEventListener('abort', listener);
  }

  /** Skips waits that have ended meanwhile: giving up one may serve another, whose IDs are then taken. */
  #giveUpAll(waits, makeError) {
    for (const wait of waits) {
      if (wait.index >= 0) this.#giveUp(wait, makeError);
    }
  }

  #wakeBy(at, time) {
    if (this.#deadline !== null) {
      if (this.#deadline.at <= at) return;
      this.#deadline.cancel();
    }
    this.#deadline = new Deadline(at - time, (passed) => this.#expire(passed), { keepsAlive: this.#keeping > 0 });
  }

  /** Everything that had arrived at the time `passed` has been read, so later deadlines do not count yet. */
  #expire(passed) {
    this.#deadline = null;
    const overdue = this.#all.filter((wait) => isDue(wait.overdueAt, passed));
    overdue.sort((one, other) => one.overdueAt - other.overdueAt);
    this.#giveUpAll(overdue, undefined);
    if (this.#all.length === 0) return;
    this.#wakeBy(this.#all.reduce((first, wait) => Math.min(first, wait.overdueAt), Infinity), now());
  }
}

module.exports = { Wait, Waits };
