'use strict';

// IDs ahead of need: the daemon leases ranges to this process, and callers take from them.
//
// The process has one thread of JavaScript, so taking an ID is never interrupted. Ranges are leased one
// after the other, each only when the one before has been answered: an ID that is taken after another one
// was returned is higher.

const { AgeClock, elapsed, now } = require('./clock.js');
const { CancelledError, ClosedError, InvalidError, RefusedError } = require('./errors.js');
const { Ids, checkRuns } = require('./ids.js');
const { List } = require('./list.js');
const {
  CONNECTION_OPTIONS,
  callOptions,
  checkCount,
  checkNames,
  checkTag,
  connectionOptions,
  duration,
  shown,
} = require('./options.js');
const { MAX_CHUNK, RefillPlan } = require('./plan.js');
const { Session } = require('./session.js');
const { Wait, Waits } = require('./waits.js');

const POOL_OPTIONS = [...CONNECTION_OPTIONS, 'minChunk', 'maxChunk', 'maxAgeMs', 'onEvent'];

const MIN_CHUNK = 100;

/** How long a chunk should last. */
const LASTS_MS = 1000;

/** How old a snowflake ID may be. */
const MAX_AGE_MS = 1000;

/** Below this, a round trip could outdate a whole chunk. */
const SHORTEST_MAX_AGE_MS = 10;

/**
 * A chunk of IDs that age lasts this part of their `maxAgeMs`. It is prefetched at half, so its last ID is
 * taken at three quarters of this part, and the rest of `maxAgeMs` covers a slower rate.
 */
const AGE_PART = 2;

/** Only `Pool.tag` and `Pool.snowflake` know it. */
const FACTORY = Symbol('Pool');

/** A caller that waits for IDs. */
class Taker extends Wait {
  runs = [];

  constructor(count, waiting) {
    super(waiting);
    this.count = count;
    /** How many IDs it lacks. */
    this.wanted = count;
  }
}

class Pool {
  #request;
  #timeoutMs;
  #maxAgeMs;
  #onEvent;
  #session;
  #plan;
  #clock = new AgeClock();

  /** Ranges in the order of issue: `{ first, count, born }`. While callers wait, there are none. */
  #ranges = new List();
  #held = 0;
  /** Below this, a refill may be due. */
  #low = Infinity;
  /** `Taker`s in the order in which they came. */
  #waiting = new List();
  #waits = new Waits((wait, makeError) => this.#giveUp(wait, makeError));

  #isClosed = false;
  #isLeasing = false;
  #asked = false;
  #timer = null;
  /** Why the last attempt to lease failed: `{ makeError, isFinal, until }`. */
  #failure = null;

  #taken = 0;
  /** What waiting callers have of their IDs so far; part of `taken`. */
  #reserved = 0;
  #leased = 0;
  #lost = 0;
  #refills = 0;
  #failures = 0;
  #waitCount = 0;

  static tag(tag, options = {}) {
    return new Pool(FACTORY, { type: 'Segment', tag: checkTag(tag) }, options);
  }

  static snowflake(options = {}) {
    return new Pool(FACTORY, { type: 'Snowflake' }, options);
  }

  constructor(factory, request, options) {
    if (factory !== FACTORY) {
      throw new InvalidError('make a pool by Pool.tag(name) or Pool.snowflake()');
    }
    checkNames(options, POOL_OPTIONS);
    const connection = connectionOptions(options);
    const max = chunkSize('maxChunk', options.maxChunk ?? MAX_CHUNK);
    const min = Math.min(chunkSize('minChunk', options.minChunk ?? MIN_CHUNK), max);
    const ages = options.maxAgeMs !== undefined || request.type === 'Snowflake';
    if (ages) {
      const maxAge = duration('maxAgeMs', options.maxAgeMs ?? MAX_AGE_MS);
      this.#maxAgeMs = Math.max(SHORTEST_MAX_AGE_MS, maxAge);
    }
    if (options.onEvent !== undefined && typeof options.onEvent !== 'function') {
      throw new InvalidError('onEvent must be a function');
    }
    const lastsMs = ages ? Math.min(LASTS_MS, this.#maxAgeMs / AGE_PART) : LASTS_MS;
    this.#request = request;
    this.#timeoutMs = connection.timeoutMs;
    this.#onEvent = options.onEvent;
    this.#session = new Session('pool', connection);
    this.#plan = new RefillPlan(
      { min, max, lastsMs },
      { minMs: connection.backoffMinMs, maxMs: connection.backoffMaxMs },
    );
  }

