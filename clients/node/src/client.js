'use strict';

const { CancelledError, RefusedError } = require('./errors.js');
const { Ids } = require('./ids.js');
const { CONNECTION_OPTIONS, callOptions, checkCount, checkNames, checkTag, connectionOptions } = require('./options.js');
const { Session } = require('./session.js');

/** The IDs that an iterator asks for at once. */
const ITERATOR_BATCH = 100;

class Client {
  #session;
  #timeoutMs;

  constructor(options = {}) {
    checkNames(options, CONNECTION_OPTIONS);
    const checked = connectionOptions(options);
    this.#session = new Session('client', checked);
    this.#timeoutMs = checked.timeoutMs;
  }

  async next(tag, options) {
    const request = { type: 'Segment', tag: checkTag(tag), count: 1 };
    return replyOf(await this.#call(request, options)).runs[0].first;
  }

  async nextMany(tag, count, options) {
    const request = { type: 'Segment', tag: checkTag(tag), count: checkCount(count) };
    return new Ids(replyOf(await this.#call(request, options)).runs);
  }

  async snowflake(options) {
    const request = { type: 'Snowflake', count: 1 };
    return replyOf(await this.#call(request, options)).runs[0].first;
  }

  async snowflakes(count, options) {
    const request = { type: 'Snowflake', count: checkCount(count) };
    return new Ids(replyOf(await this.#call(request, options)).runs);
  }

  async *iterate(tag, options = {}) {
    checkTag(tag);
    callOptions(options, this.#timeoutMs, ['batch']);
    const { batch = ITERATOR_BATCH, ...rest } = options;
    for (;;) yield* await this.nextMany(tag, batch, rest);
  }

  async time(options) {
    const { unixMs } = replyOf(await this.#call({ type: 'Time' }, options));
    return new Date(Number(unixMs));
  }

  async status(options) {
    return replyOf(await this.#call({ type: 'Status' }, options)).status;
  }

  async close() {
    this.#session.close();
  }

  /** Resolves to what `replyOf` takes. Not `async` itself, since each such function costs every call a promise. */
  #call(request, options) {
    const waiting = callOptions(options, this.#timeoutMs);
    if (waiting.signal?.aborted) throw new CancelledError(waiting.signal.reason);
    return this.#session.call(request, waiting);
  }
}

/** The reply of an outcome. Throws the caller's error, whose stack leads to the caller. */
function replyOf({ reply, error }) {
  if (error !== undefined) throw error();
  if (reply.type === 'Error') throw new RefusedError(reply);
  return reply;
}

if (Symbol.asyncDispose !== undefined) {
  Object.defineProperty(Client.prototype, Symbol.asyncDispose, {
    value: Client.prototype.close,
    configurable: true,
    writable: true,
  });
}

module.exports = { Client };
