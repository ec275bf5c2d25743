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
    const reply = await this.#call({ type: 'Segment', tag: checkTag(tag), count: 1 }, options);
    return reply.runs[0].first;
  }

  async nextMany(tag, count, options) {
    const request = { type: 'Segment', tag: checkTag(tag), count: checkCount(count) };
    const reply = await this.#call(request, options);
    return new Ids(reply.runs);
  }

  async snowflake(options) {
    const reply = await this.#call({ type: 'Snowflake', count: 1 }, options);
    return reply.runs[0].first;
  }

  async snowflakes(count, options) {
    const reply = await this.#call({ type: 'Snowflake', count: checkCount(count) }, options);
    return new Ids(reply.runs);
  }

  async *iterate(tag, options = {}) {
    checkTag(tag);
    callOptions(options, this.#timeoutMs, ['batch']);
    const { batch = ITERATOR_BATCH, ...rest } = options;
    for (;;) yield* await this.nextMany(tag, batch, rest);
  }

  async time(options) {
    const reply = await this.#call({ type: 'Time' }, options);
    return new Date(Number(reply.unixMs));
  }

  async status(options) {
    const reply = await this.#call({ type: 'Status' }, options);
    return reply.status;
  }

  async close() {
    this.#session.close();
  }

  async #call(request, options) {
    const waiting = callOptions(options, this.#timeoutMs);
    if (waiting.signal?.aborted) throw new CancelledError(waiting.signal.reason);
    const { reply, error } = await this.#session.call(request, waiting);
    if (error !== undefined) throw error();
    if (reply.type === 'Error') throw new RefusedError(reply);
    return reply;
  }
}

if (Symbol.asyncDispose !== undefined) {
  Object.defineProperty(Client.prototype, Symbol.asyncDispose, {
    value: Client.prototype.close,
    configurable: true,
    writable: true,
  });
}

module.exports = { Client };
