'use strict';

// UUIDs and ObjectIDs that hold a snowflake: unique because it is, and reversible.

const { InvalidError } = require('../errors.js');
const { Layout } = require('../layout.js');
const { checkId, checkText, hexHint, quote, wrong, wrongCharacter } = require('./check.js');
const { lowest, readFleet, readUuid, uuidOf } = require('./uuid.js');

/** How many bits below the milliseconds UUIDs of version 7 and ObjectIDs have room for. */
const LOW_BITS = 34;

/** How many bits of the worker ID a UUID of version 1 has outside of its time. */
const NODE_WORKER_BITS = 21n;

/** 1970-01-01 in units of 100 ns since 1582-10-15. */
const GREGORIAN = 122_192_928_000_000_000n;

const TICKS_PER_MS = 10_000n;

/** How many characters an ObjectID has. */
const OBJECT_ID_LENGTH = 24;

const UUID_FORMS = { __proto__: null, uuid7: 7, uuid8: 8, uuid1: 1 };

class Snowflakes {
  #layout;
  #fleet;
  #unitMs;
  #lowBits;
  #sequenceBits;
  #workerBits;

  constructor(layout, fleet) {
    if (!(layout instanceof Layout)) {
      throw new InvalidError('layout must be a Layout, such as Layout.LEAF or Layout.parse(text)');
    }
    this.#layout = layout;
    this.#fleet = readFleet(fleet);
    this.#unitMs = BigInt(layout.unitMs);
    this.#lowBits = layout.workerBits + layout.sequenceBits;
    this.#sequenceBits = BigInt(layout.sequenceBits);
    this.#workerBits = BigInt(layout.workerBits);
  }

  encode(form, id) {
    switch (form) {
      case 'uuid7':
        return this.uuid7(id);
      case 'uuid8':
        return this.uuid8(id);
      case 'uuid1':
        return this.uuid1(id);
      case 'objectid':
        return this.objectId(id);
      default:
        throw unknownForm(form);
    }
  }

  decode(form, text) {
    if (form === 'objectid') return this.idOfObjectId(text);
    const version = UUID_FORMS[checkText('a form', form)];
    if (version === undefined) throw unknownForm(form);
    const uuid = readUuid(text);
    if (uuid.version !== version) throw wrong(text, `it is a UUID of version ${uuid.version}, not ${version}`);
    return this.#idOf(text, uuid);
  }

