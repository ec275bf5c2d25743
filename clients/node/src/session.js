'use strict';

// The calls of a client: which are queued, which are in flight, and which were given up in flight. They
// share one connection, which is opened when a call needs it, and replaced when it is lost.

const { now } = require('./clock.js');
const { Connection, FIRST_CALL_ID } = require('./connection.js');
const { ClosedError, DeadlineError, ProtocolError } = require('./errors.js');
const { Backoff, Failure } = require('./failure.js');
const { checkRuns } = require('./ids.js');
const { InFlight } = require('./inflight.js');
const { List } = require('./list.js');
const { Wait, Waits } = require('./waits.js');

/**
 * How long a daemon has to say nothing before calls that still wait lose their connection to it. A caller
 * with a short timeout must not cost patient callers the answers that they are waiting for.
 */
const SILENCE_MS = 1000;

/** The kind of a call that is not for a pool. */
const PLAIN = { isLease: false, isOnUsedConnection: false };

const REPLY_TO = { Segment: 'Ids', Snowflake: 'Ids', Time: 'Time', Status: 'Status' };

/** The latest time of a `Date`, in milliseconds since 1970. */
const MAX_DATE_MS = 8_640_000_000_000_000n;

/** A call from its start to its outcome, over as many connections as it takes. */
class Call extends Wait {
  /** What the session had heard when the call was last sent. */
  heardBefore = 0;
  /** Whether the call is in flight. */
  isSent = false;
  isAbandoned = false;
  nextInSlot = null;

  /** `isOnUsedConnection`: for a lease, whether it may be repeated on another connection. */
  constructor(id, request, waiting, { isLease, isOnUsedConnection }) {
    super(waiting);
    this.id = id;
    this.request = request;
    this.isLease = isLease;
    this.isOnUsedConnection = isOnUsedConnection;
  }
}

class Session {
  #name;
  #options;
  #backoff;
  #queue = new List();
  #inFlight = new InFlight();
  /** Calls that a stopping daemon turned away. They go to the next connection. */
  #turnedAway = [];
  #waits = new Waits((call, makeError) => this.#giveUp(call, makeError));
  #connection = null;
  #limits = null;
  /** Why the last connection ended or could not be made; null while one is open. */
  #failure = null;
  #nextId = FIRST_CALL_ID;
  /** Messages that have arrived on this connection. */
  #heard = 0;
  /** When the daemon last said something, or first owed an answer after that. */
  #quietSince = 0;
  #retryTimer = null;
  #flushIsDue = false;
  #isClosed = false;

  /** `name` is what the user has: a client or a pool. */
  constructor(name, options) {
    this.#name = name;
    this.#options = options;
    this.#backoff = new Backoff(options.backoffMinMs, options.backoffMaxMs);
  }

  /**
   * Makes a call that is repeated until its deadline. Resolves to `{ reply }`, or to `{ error }` with a
   * function that makes the error, so that its stack is the caller's.
   */
  call(request, waiting) {
    return this.#submit(request, waiting, PLAIN);
  }

  /**
   * Makes a call for a pool. It asks for no more IDs than the daemon gives in one request. It does not
   * wait for a daemon that cannot be reached: one new connection is tried, at once. It does not keep the
   * process alive.
   */
  lease(request, timeoutMs) {
    const isOnUsedConnection = this.#connection?.isOpen ?? false;
    return this.#submit(request, { timeoutMs, keepsAlive: false }, { isLease: true, isOnUsedConnection });
  }

  /** What to tell a caller whose deadline passes now: a function that makes the error. */
  overdue(type, timeoutMs) {
    if (this.#connection?.isOpen) return () => new DeadlineError(type, timeoutMs);
    const failure = this.#failure ?? Failure.ended(this.#options.socketPath, 'it did not say hello in time');
    return failure.error;
  }

  /** Fails all calls and ends the connection. */
  close() {
    if (this.#isClosed) return;
    this.#isClosed = true;
    clearTimeout(this.#retryTimer);
    this.#connection?.destroy();
    this.#connection = null;
    this.#queue.takeAll();
    this.#inFlight.takeAll();
    this.#waits.settleAll({ error: () => new ClosedError(this.#name) });
  }

  #submit(request, waiting, kind) {
    if (this.#isClosed) return Promise.resolve({ error: () => new ClosedError(this.#name) });
    const call = new Call(this.#nextId, request, waiting, kind);
    this.#nextId += 1;
    const outcome = this.#waits.begin(call);
    this.#queue.push(call);
    this.#go();
    return outcome;
  }

  /** Does what the queued calls need next. */
  #go() {
    if (this.#queue.isEmpty || this.#isClosed) return;
    if (this.#connection === null) this.#connect();
    else this.#flushSoon();
  }

  #connect() {
    if (this.#retryTimer !== null) return;
    const pause = this.#queue.first.isLease ? 0 : this.#backoff.pause(now());
    if (pause > 0) {
      this.#retryTimer = setTimeout(() => {
        this.#retryTimer = null;
        this.#go();
      }, Math.ceil(pause)).unref();
      return;
    }
    this.#heard = 0;
    this.#connection = new Connection(this.#options.socketPath, this.#options.timeoutMs, {
      opened: (limits) => this.#opened(limits),
      answered: (id, reply) => this.#answered(id, reply),
      turnedAway: (id) => this.#turnAway(id),
      ready: () => this.#ready(),
      lost: (failure) => this.#lost(failure),
    });
  }

  #opened(limits) {
    this.#limits = limits;
    this.#failure = null;
  }

