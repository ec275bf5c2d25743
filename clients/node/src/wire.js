'use strict';

// The bytes of the protocol: frames, requests and replies. No socket, no state of a connection.
// Every length is checked before memory is allocated for it.

const { ProtocolError } = require('./errors.js');

/** The version of the protocol that this package speaks. */
const VERSION = 1;

/** The ID of unsolicited messages: errors about the connection, and `Goodbye`. */
const UNSOLICITED = 0n;

const HEADER_LENGTH = 4;

/** The limit on the body of a response, in bytes. */
const MAX_RESPONSE_LENGTH = 256 * 1024;

const MAGIC = Buffer.from('LEAF', 'latin1');

const CALLS = { Hello: 0, Segment: 1, Snowflake: 2, Time: 3, Status: 4 };

/** The bytes of a call's fields, without those of a tag. */
const FIELD_BYTES = { Hello: 6, Segment: 16, Snowflake: 8, Time: 0, Status: 0 };

/** Encodes a request as a frame. `id` is a bigint. */
function encodeRequest(id, call) {
  const number = CALLS[call.type];
  if (number === undefined) {
    throw new TypeError(`this package has no call ${call.type}`);
  }
  const tagLength = call.type === 'Segment' ? Buffer.byteLength(call.tag) : 0;
  const length = 12 + FIELD_BYTES[call.type] + tagLength;
  const frame = Buffer.allocUnsafe(HEADER_LENGTH + length);
  frame.writeUInt32BE(length, 0);
  frame.writeBigUInt64LE(id, 4);
  frame.writeUInt32LE(number, 12);
  switch (call.type) {
    case 'Hello':
      MAGIC.copy(frame, 16);
      frame.writeUInt16LE(call.version, 20);
      break;
    case 'Segment':
      frame.writeUInt32LE(tagLength, 16);
      frame.writeUInt32LE(0, 20);
      frame.write(call.tag, 24);
      frame.writeUInt32LE(call.count, 24 + tagLength);
      frame.writeUInt32LE(call.timeoutMs, 28 + tagLength);
      break;
    case 'Snowflake':
      frame.writeUInt32LE(call.count, 16);
      frame.writeUInt32LE(call.timeoutMs, 20);
      break;
  }
  return frame;
}

/** Cuts a stream of bytes into the bodies of responses, however the bytes are split. */
class FrameReader {
  #header = Buffer.alloc(HEADER_LENGTH);
  #headerFilled = 0;
  #body = null;
  #bodyFilled = 0;

