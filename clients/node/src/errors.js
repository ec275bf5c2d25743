'use strict';

// Why a call failed. In none of these cases did the caller get an ID.

const NUMBERS = new Map([
  [100, 'BadMagic'],
  [101, 'VersionUnsupported'],
  [102, 'HelloExpected'],
  [103, 'Malformed'],
  [104, 'UnknownCall'],
  [105, 'FrameTooLarge'],
  [200, 'BadCount'],
  [201, 'BadTag'],
  [202, 'UnknownTag'],
  [203, 'TagExists'],
  [204, 'BadStep'],
  [205, 'BadDescription'],
  [206, 'Forbidden'],
  [207, 'NotConfigured'],
  [208, 'TooManyTags'],
  [209, 'UnknownWorker'],
  [210, 'WorkerInUse'],
  [211, 'WrongOwner'],
  [212, 'BadPublicId'],
  [300, 'TooManyConnections'],
  [301, 'TooManyInFlight'],
  [302, 'StoreUnavailable'],
  [303, 'StateUnavailable'],
  [304, 'ClockBackwards'],
  [305, 'WorkerUnavailable'],
  [306, 'TimeExhausted'],
  [307, 'BadRow'],
  [308, 'DeadlineExceeded'],
  [309, 'ShuttingDown'],
  [310, 'TooManyWaiting'],
  [311, 'RegistryUnavailable'],
  [312, 'QuotaExceeded'],
]);

/** Whether an error number means "not now". 306 and 307 last until an operator acts. */
function isTemporaryNumber(number) {
  return number >= 300 && number <= 399 && number !== 306 && number !== 307;
}

class LeafError extends Error {
  constructor(kind, message, { temporary = false, cause } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.kind = kind;
    this.code = `ERR_LEAFD_${kind.toUpperCase()}`;
    this.temporary = temporary;
    this.retryAfterMs = 0;
  }
}

class RefusedError extends LeafError {
  /** `reply` is a decoded `Error` reply. */
  constructor(reply) {
    const label = NUMBERS.get(reply.code) ?? 'Unknown';
    super('refused', `leafd refused: ${reply.code} ${label}: ${reply.text}`, {
      temporary: isTemporaryNumber(reply.code),
    });
    this.number = reply.code;
    this.numberName = label;
    this.retryAfterMs = reply.retryAfterMs;
    this.detail = reply.detail;
  }
}

class UnavailableError extends LeafError {
  constructor(path, cause) {
    super('unavailable', `leafd is not reachable at ${path}: ${cause.message}`, {
      temporary: !isDenied(cause),
      cause,
    });
    this.path = path;
  }
}

class DeadlineError extends LeafError {
  constructor(call, timeoutMs) {
    super('deadline', `leafd did not answer ${call} within ${timeoutMs} ms`, { temporary: true });
  }
}

class ProtocolError extends LeafError {
  #what;

  constructor(what) {
    super('protocol', `the peer is not a leafd of a known version: ${what}`);
    this.#what = what;
  }

  /** The same error for another caller. */
  again() {
    return new ProtocolError(this.#what);
  }
}

class InvalidError extends LeafError {
  constructor(what) {
    super('invalid', what);
  }
}

class ClosedError extends LeafError {
  constructor(what) {
    super('closed', `the ${what} was closed`);
  }
}

/** As in Node's own APIs, `name` is `AbortError`, `code` is `ABORT_ERR`, `cause` is the signal's reason. */
class CancelledError extends LeafError {
  constructor(reason) {
    super('cancelled', 'the caller cancelled the call', { cause: reason });
    this.code = 'ABORT_ERR';
  }
}

/** Whether the operating system keeps this user out. Waiting does not change that. */
function isDenied(error) {
  return error.code === 'EACCES' || error.code === 'EPERM';
}

// On the prototypes, as in the classes of JavaScript itself.
for (const type of [
  LeafError,
  RefusedError,
  UnavailableError,
  DeadlineError,
  ProtocolError,
  InvalidError,
  ClosedError,
]) {
  hide(type, type.name);
}
hide(CancelledError, 'AbortError');

function hide(type, name) {
  Object.defineProperty(type.prototype, 'name', { value: name, configurable: true, writable: true });
}

module.exports = {
  CancelledError,
  ClosedError,
  DeadlineError,
  InvalidError,
  LeafError,
  ProtocolError,
  RefusedError,
  UnavailableError,
  isDenied,
  isTemporaryNumber,
};