  tryNext() {
    if (this.#isClosed) throw new ClosedError('pool');
    const range = this.#freshRange();
    let id;
    if (range !== null) {
      id = range.first;
      range.first += 1n;
      this.#tookFrom(range, 1);
    }
    if (this.#held <= this.#low) this.#ask();
    return id;
  }

  async next(options) {
    const waiting = this.#callOptions(options);
    const id = this.tryNext();
    if (id !== undefined) return id;
    const [run] = await this.#wait(1, waiting);
    return run.first;
  }

  async nextMany(count, options) {
    const waiting = this.#callOptions(options);
    checkCount(count);
    if (this.#isClosed) throw new ClosedError('pool');
    const runs = await this.#wait(count, waiting);
    checkRuns(runs, count);
    return new Ids(runs);
  }

  async *[Symbol.asyncIterator]() {
    for (;;) yield await this.next();
  }

  get secondsLeft() {
    return this.#plan.rate > 0 ? this.#held / this.#plan.rate : undefined;
  }

  stats() {
    return {
      issued: this.#taken - this.#reserved,
      leased: this.#leased,
      held: this.#held + this.#reserved,
      lost: this.#lost,
      refills: this.#refills,
      failures: this.#failures,
      waits: this.#waitCount,
      chunk: this.#plan.chunk,
    };
  }

  async close() {
    if (this.#isClosed) return;
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#session.close();
    this.#lost += this.#held + this.#reserved;
    this.#taken -= this.#reserved;
    this.#held = 0;
    this.#reserved = 0;
    this.#ranges.takeAll();
    this.#waiting.takeAll();
    this.#waits.settleAll({ error: () => new ClosedError('pool') });
  }

  #callOptions(options) {
    const checked = callOptions(options, this.#timeoutMs);
    if (checked.signal?.aborted) throw new CancelledError(checked.signal.reason);
    return checked;
  }

  /** The range in front, once the ranges before it that are too old have been dropped. */
  #freshRange() {
    let range = this.#ranges.first;
    if (this.#maxAgeMs === undefined || range === null) return range;
    const present = this.#clock.present();
    while (range !== null && elapsed(range.born, present) > this.#maxAgeMs) {
      this.#ranges.remove(range);
      this.#held -= range.count;
      this.#lost += range.count;
      range = this.#ranges.first;
    }
    return range;
  }

  #tookFrom(range, count) {
    range.count -= count;
    if (range.count === 0) this.#ranges.remove(range);
    this.#held -= count;
    this.#taken += count;
  }

  /** Takes IDs for a caller that waits. Returns whether it has all that it wants. */
  #supply(wait) {
    while (wait.wanted > 0) {
      const range = this.#freshRange();
      if (range === null) return false;
      const count = Math.min(wait.wanted, range.count);
      wait.runs.push({ first: range.first, count, born: range.born });
      range.first += BigInt(count);
      this.#tookFrom(range, count);
      this.#reserved += count;
      wait.wanted -= count;
    }
    return true;
  }

  /** Gets so many IDs, and waits for them if need be. */
  async #wait(count, waiting) {
    const wait = new Taker(count, waiting);
    // While others wait, there is nothing to take: whoever came before gets IDs before.
    const isServed = this.#supply(wait);
    if (this.#held <= this.#low) this.#ask();
    if (isServed) {
      this.#reserved -= count;
      return joined(wait.runs);
    }
    this.#waitCount += 1;
    if (this.#failure?.isFinal && now() < this.#failure.until) {
      this.#giveBack(wait);
      throw this.#failure.makeError();
    }
    const outcome = this.#waits.begin(wait);
    this.#waiting.push(wait);
    const { runs, error } = await outcome;
    if (error !== undefined) throw error();
    return joined(runs);
  }

  #giveUp(wait, makeError) {
    const error = makeError ?? this.#failure?.makeError ?? this.#session.overdue(this.#request.type, wait.timeoutMs);
    this.#waiting.remove(wait);
    this.#giveBack(wait);
    this.#waits.settle(wait, { error });
    this.#serve();
  }

  /** Takes back what a caller has got of its IDs. Nobody got an ID after those, so the order holds. */
  #giveBack(wait) {
    for (const run of wait.runs) {
      this.#ranges.push(run);
      this.#held += run.count;
      this.#taken -= run.count;
      this.#reserved -= run.count;
    }
    wait.runs = [];
  }

