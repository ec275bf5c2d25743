'use strict';

// Why an attempt to connect failed or a connection ended, and when to try again.

const { MAX_TIMEOUT_MS } = require('./clock.js');
const { RefusedError, UnavailableError, isDenied, isTemporaryNumber } = require('./errors.js');

class Failure {
  /**
   * @param isFatal whether another attempt would fail in the same way: callers get the error at once
   * @param error makes the error for one caller
   */
  constructor(isFatal, error, retryAfterMs = 0) {
    this.isFatal = isFatal;
    this.error = error;
    this.retryAfterMs = retryAfterMs;
  }

  /** The socket failed. */
  static io(path, error) {
    return new Failure(isDenied(error), () => new UnavailableError(path, error));
  }

  /** The connection ended without an error of the operating system. */
  static ended(path, message) {
    return Failure.io(path, new Error(message));
  }

  /** The daemon refused the connection as a whole. */
  static refused(reply) {
    const isFatal = !isTemporaryNumber(reply.code);
    return new Failure(isFatal, () => new RefusedError(reply), reply.retryAfterMs);
  }

  /** The peer broke the protocol. */
  static protocol(error) {
    return new Failure(true, () => error.again());
  }
}

/**
 * The pauses between attempts to connect. The first attempt after a working connection is immediate. Then
 * the pauses double, with jitter, so that the clients of a restarted daemon do not all arrive at once.
 */
class Backoff {
  #minMs;
  #maxMs;
  #fruitless = 0;
  #answered = false;
  #notBefore = -Infinity;

  constructor(minMs, maxMs) {
    this.#minMs = minMs;
    this.#maxMs = maxMs;
  }

  /**
   * A call was answered on the present connection. A completed handshake is not enough: a daemon that
   * says hello and then fails would be called in a tight loop.
   */
  answered() {
    this.#answered = true;
  }

  /** An attempt failed or the connection ended. `jitter` is a random number in 0..1. */
  lost(now, retryAfterMs, jitter) {
    let pause = 0;
    if (this.#answered) {
      this.#fruitless = 0;
      this.#answered = false;
    } else {
      pause = jitteredPause(this.#minMs, this.#maxMs, this.#fruitless, jitter);
      this.#fruitless += 1;
    }
    this.#notBefore = now + Math.min(Math.max(pause, retryAfterMs), MAX_TIMEOUT_MS);
  }

  /** Milliseconds to wait from `now` before the next attempt. */
  pause(now) {
    return Math.max(0, this.#notBefore - now);
  }
}

/** The pause after so many earlier attempts, shortened by up to half. */
function jitteredPause(minMs, maxMs, attempts, jitter) {
  const pause = Math.min(maxMs, minMs * 2 ** Math.min(attempts, 20));
  return pause * (1 - jitter / 2);
}

module.exports = { Backoff, Failure, jitteredPause };
