'use strict';

// Checks of arguments, before anything is sent.

const { MAX_TIMEOUT_MS } = require('./clock.js');
const { InvalidError } = require('./errors.js');
const { checkSocketPath, defaultSocketPath } = require('./path.js');
const { MAX_TAG_CHARACTERS } = require('./wire.js');

const MAX_U32 = 2 ** 32 - 1;

const CONNECTION_OPTIONS = ['socketPath', 'timeoutMs', 'backoffMinMs', 'backoffMaxMs'];

/** A value that is no valid argument, for a message. Not every object can become a string. */
function shown(value) {
  return typeof value === 'object' || typeof value === 'function' ? typeof value : String(value);
}

/** Refuses an option that does not exist: a typing error would otherwise change nothing, silently. */
function checkNames(options, names) {
  if (options === null || typeof options !== 'object') {
    throw new InvalidError(`options must be an object, not ${options === null ? 'null' : typeof options}`);
  }
  for (const name of Object.keys(options)) {
    if (!names.includes(name)) {
      throw new InvalidError(`unknown option ${JSON.stringify(name)}; there are ${names.join(', ')}`);
    }
  }
}

/** The options that clients and pools share, with defaults filled in. Values out of range move into it. */
function connectionOptions(options) {
  const { socketPath, timeoutMs = 5000, backoffMinMs = 5, backoffMaxMs = 500 } = options;
  const backoffMin = Math.max(1, duration('backoffMinMs', backoffMinMs));
  return {
    socketPath: checkSocketPath(socketPath === undefined ? defaultSocketPath() : socketPath),
    timeoutMs: checkTimeout(timeoutMs),
    backoffMinMs: backoffMin,
    backoffMaxMs: Math.max(backoffMin, duration('backoffMaxMs', backoffMaxMs)),
  };
}

function checkTimeout(timeoutMs) {
  const checked = duration('timeoutMs', timeoutMs);
  if (checked === 0) {
    throw new InvalidError('timeoutMs must be above 0; there are no calls without a timeout');
  }
  return checked;
}

function duration(name, ms) {
  if (typeof ms !== 'number' || Number.isNaN(ms) || ms < 0) {
    throw new InvalidError(`${name} must be a number of milliseconds, not ${shown(ms)}`);
  }
  return Math.min(ms, MAX_TIMEOUT_MS);
}

/** The options of one call. */
function callOptions(options, defaultTimeoutMs, otherNames = []) {
  if (options === undefined) return { timeoutMs: defaultTimeoutMs, signal: undefined };
  checkNames(options, ['timeoutMs', 'signal', ...otherNames]);
  const { timeoutMs, signal } = options;
  if (signal !== undefined && typeof signal?.addEventListener !== 'function') {
    throw new InvalidError('signal must be an AbortSignal');
  }
  return { timeoutMs: timeoutMs === undefined ? defaultTimeoutMs : checkTimeout(timeoutMs), signal };
}

/** The last tag that passed, since most callers use one tag again and again. */
let lastTag;

function checkTag(tag) {
  if (tag === lastTag) return tag;
  if (typeof tag !== 'string') {
    throw new InvalidError(`a tag must be a string, not ${typeof tag}`);
  }
  if (tag === '') {
    throw new InvalidError('the tag is empty');
  }
  // A character takes at most two UTF-16 units, so most tags need no counting. A huge one must not be counted.
  if (tag.length > 2 * MAX_TAG_CHARACTERS) {
    throw new InvalidError(`the tag has more than ${MAX_TAG_CHARACTERS} characters`);
  }
  const characters = tag.length > MAX_TAG_CHARACTERS ? [...tag].length : tag.length;
  if (characters > MAX_TAG_CHARACTERS) {
    throw new InvalidError(`the tag has ${characters} characters; the limit is ${MAX_TAG_CHARACTERS}`);
  }
  if (/\p{Cc}/u.test(tag)) {
    throw new InvalidError(`the tag ${JSON.stringify(tag)} contains a control character`);
  }
  if (/\p{Cs}/u.test(tag)) {
    throw new InvalidError(`the tag ${JSON.stringify(tag)} contains half a surrogate pair`);
  }
  lastTag = tag;
  return tag;
}

function checkCount(count) {
  if (!Number.isInteger(count) || count < 1 || count > MAX_U32) {
    throw new InvalidError(`count must be an integer from 1 to ${MAX_U32}, not ${shown(count)}`);
  }
  return count;
}

module.exports = {
  CONNECTION_OPTIONS,
  callOptions,
  checkCount,
  checkNames,
  checkTag,
  connectionOptions,
  duration,
  shown,
};