  uuid7(id) {
    const { ms, low } = this.#split(id);
    return uuidOf(7, ms, low >> 22n, (lowest(22, low) << 40n) | this.#fleet);
  }

  uuid8(id) {
    checkId(id);
    return uuidOf(8, id >> 15n, lowest(12, id >> 3n), (lowest(3, id) << 59n) | (this.#fleet << 19n));
  }

  uuid1(id) {
    const { unixMs, worker, sequence } = this.#layout.decode(id);
    this.#checkRoomOf1();
    const excess = (worker >> NODE_WORKER_BITS) << this.#sequenceBits;
    const ticks = unixMs * TICKS_PER_MS + GREGORIAN + excess + sequence;
    if (ticks >> 60n !== 0n) {
      throw new InvalidError(
        `a UUID of version 1 has no room for the time of ${id}, which has more than 60 bits of 100 ns`,
      );
    }
    // The one bit marks a node that is no network card.
    const node = (lowest(7, worker) << 41n) | (1n << 40n) | this.#fleet;
    const clock = lowest(14, worker >> 7n);
    return uuidOf(1, (lowest(32, ticks) << 16n) | lowest(16, ticks >> 32n), ticks >> 48n, (clock << 48n) | node);
  }

  objectId(id) {
    const { ms, low } = this.#split(id);
    const seconds = ms / 1000n;
    if (seconds >> 32n !== 0n) {
      throw new InvalidError(`an ObjectID has no room for the time of ${id}, which is after 2106`);
    }
    const bits = (seconds << 64n) | ((ms % 1000n) << 54n) | (low << 20n) | (this.#fleet >> 20n);
    return bits.toString(16).padStart(OBJECT_ID_LENGTH, '0');
  }

  idOf(uuid) {
    return this.#idOf(uuid, readUuid(uuid));
  }

  idOfObjectId(text) {
    const bits = readObjectId(text);
    if (lowest(20, bits) !== this.#fleet >> 20n) {
      throw wrong(text, `it has another fleet ID than ${fleetText(this.#fleet)}: another installation made it`);
    }
    const ms = lowest(10, bits >> 54n);
    if (ms > 999n) throw foreign(text, 'it has more than 999 milliseconds');
    return this.#join(text, (bits >> 64n) * 1000n + ms, lowest(LOW_BITS, bits >> 20n));
  }

  #idOf(text, { version, hasVariant, a, b, c }) {
    if (version === 5) throw wrong(text, 'a UUID of version 5 is a hash: nothing turns it back into an ID');
    if (![1, 7, 8].includes(version)) throw wrong(text, `it is a UUID of version ${version}, not 1, 7 or 8`);
    if (!hasVariant) throw wrongCharacter(text, 19, 'the variant of RFC 9562 has 8, 9, a or b here');
    const fleet = lowest(40, version === 8 ? c >> 19n : c);
    if (fleet !== this.#fleet) {
      const [found, own] = [fleetText(fleet), fleetText(this.#fleet)];
      throw wrong(text, `it has the fleet ID ${found}, and this is ${own}: another installation made it`);
    }
    if (version === 1) return this.#idOf1(text, (b << 48n) | (lowest(16, a) << 32n) | (a >> 16n), c);
    if (version === 7) return this.#join(text, a, (b << 22n) | (c >> 40n));
    if (lowest(19, c) !== 0n) throw foreign(text, 'its last 19 bits are not zero');
    return (a << 15n) | (b << 3n) | (c >> 59n);
  }

  #idOf1(text, ticks, rest) {
    this.#checkRoomOf1();
    if (lowest(1, rest >> 40n) === 0n) throw foreign(text, 'its node may be a network card');
    const since = ticks - GREGORIAN - this.#layout.epochMs * TICKS_PER_MS;
    if (since < 0n) throw foreign(text, 'its time is before the epoch');
    const ticksPerUnit = this.#unitMs * TICKS_PER_MS;
    const step = since % ticksPerUnit;
    const excess = step >> this.#sequenceBits;
    const worker = (excess << NODE_WORKER_BITS) | ((rest >> 48n) << 7n) | lowest(7, rest >> 41n);
    try {
      return this.#layout.compose(since / ticksPerUnit, worker, lowest(this.#layout.sequenceBits, step));
    } catch (error) {
      throw foreign(text, error.message);
    }
  }

  /** Each time unit needs enough steps of 100 ns for its sequence numbers. */
  #checkRoomOf1() {
    const excessBits = this.#workerBits > NODE_WORKER_BITS ? this.#workerBits - NODE_WORKER_BITS : 0n;
    if (1n << (excessBits + this.#sequenceBits) > this.#unitMs * TICKS_PER_MS) {
      throw new InvalidError(
        `a UUID of version 1 has no room for the layout ${this.#layout}: its time unit has too few steps of 100 ns`,
      );
    }
  }

  /**
   * How many bits below the time have no room in LOW_BITS. They are added to the milliseconds, of which a time unit
   * has enough that mean nothing.
   */
  #excessBits() {
    const bits = BigInt(Math.max(this.#lowBits - LOW_BITS, 0));
    if (1n << bits > this.#unitMs) {
      throw new InvalidError(
        `UUIDs of version 7 and ObjectIDs have no room for the layout ${this.#layout}: worker and sequence have too ` +
          'many bits',
      );
    }
    return bits;
  }

  /** The time in milliseconds, at most 48 bits, and the LOW_BITS below it. */
  #split(id) {
    this.#excessBits();
    const { unixMs } = this.#layout.decode(id);
    const low = lowest(this.#lowBits, id);
    const ms = unixMs + (low >> BigInt(LOW_BITS));
    if (ms >> 48n !== 0n) {
      throw new InvalidError(
        `UUIDs of version 7 and ObjectIDs have no room for the time of ${id}, which has more than 48 bits of ` +
          'milliseconds',
      );
    }
    return { ms, low: lowest(LOW_BITS, low) };
  }

  /** The inverse of `#split`. */
  #join(text, ms, low) {
    const excessBits = this.#excessBits();
    const since = ms - this.#layout.epochMs;
    if (since < 0n) throw foreign(text, 'its time is before the epoch');
    const time = since / this.#unitMs;
    const excess = since % this.#unitMs;
    if (time >> BigInt(this.#layout.timeBits) !== 0n) throw foreign(text, 'its time is past the end of the layout');
    if (excess >> excessBits !== 0n) throw foreign(text, 'its time lies within a time unit');
    const all = (excess << BigInt(LOW_BITS)) | low;
    if (all >> BigInt(this.#lowBits) !== 0n) throw foreign(text, 'it has more bits for worker and sequence');
    return (time << BigInt(this.#lowBits)) | all;
  }
}

function readObjectId(text) {
  checkText('an ObjectID', text);
  for (let at = 0; at < text.length; at += 1) {
    const hint = at === OBJECT_ID_LENGTH ? 'the ObjectID ends before it' : hexHint(text[at]);
    if (hint !== undefined) throw wrongCharacter(text, at, hint);
  }
  if (text.length < OBJECT_ID_LENGTH) {
    throw wrong(text, `${text.length} characters instead of the ${OBJECT_ID_LENGTH} of an ObjectID`);
  }
  return BigInt(`0x${text}`);
}

function fleetText(fleet) {
  return fleet.toString(16).padStart(10, '0');
}

function foreign(text, why) {
  return wrong(text, `no snowflake ID of this layout becomes it: ${why}`);
}

function unknownForm(form) {
  if (form === 'uuid5') {
    return new InvalidError('uuid5 is no form of a snowflake, but a hash of an ID of a tag: use the function uuid5');
  }
  const name = quote(checkText('a form', form));
  return new InvalidError(`there is no form ${name} of a snowflake; there are uuid7, uuid8, uuid1 and objectid`);
}

module.exports = { Snowflakes };
