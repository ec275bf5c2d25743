'use strict';

// Time: deadlines that wait for what has arrived already, and a clock that goes on during suspend.

const os = require('node:os');

/** Milliseconds on a clock that nobody sets. It stands still while the machine is suspended. */
function now() {
  return performance.now();
}

/** The longest timeout. Above 2^31 - 1 ms, Node's timers would fire at once. */
const MAX_TIMEOUT_MS = 24 * 60 * 60 * 1000;

/** Timers have the resolution of a millisecond. */
function isDue(at, time) {
  return at - time < 1;
}

/**
 * Calls `action` once `ms` have passed and everything that had arrived by then has been read, with the time
 * at which that was.
 *
 * After a long synchronous block, Node runs timers before it reads sockets. An answer that arrived in
 * time must not lose against its deadline, so the deadline lets one round of reading pass.
 */
class Deadline {
  #action;
  #keepsAlive;
  #timer;
  #immediate;

  constructor(ms, action, { keepsAlive }) {
    this.at = now() + ms;
    this.#action = action;
    this.#keepsAlive = keepsAlive;
    this.#start(ms);
  }

  #start(ms) {
    this.#timer = setTimeout(() => this.#fired(), Math.ceil(ms));
    if (!this.#keepsAlive) this.#timer.unref();
  }

  #fired() {
    const time = now();
    if (isDue(this.at, time)) this.#immediate = setImmediate(this.#action, time);
    else this.#start(this.at - time);
  }

  /** Whether the process shall wait for this deadline. */
  keepAlive(keepsAlive) {
    this.#keepsAlive = keepsAlive;
    if (keepsAlive) this.#timer.ref();
    else this.#timer.unref();
  }

  cancel() {
    clearTimeout(this.#timer);
    clearImmediate(this.#immediate);
  }
}

/** How often the boot clock is read, in milliseconds. Reading it costs some microseconds. */
const BOOT_INTERVAL_MS = 50;

/**
 * Tells how much time has passed, suspended or not.
 *
 * Node has no call for Linux's boot clock except `os.uptime`, which reads a file. So this takes the most
 * that any of three clocks says: the monotonic one, which stands still during suspend; the wall clock,
 * which does not, but which may be set back; and the boot clock, read now and then.
 */
class AgeClock {
  #boot = 0;
  #bootReadAt = -Infinity;

  /** A moment to compare with. Read it before the request, so that no ID is older. */
  moment() {
    this.#readBoot();
    return { monotonic: now(), wall: Date.now(), boot: this.#boot };
  }

  /** The present, for `elapsed`; the boot clock may be behind by its interval. */
  present() {
    if (now() - this.#bootReadAt > BOOT_INTERVAL_MS) this.#readBoot();
    return { monotonic: now(), wall: Date.now(), boot: this.#boot };
  }

  #readBoot() {
    this.#bootReadAt = now();
    try {
      this.#boot = os.uptime() * 1000;
    } catch {
      // A sandbox without this call still has the two other clocks.
    }
  }
}

/** Milliseconds from one moment to another. */
function elapsed(from, to) {
  return Math.max(to.monotonic - from.monotonic, to.wall - from.wall, to.boot - from.boot);
}

module.exports = { AgeClock, Deadline, MAX_TIMEOUT_MS, elapsed, isDue, now };