  /** Yields each body that `chunk` completes. A body is valid until the next one is asked for. */
  *bodies(chunk) {
    let at = 0;
    while (at < chunk.length) {
      if (this.#body === null) {
        const wanted = HEADER_LENGTH - this.#headerFilled;
        const taken = chunk.copy(this.#header, this.#headerFilled, at, at + wanted);
        this.#headerFilled += taken;
        at += taken;
        if (taken < wanted) return;
        const length = checkLength(this.#header.readUInt32BE(0));
        this.#headerFilled = 0;
        if (chunk.length - at >= length) {
          yield chunk.subarray(at, at + length);
          at += length;
          continue;
        }
        this.#body = Buffer.allocUnsafe(length);
        this.#bodyFilled = 0;
      }
      const taken = chunk.copy(this.#body, this.#bodyFilled, at);
      this.#bodyFilled += taken;
      at += taken;
      if (this.#bodyFilled === this.#body.length) {
        const body = this.#body;
        this.#body = null;
        yield body;
      }
    }
  }
}

function checkLength(length) {
  if (length > MAX_RESPONSE_LENGTH) {
    throw new ProtocolError(
      `it announced a message of ${length} bytes; the limit is ${MAX_RESPONSE_LENGTH}`,
    );
  }
  return length;
}

/** Decodes one frame, header included, that holds nothing but one response. */
function decodeResponseFrame(bytes) {
  const frame = asBuffer(bytes);
  if (frame.length < HEADER_LENGTH) {
    throw new ProtocolError('the frame ends within its header');
  }
  const length = checkLength(frame.readUInt32BE(0));
  if (frame.length - HEADER_LENGTH !== length) {
    throw new ProtocolError(`the frame announces ${length} bytes and has ${frame.length - 4}`);
  }
  return decodeResponse(frame.subarray(HEADER_LENGTH));
}

/** Decodes the body of a response. Returns `{ id, reply }`; throws a `ProtocolError`. */
function decodeResponse(body) {
  const reader = new Reader(asBuffer(body));
  const id = reader.u64();
  const number = reader.u32();
  const decode = REPLIES[number];
  if (decode === undefined) {
    throw new ProtocolError(`it sent reply ${number}, which is unknown or answers no call of this client`);
  }
  const reply = decode(reader);
  reader.end();
  return { id, reply };
}

function asBuffer(bytes) {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** By number. `Tags` (5) and `Workers` (7) answer administrative calls, which this package lacks. */
const REPLIES = {
  0: (r) => ({ type: 'Error', code: r.u16(), retryAfterMs: r.u32(), detail: r.u64(), text: r.str() }),
  1: (r) => ({ type: 'Hello', version: r.u16(), maxCount: r.u32(), maxInFlight: r.u32() }),
  2: (r) => ({ type: 'Ids', runs: [run(r), ...r.list(12, run)] }),
  3: (r) => ({ type: 'Time', unixMs: r.u64() }),
  4: (r) => ({ type: 'Status', status: status(r) }),
  6: () => ({ type: 'Goodbye' }),
};

function run(r) {
  return { first: r.u64(), count: r.u32() };
}

function status(r) {
  return {
    version: r.str(),
    pid: r.u32(),
    uptimeMs: r.u64(),
    connections: r.u32(),
    requests: r.u64(),
    stateDir: r.str(),
    segments: {
      store: r.str(),
      storeError: r.str(),
      tags: r.u64(),
      waiting: r.u64(),
      issued: r.u64(),
      leases: r.u64(),
    },
    snowflake: {
      state: snowflakeState(r),
      worker: r.option(() => r.u64()),
      registry: r.str(),
      layout: r.str(),
      ceilingUnixMs: r.u64(),
      lastUnixMs: r.u64(),
      clockUnixMs: r.u64(),
      issued: r.u64(),
      identity: r.str(),
      lastReportMsAgo: r.option(() => r.u64()),
      registryError: r.str(),
      limitUnixMs: r.option(() => r.u64()),
      clockOffsetMs: r.option(() => r.i64()),
      peers: r.u32(),
    },
  };
}

function snowflakeState(r) {
  const number = r.u32();
  switch (number) {
    case 0:
      return { variant: 'Serving' };
    case 1:
      return { variant: 'ClockBehind', behindMs: r.u64() };
    case 2:
      return { variant: 'Refused', reason: r.str() };
    case 3:
      return { variant: 'Starting', reason: r.str() };
    default:
      throw new ProtocolError(`it sent the snowflake state ${number}, which is unknown`);
  }
}

/** Reads the fields of a body in order. Reading past the end throws. */
class Reader {
  #body;
  #at = 0;

  constructor(body) {
    this.#body = body;
  }

  #take(length) {
    const at = this.#at;
    if (length > this.#body.length - at) {
      throw new ProtocolError('it sent a message that ends within a field');
    }
    this.#at = at + length;
    return at;
  }

  #byte() {
    return this.#body[this.#take(1)];
  }

  u16() {
    return this.#body.readUInt16LE(this.#take(2));
  }

  u32() {
    return this.#body.readUInt32LE(this.#take(4));
  }

  u64() {
    return this.#body.readBigUInt64LE(this.#take(8));
  }

  i64() {
    return this.#body.readBigInt64LE(this.#take(8));
  }

  str() {
    const length = this.#length(1);
    const at = this.#take(length);
    const bytes = this.#body.subarray(at, at + length);
    const text = bytes.toString('utf8');
    // Node replaces what is not UTF-8, so only UTF-8 survives the way there and back.
    if (!Buffer.from(text, 'utf8').equals(bytes)) {
      throw new ProtocolError('it sent a text that is not UTF-8');
    }
    return text;
  }

  option(read) {
    const flag = this.#byte();
    if (flag > 1) {
      throw new ProtocolError(`it sent an option with the byte ${flag}`);
    }
    return flag === 0 ? null : read(this);
  }

  /** A list of elements that have at least `size` bytes each. */
  list(size, read) {
    const length = this.#length(size);
    const elements = [];
    for (let index = 0; index < length; index += 1) {
      elements.push(read(this));
    }
    return elements;
  }

  /** A length of elements that fit into the rest of the body. */
  #length(size) {
    const length = this.u64();
    if (length * BigInt(size) > BigInt(this.#body.length - this.#at)) {
      throw new ProtocolError(`it sent a length of ${length}, which exceeds the message`);
    }
    return Number(length);
  }

  end() {
    const left = this.#body.length - this.#at;
    if (left > 0) {
      throw new ProtocolError(`it sent a message with ${left} bytes left over`);
    }
  }
}

module.exports = {
  FrameReader,
  MAX_RESPONSE_LENGTH,
  UNSOLICITED,
  VERSION,
  decodeResponse,
  decodeResponseFrame,
  encodeRequest,
};
