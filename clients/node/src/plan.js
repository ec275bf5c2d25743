'use strict';

// When a pool leases, and how much. The time is an argument, and the pool does the leasing.

const { RefusedError } = require('./errors.js');
const { jitteredPause } = require('./failure.js');

/** The most IDs that one lease takes. */
const MAX_CHUNK = 1_000_000;

/** How long leases have to fail before that is an outage. A restart of the daemon takes less. */
const OUTAGE_MS = 1000;

/** How much a chunk may grow from one lease to the next. From 100 IDs to a million it takes five. */
const GROWTH = 8;

/** How long a limit that the daemon named counts. Quotas may be raised at a reload. */
const LIMIT_HOLDS_MS = 60_000;

const BAD_COUNT = 200;
const QUOTA_EXCEEDED = 312;

class RefillPlan {
  #rule;
  #backoff;
  #chunk;
  /** The most IDs of one chunk that the daemon gives, and until when to believe that. */
  #limit = { count: Infinity, until: Infinity };
  /** The last lease, and what was used before it. */
  #last = null;
  /** IDs per second between the last two leases. */
  #rate = 0;
  #trouble = null;

  /** `rule` has `min`, `max` and `lastsMs`; `backoff` has `minMs` and `maxMs`. */
  constructor(rule, backoff) {
    this.#rule = rule;
    this.#backoff = backoff;
    this.#chunk = rule.min;
  }

  get chunk() {
    return this.#chunk;
  }

  get rate() {
    return this.#rate;
  }

  /**
   * What to do now: `{ lease: count }`, `{ at: time }`, or null until somebody asks. `held` is what the
   * pool has, `used` what callers have taken since the start, and `asked` says whether a caller has asked
   * since the last attempt.
   */
  due(now, { held, used, asked }) {
    if (held > this.#chunk / 2) return null;
    if (this.#trouble !== null) {
      if (!this.#trouble.passes && !asked) return null;
      if (now < this.#trouble.notBefore) return { at: this.#trouble.notBefore };
    }
    this.#chunk = this.#nextChunk(now, used);
    // Never more than two of the largest chunks.
    const room = Math.max(2 * this.#rule.max - held, this.#rule.min);
    return { lease: Math.min(this.#chunk, room) };
  }

  #nextChunk(now, used) {
    const limit = now < this.#limit.until ? this.#limit.count : Infinity;
    const { min, max, lastsMs } = this.#rule;
    if (this.#last === null) return Math.min(min, limit);
    const elapsedMs = Math.max(now - this.#last.at, 0.001);
    this.#rate = (Math.max(0, used - this.#last.used) * 1000) / elapsedMs;
    const wanted = Math.floor((this.#rate * lastsMs) / 1000);
    const steady = clamp(wanted, Math.floor(this.#chunk / 2), this.#chunk * GROWTH);
    return Math.max(1, Math.min(clamp(steady, min, max), limit));
  }

  /** The daemon has leased something. Returns how long a reported outage was that ends now, or null. */
  leased(now, used) {
    this.#last = { at: now, used };
    const trouble = this.#trouble;
    this.#trouble = null;
    return trouble?.isReported ? now - trouble.since : null;
  }

  /**
   * A request failed. `jitter` is a random number in 0..1. Returns whether to report an outage, and until
   * when there will be no further attempt.
   */
  failed(now, error, jitter) {
    if (error instanceof RefusedError) {
      const detail = Math.max(1, Number(error.detail));
      // Somebody else under this quota shall get something, too.
      if (error.number === QUOTA_EXCEEDED) this.#limitTo(Math.floor(detail / 4), now);
      if (error.number === BAD_COUNT) {
        this.#limitTo(detail, now);
        // A smaller lease works at once.
        if (detail < this.#chunk) return { isNews: false, until: now };
      }
    }
    const { since, attempts, isReported } = this.#trouble ?? { since: now, attempts: 0, isReported: false };
    const pause = jitteredPause(this.#backoff.minMs, this.#backoff.maxMs, attempts, jitter);
    const notBefore = now + Math.max(pause, error.retryAfterMs);
    const passes = error.temporary;
    const isOutage = !passes || now - since >= OUTAGE_MS;
    this.#trouble = {
      since,
      attempts: attempts + 1,
      notBefore,
      passes,
      isReported: isReported || isOutage,
    };
    return { isNews: isOutage && !isReported, until: notBefore };
  }

  #limitTo(count, now) {
    this.#limit = { count: Math.max(1, count), until: now + LIMIT_HOLDS_MS };
  }
}

function clamp(value, min, max) {
  return Math.max(min, Math.min(value, max));
}

module.exports = { MAX_CHUNK, RefillPlan };
