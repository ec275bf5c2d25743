'use strict';

// The bits of a snowflake ID: time, worker and sequence, 63 in all. Plain arithmetic.

const { InvalidError } = require('./errors.js');
const { MAX_ID } = require('./ids.js');

const MAX_U64 = 2n ** 64n - 1n;

class Layout {
  #unitMs;
  #epochMs;
  #timeBits;
  #workerBits;
  #sequenceBits;
  #datacenterBits;

  constructor({ epochMs, timeBits, workerBits, sequenceBits, unitMs = 1, datacenterBits = 0 }) {
    for (const [name, bits] of Object.entries({ timeBits, workerBits, sequenceBits, datacenterBits })) {
      if (!Number.isInteger(bits) || bits < 0 || bits > 63) {
        throw new InvalidError(`${name} must be an integer from 0 to 63, not ${bits}`);
      }
    }
    if (timeBits + workerBits + sequenceBits !== 63) {
      throw new InvalidError(
        `time ${timeBits} + worker ${workerBits} + sequence ${sequenceBits} bits make ` +
          `${timeBits + workerBits + sequenceBits}, not 63`,
      );
    }
    if (timeBits === 0 || sequenceBits === 0) {
      throw new InvalidError('time and sequence need at least one bit each');
    }
    if (![1, 10, 1000].includes(unitMs)) {
      throw new InvalidError(`a unit of ${unitMs} ms is not supported; use 1, 10 or 1000`);
    }
    if (datacenterBits > workerBits) {
      throw new InvalidError(`${datacenterBits} data centre bits do not fit into ${workerBits} worker bits`);
    }
    if (typeof epochMs !== 'bigint' || epochMs < 0n || epochMs > MAX_U64) {
      throw new InvalidError('epochMs must be a bigint from 0 to 2^64 - 1');
    }
    this.#unitMs = BigInt(unitMs);
    this.#epochMs = epochMs;
    this.#timeBits = timeBits;
    this.#workerBits = BigInt(workerBits);
    this.#sequenceBits = BigInt(sequenceBits);
    this.#datacenterBits = BigInt(datacenterBits);
  }

  static parse(text) {
    if (typeof text !== 'string') {
      throw new InvalidError(`a layout must be a string, not ${typeof text}`);
    }
    const unknown = () =>
      new InvalidError(
        `layout ${JSON.stringify(text)} is neither a preset (leaf, twitter, baidu, each with an optional ` +
          'epoch as in baidu@2026-01-01) nor TIME/WORKER/SEQUENCE@EPOCH with an optional unit, as in ' +
          '41/10/12@2010-11-04T01:42:54.657Z or 28/22/13@2026-01-01/1000ms; an epoch is a date in UTC, ' +
          'or milliseconds since 1970',
      );
    const preset = /^(leaf|twitter|baidu)(?:@(.*))?$/s.exec(text);
    if (preset !== null) {
      const [, name, epoch] = preset;
      if (epoch === undefined) return new Layout(PRESETS[name]);
      return new Layout({ ...PRESETS[name], epochMs: epochOf(epoch) ?? fail(unknown) });
    }
    const form = /^(\d{1,9})\/(?:(\d{1,9})\+)?(\d{1,9})\/(\d{1,9})@([^/]+)(?:\/(\d{1,9})ms)?$/.exec(text);
    if (form === null) throw unknown();
    const [, time, upper = '0', lower, sequence, epoch, unit = '1'] = form;
    return new Layout({
      unitMs: Number(unit),
      epochMs: epochOf(epoch) ?? fail(unknown),
      timeBits: Number(time),
      workerBits: Number(upper) + Number(lower),
      sequenceBits: Number(sequence),
      datacenterBits: Number(upper),
    });
  }

  decode(id) {
    if (typeof id !== 'bigint') {
      throw new InvalidError(`an ID must be a bigint, not ${typeof id}: a number cannot hold all of them`);
    }
    if (id < 0n || id > MAX_ID) {
      throw new InvalidError(`${id} is not from 0 to 2^63 - 1, so it is no snowflake ID`);
    }
    const time = id >> (this.#workerBits + this.#sequenceBits);
    const worker = (id >> this.#sequenceBits) & ((1n << this.#workerBits) - 1n);
    const unixMs = this.#epochMs + time * this.#unitMs;
    const decoded = {
      unixMs: unixMs > MAX_U64 ? MAX_U64 : unixMs,
      worker,
      sequence: id & ((1n << this.#sequenceBits) - 1n),
    };
    if (this.#datacenterBits > 0n) {
      decoded.datacenter = worker >> (this.#workerBits - this.#datacenterBits);
    }
    return decoded;
  }

  toString() {
    const lower = this.#workerBits - this.#datacenterBits;
    const worker = this.#datacenterBits > 0n ? `${this.#datacenterBits}+${lower}` : `${lower}`;
    return `${this.#timeBits}/${worker}/${this.#sequenceBits}@${this.#epochMs}/${this.#unitMs}ms`;
  }
}

function fail(error) {
  throw error();
}

/** Milliseconds since 1970, or a date in UTC from 1970 to 9999. */
function epochOf(text) {
  if (/^\d{1,20}$/.test(text)) {
    const epoch = BigInt(text);
    return epoch <= MAX_U64 ? epoch : undefined;
  }
  const date = /^(\d{4}-\d{2}-\d{2})(?:[Tt ](\d{2}:\d{2}:\d{2})(?:\.(\d{3}))?[Zz])?$/.exec(text);
  if (date === null) return undefined;
  const [, day, time = '00:00:00', ms = '000'] = date;
  const iso = `${day}T${time}.${ms}Z`;
  const unixMs = Date.parse(iso);
  // A day such as 31 February would become one in March.
  const isDate = unixMs >= 0 && new Date(unixMs).toISOString() === iso;
  return isDate ? BigInt(unixMs) : undefined;
}

const LEAF = { epochMs: 1288834974657n, timeBits: 41, workerBits: 10, sequenceBits: 12 };
const PRESETS = {
  leaf: LEAF,
  twitter: { ...LEAF, datacenterBits: 5 },
  baidu: { unitMs: 1000, epochMs: 1463673600000n, timeBits: 28, workerBits: 22, sequenceBits: 13 },
};

for (const [name, preset] of Object.entries(PRESETS)) {
  Object.defineProperty(Layout, name.toUpperCase(), { value: new Layout(preset), enumerable: true });
}

module.exports = { Layout };