  /** Gives to those that wait, in their order. */
  #serve() {
    for (let wait = this.#waiting.first; wait !== null; wait = this.#waiting.first) {
      if (!this.#supply(wait)) return;
      this.#waiting.remove(wait);
      this.#reserved -= wait.count;
      this.#waits.settle(wait, { runs: wait.runs });
    }
  }

  #ask() {
    this.#asked = true;
    this.#look();
  }

  /** Does what the plan says. */
  #look() {
    if (this.#isLeasing || this.#isClosed) return;
    const level = { held: this.#held, used: this.#taken, asked: this.#asked };
    const due = this.#plan.due(now(), level);
    this.#low = this.#plan.chunk / 2;
    if (due?.lease !== undefined) {
      this.#asked = false;
      this.#lease(due.lease);
    } else if (due?.at !== undefined && this.#timer === null) {
      // A caller that waits has a timer of its own, which keeps the process alive.
      this.#timer = setTimeout(() => {
        this.#timer = null;
        this.#look();
      }, Math.ceil(due.at - now())).unref();
    }
  }

  /** Leases a chunk, by as many requests as it takes. What one of them brings counts even if another fails. */
  async #lease(count) {
    this.#isLeasing = true;
    let left = count;
    while (left > 0 && !this.#isClosed) {
      const request = { ...this.#request, count: left };
      // Before the request: no ID of the answer is older.
      const born = this.#clock.moment();
      const { reply, error } = await this.#session.lease(request, this.#timeoutMs);
      if (this.#isClosed) return;
      const makeError = reply?.type === 'Error' ? () => new RefusedError(reply) : error;
      if (makeError !== undefined) {
        this.#failed(makeError);
        break;
      }
      if (left === count) this.#answered();
      this.#publish(reply.runs, born);
      // The session may have lowered the count to what the daemon gives at once.
      left -= request.count;
    }
    if (left === 0) this.#refills += 1;
    this.#isLeasing = false;
    this.#look();
  }

  #answered() {
    const outageMs = this.#plan.leased(now(), this.#taken);
    if (outageMs !== null) this.#tell({ type: 'outageEnded', afterMs: outageMs });
    this.#failure = null;
  }

  #publish(runs, born) {
    for (const { first, count } of runs) {
      this.#ranges.push({ first, count, born });
      this.#held += count;
      this.#leased += count;
    }
    this.#serve();
  }

  #failed(makeError) {
    this.#failures += 1;
    const error = makeError();
    const { isNews, until } = this.#plan.failed(now(), error, Math.random());
    if (isNews) this.#tell({ type: 'outageBegan', error, held: this.#held });
    this.#failure = { makeError, isFinal: !error.temporary, until };
    if (error.temporary || until <= now()) return;
    for (const wait of this.#waiting.takeAll()) {
      this.#giveBack(wait);
      this.#waits.settle(wait, { error: makeError });
    }
  }

  /** Calls the listener on its own, so that what it throws does not stop the pool. */
  #tell(event) {
    if (this.#onEvent !== undefined) process.nextTick(this.#onEvent, event);
  }
}

function chunkSize(name, count) {
  if (!Number.isInteger(count)) {
    throw new InvalidError(`${name} must be an integer from 1 to ${MAX_CHUNK}, not ${shown(count)}`);
  }
  return Math.max(1, Math.min(count, MAX_CHUNK));
}

/** Runs of IDs, where those that follow each other are one. */
function joined(runs) {
  const result = [];
  for (const { first, count } of runs) {
    const last = result.at(-1);
    if (last !== undefined && last.first + BigInt(last.count) === first) last.count += count;
    else result.push({ first, count });
  }
  return result;
}

if (Symbol.asyncDispose !== undefined) {
  Object.defineProperty(Pool.prototype, Symbol.asyncDispose, {
    value: Pool.prototype.close,
    configurable: true,
    writable: true,
  });
}

module.exports = { Pool };