  /** One write carries the requests of all callers that call now. */
  #flushSoon() {
    if (this.#flushIsDue) return;
    this.#flushIsDue = true;
    process.nextTick(this.#flush);
  }

  #flush = () => {
    this.#flushIsDue = false;
    while (this.#canSend() && this.#connection.takesRequests) {
      const time = now();
      if (this.#inFlight.size === 0) this.#quietSince = time;
      const { requests } = this.#connection;
      while (this.#canSend() && !requests.isFull) this.#send(this.#queue.shift(), requests, time);
      this.#connection.flush();
    }
  };

  #canSend() {
    return this.#limits !== null && !this.#queue.isEmpty && this.#inFlight.size < this.#limits.maxInFlight;
  }

  #send(call, requests, time) {
    const { request, isLease } = call;
    if (isLease) request.count = Math.min(request.count, this.#limits.maxCount);
    call.heardBefore = this.#heard;
    requests.add(call.id, request, daemonTimeout(call.overdueAt - time));
    this.#inFlight.add(call);
  }

  #hear() {
    this.#heard += 1;
    this.#quietSince = now();
  }

  #answered(id, reply) {
    this.#hear();
    const call = this.#take(id);
    if (call === null) return;
    if (reply.type !== 'Error') {
      try {
        checkReply(call.request, reply);
      } catch (error) {
        this.#inFlight.add(call);
        this.#connection.violated(error);
        return;
      }
    }
    this.#backoff.answered();
    this.#waits.settle(call, { reply });
  }

  #turnAway(id) {
    this.#hear();
    const call = this.#take(id);
    if (call !== null) this.#turnedAway.push(call);
  }

  /** Takes a call out of flight. Null if its caller gave up; then the late answer is dropped. */
  #take(id) {
    const call = this.#inFlight.take(id);
    if (call === undefined) {
      throw new ProtocolError(`it answered request ${id}, which was never sent or already has an answer`);
    }
    return call.isAbandoned ? null : call;
  }

  #ready() {
    if (this.#connection.isEnding && this.#inFlight.awaited === 0) this.#connection.finish();
    // Callers that have just got an answer are likely to call again now.
    else if (!this.#queue.isEmpty) this.#flushSoon();
  }

  #lost(failure) {
    const wasOpen = this.#limits !== null;
    this.#connection = null;
    this.#limits = null;
    this.#failure = failure;
    this.#backoff.lost(now(), failure.retryAfterMs, Math.random());
    const sent = this.#inFlight.takeAll();
    const outcome = { error: failure.error };
    const again = this.#turnedAway;
    this.#turnedAway = [];
    if (failure.isFatal) {
      // One of the requests in flight may be the cause, so none is repeated.
      for (const call of sent) this.#waits.settle(call, outcome);
    } else {
      again.push(...sent);
    }
    // In the order of the calls. A call that never got a connection fails for good.
    again.sort((one, other) => one.id - other.id);
    for (const call of [...again, ...this.#queue.takeAll()]) {
      const isFailed = failure.isFatal ? !wasOpen : call.isLease && !call.isOnUsedConnection;
      call.isOnUsedConnection = false;
      if (isFailed) this.#waits.settle(call, outcome);
      else this.#queue.push(call);
    }
    this.#go();
  }

  /** The deadline of a call passed, or its caller cancelled it. */
  #giveUp(call, makeError) {
    const error = makeError ?? this.overdue(call.request.type, call.timeoutMs);
    const isOverdue = makeError === undefined;
    this.#queue.remove(call);
    this.#waits.settle(call, { error });
    if (!call.isSent) {
      const index = this.#turnedAway.indexOf(call);
      if (index >= 0) this.#turnedAway.splice(index, 1);
      return;
    }
    this.#inFlight.abandon(call);
    // A daemon answers within the timeout of a request, if only with an error.
    const isSilent =
      isOverdue &&
      this.#heard === call.heardBefore &&
      (this.#inFlight.awaited === 0 || now() - this.#quietSince >= SILENCE_MS);
    const isFull = this.#inFlight.abandoned >= this.#limits.maxInFlight;
    // Bytes that the daemon does not take would keep the process alive.
    const isBlocked = this.#inFlight.awaited === 0 && this.#connection.isBackedUp;
    if (isSilent || isFull || isBlocked) this.#connection.abandon('the daemon stopped answering');
    else this.#ready();
  }
}

/**
 * The timeout to send with a request: a little less than the time left, so that the daemon's error, which
 * names the cause, arrives before the caller's deadline. Never 0, which stands for the daemon's default.
 */
function daemonTimeout(msLeft) {
  return Math.max(1, Math.floor(msLeft - Math.min(msLeft / 10, 50)));
}

/** Refuses an answer that no daemon gives to this request. */
function checkReply(request, reply) {
  const expected = REPLY_TO[request.type];
  if (reply.type !== expected) {
    throw new ProtocolError(`it answered with ${reply.type} instead of ${expected}`);
  }
  if (expected === 'Ids') checkRuns(reply.runs, request.count);
  if (expected === 'Time' && reply.unixMs > MAX_DATE_MS) {
    throw new ProtocolError(`it sent the time ${reply.unixMs}, which is out of range`);
  }
}

module.exports = { Session, daemonTimeout };
