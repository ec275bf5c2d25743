'use strict';

// The bits of a snowflake ID: time, worker and sequence, at most 63 in all. Plain arithmetic.

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
  #sequenceAboveWorker;

  constructor({
    epochMs,
    timeBits,
    workerBits,
    sequenceBits,
    unitMs = 1,
    datacenterBits = 0,
    sequenceAboveWorker = false,
  }) {
    for (const [name, bits] of Object.entries({ timeBits, workerBits, sequenceBits, datacenterBits })) {
      if (!Number.isInteger(bits) || bits < 0 || bits > 63) {
        throw new InvalidError(`${name} must be an integer from 0 to 63, not ${bits}`);
      }
    }
    if (timeBits + workerBits + sequenceBits > 63) {
      throw new InvalidError(
        `time ${timeBits} + worker ${workerBits} + sequence ${sequenceBits} bits make ` +
          `${timeBits + workerBits + sequenceBits}, more than 63`,
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
    this.#sequenceAboveWorker = Boolean(sequenceAboveWorker);
  }

  static parse(text) {
    if (typeof text !== 'string') {
      throw new InvalidError(`a layout must be a string, not ${typeof text}`);
    }
    const unknown = () =>
      new InvalidError(
        `layout ${JSON.stringify(text)} is neither a preset (${Object.keys(PRESETS).join(', ')}, each with ` +
          'an optional epoch as in baidu@2026-01-01) nor TIME/WORKER/SEQUENCE@EPOCH with an optional unit, ' +
          'as in 41/10/12@2010-11-04T01:42:54.657Z or 28/22/13@2026-01-01/1000ms, nor ' +
          'TIME/sSEQUENCE/wWORKER@EPOCH, as in 39/s8/w16@2026-01-01/10ms; an epoch is a date in UTC, ' +
          'or milliseconds since 1970',
      );
    const preset = /^(leaf|twitter|baidu|js|sonyflake|discord)(?:@(.*))?$/s.exec(text);
    if (preset !== null) {
      const [, name, epoch] = preset;
      if (epoch === undefined) return new Layout(PRESETS[name]);
      return new Layout({ ...PRESETS[name], epochMs: epochOf(epoch) ?? fail(unknown) });
    }
    const rest = '@([^/]+)(?:/(\\d{1,9})ms)?$';
    const number = '(\\d{1,9})';
    const worker = `(?:${number}\\+)?${number}`;
    const usual = new RegExp(`^${number}/${worker}/${number}${rest}`).exec(text);
    const swapped = new RegExp(`^${number}/s${number}/w${worker}${rest}`).exec(text);
    if (usual === null && swapped === null) throw unknown();
    const [, time, sequence, upper = '0', lower, epoch, unit = '1'] =
      swapped ?? [usual[0], usual[1], usual[4], usual[2], usual[3], usual[5], usual[6]];
    return new Layout({
      unitMs: Number(unit),
      epochMs: epochOf(epoch) ?? fail(unknown),
      timeBits: Number(time),
      workerBits: Number(upper) + Number(lower),
      sequenceBits: Number(sequence),
      datacenterBits: Number(upper),
      sequenceAboveWorker: swapped !== null,
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
    if (time >> BigInt(this.#timeBits) !== 0n) {
      const bits = BigInt(this.#timeBits) + this.#workerBits + this.#sequenceBits;
      throw new InvalidError(`${id} has more than the ${bits} bits of this layout`);
    }
    const [workerAt, sequenceAt] = this.#shifts();
    const worker = (id >> workerAt) & ((1n << this.#workerBits) - 1n);
    const unixMs = this.#epochMs + time * this.#unitMs;
    const decoded = {
      unixMs: unixMs > MAX_U64 ? MAX_U64 : unixMs,
      worker,
      sequence: (id >> sequenceAt) & ((1n << this.#sequenceBits) - 1n),
    };
    if (this.#datacenterBits > 0n) {
      decoded.datacenter = worker >> (this.#workerBits - this.#datacenterBits);
    }
    return decoded;
  }

  compose(time, worker, sequence) {
    for (const [name, part, bits] of [
      ['time', time, BigInt(this.#timeBits)],
      ['worker', worker, this.#workerBits],
      ['sequence', sequence, this.#sequenceBits],
    ]) {
      if (typeof part !== 'bigint') throw new InvalidError(`the ${name} must be a bigint, not ${typeof part}`);
      if (part < 0n || part >> bits !== 0n) {
        throw new InvalidError(`the ${name} ${part} does not fit the ${bits} bits that this layout has for it`);
      }
    }
    const [workerAt, sequenceAt] = this.#shifts();
    return (time << (this.#workerBits + this.#sequenceBits)) | (worker << workerAt) | (sequence << sequenceAt);
  }

  get timeBits() {
    return this.#timeBits;
  }

  get workerBits() {
    return Number(this.#workerBits);
  }

  get sequenceBits() {
    return Number(this.#sequenceBits);
  }

  get epochMs() {
    return this.#epochMs;
  }

  get unitMs() {
    return Number(this.#unitMs);
  }

  /** The places of worker and sequence, counted from the lowest bit. */
  #shifts() {
    return this.#sequenceAboveWorker ? [0n, this.#workerBits] : [this.#sequenceBits, 0n];
  }

  toString() {
    const lower = this.#workerBits - this.#datacenterBits;
    const worker = this.#datacenterBits > 0n ? `${this.#datacenterBits}+${lower}` : `${lower}`;
    const low = this.#sequenceAboveWorker ? `s${this.#sequenceBits}/w${worker}` : `${worker}/${this.#sequenceBits}`;
    return `${this.#timeBits}/${low}@${this.#epochMs}/${this.#unitMs}ms`;
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
  js: { unitMs: 10, epochMs: 1767225600000n, timeBits: 37, workerBits: 8, sequenceBits: 8 },
  sonyflake: {
    unitMs: 10,
    epochMs: 1409529600000n,
    timeBits: 39,
    workerBits: 16,
    sequenceBits: 8,
    sequenceAboveWorker: true,
  },
  discord: { ...LEAF, epochMs: 1420070400000n, datacenterBits: 5 },
};

for (const [name, preset] of Object.entries(PRESETS)) {
  Object.defineProperty(Layout, name.toUpperCase(), { value: new Layout(preset), enumerable: true });
}

module.exports = { Layout };
