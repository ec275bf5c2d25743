'use strict';

// The bytes of the protocol: frames, requests and replies. No socket, no state of a connection.
// Every length is checked before memory is allocated for it.

const { ProtocolError } = require('./errors.js');

/** The version of the protocol that this package speaks. */
const VERSION = 1;

/** The ID of unsolicited messages: errors about the connection, and `Goodbye`. */
const UNSOLICITED = 0;

const HEADER_LENGTH = 4;

/** The limit on the body of a response, in bytes. */
const MAX_RESPONSE_LENGTH = 256 * 1024;

const MAGIC = Buffer.from('LEAF', 'latin1');

const CALLS = { Hello: 0, Segment: 1, Snowflake: 2, Time: 3, Status: 4 };

/** The bytes of a call's fields, without those of a tag. */
const FIELD_BYTES = { Hello: 6, Segment: 16, Snowflake: 8, Time: 0, Status: 0 };

/** The limit on a tag, in characters of at most 4 bytes. */
const MAX_TAG_CHARACTERS = 128;

/** The longest frame of a request: that of the longest tag. */
const MAX_REQUEST_BYTES = HEADER_LENGTH + 12 + FIELD_BYTES.Segment + 4 * MAX_TAG_CHARACTERS;

/** A batch is full at this many bytes. */
const BATCH_BYTES = 64 * 1024;

/** Encodes a request as a frame. `id` is a bigint. */
function encodeRequest(id, call) {
  if (CALLS[call.type] === undefined) {
    throw new TypeError(`this package has no call ${call.type}`);
  }
  const tag = call.type === 'Segment' ? Buffer.from(call.tag) : null;
  const frame = Buffer.allocUnsafe(frameLength(call, tag));
  put(frame, 0, call, tag, call.timeoutMs);
  frame.writeBigUInt64LE(id, 4);
  return frame;
}

function frameLength(call, tag) {
  return HEADER_LENGTH + 12 + FIELD_BYTES[call.type] + (tag === null ? 0 : tag.length);
}

/** Puts a frame into `bytes`, but for the ID. Returns where it ends. */
function put(bytes, at, call, tag, timeoutMs) {
  const end = at + frameLength(call, tag);
  bytes.writeUInt32BE(end - at - HEADER_LENGTH, at);
  bytes.writeUInt32LE(CALLS[call.type], at + 12);
  switch (call.type) {
    case 'Hello':
      bytes.set(MAGIC, at + 16);
      bytes.writeUInt16LE(call.version, at + 20);
      break;
    case 'Segment':
      bytes.writeUInt32LE(tag.length, at + 16);
      bytes.writeUInt32LE(0, at + 20);
      bytes.set(tag, at + 24);
      bytes.writeUInt32LE(call.count, end - 8);
      bytes.writeUInt32LE(timeoutMs, end - 4);
      break;
    case 'Snowflake':
      bytes.writeUInt32LE(call.count, end - 8);
      bytes.writeUInt32LE(timeoutMs, end - 4);
      break;
  }
  return end;
}

/** Requests for one write, in memory that all batches share. IDs are numbers. */
class RequestBatch {
  #bytes = Buffer.allocUnsafeSlow(BATCH_BYTES + MAX_REQUEST_BYTES);
  #end = 0;
  /** The last frames, since most batches are of the same length. */
  #frames = this.#bytes;
  /** The last tag and its bytes, since most callers use one tag again and again. */
  #tag = null;
  #tagBytes = null;

  get isFull() {
    return this.#end >= BATCH_BYTES;
  }

  add(id, call, timeoutMs) {
    const at = this.#end;
    const tag = call.type === 'Segment' ? this.#encoded(call.tag) : null;
    this.#end = put(this.#bytes, at, call, tag, timeoutMs);
    this.#bytes.writeUInt32LE(id % 2 ** 32, at + 4);
    this.#bytes.writeUInt32LE(Math.floor(id / 2 ** 32), at + 8);
  }

  #encoded(tag) {
    if (tag !== this.#tag) {
      this.#tag = tag;
      this.#tagBytes = Buffer.from(tag);
    }
    return this.#tagBytes;
  }

  /** The frames so far. Those of the next batch overwrite them. */
  take() {
    if (this.#frames.length !== this.#end) this.#frames = this.#bytes.subarray(0, this.#end);
    this.#end = 0;
    return this.#frames;
  }
}

/** Cuts a stream of bytes into the bodies of responses, however the bytes are split. */
class FrameReader {
  #chunk = null;
  #at = 0;
  #end = 0;
  #header = Buffer.alloc(HEADER_LENGTH);
  #headerFilled = 0;
  #body = null;
  #bodyFilled = 0;

  /** Gives the reader the first `length` bytes of `chunk`, which must not change until `next` has nothing more. */
  feed(chunk, length) {
    this.#chunk = chunk;
    this.#at = 0;
    this.#end = length;
  }

  /** The next body, valid until the one after it is asked for, or null if it needs more bytes. */
  next() {
    while (this.#at < this.#end) {
      if (this.#body === null) {
        const length = this.#length();
        if (length === null) return null;
        checkLength(length);
        if (this.#end - this.#at >= length) {
          this.#at += length;
          return this.#chunk.subarray(this.#at - length, this.#at);
        }
        this.#body = Buffer.allocUnsafe(length);
        this.#bodyFilled = 0;
      }
      this.#bodyFilled += this.#fill(this.#body, this.#bodyFilled);
      if (this.#bodyFilled === this.#body.length) {
        const body = this.#body;
        this.#body = null;
        return body;
      }
    }
    return null;
  }

  /** Reads a header. Null if it is not complete yet. */
  #length() {
    if (this.#headerFilled === 0 && this.#end - this.#at >= HEADER_LENGTH) {
      this.#at += HEADER_LENGTH;
      return this.#chunk.readUInt32BE(this.#at - HEADER_LENGTH);
    }
    this.#headerFilled += this.#fill(this.#header, this.#headerFilled);
    if (this.#headerFilled < HEADER_LENGTH) return null;
    this.#headerFilled = 0;
    return this.#header.readUInt32BE(0);
  }

  /** Copies what `target` lacks, or what there is. Returns how many bytes that were. */
  #fill(target, filled) {
    const copied = this.#chunk.copy(target, filled, this.#at, this.#end);
    this.#at += copied;
    return copied;
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
  return { id: reader.u64(), reply: decodeReply(reader) };
}

/** As `decodeResponse`, but the ID is a number. It is a bigint if no number can hold it: nobody used that ID. */
function decodeAnswer(body) {
  const reader = new Reader(body);
  return { id: reader.id(), reply: decodeReply(reader) };
}

function decodeReply(reader) {
  const number = reader.u32();
  const decode = REPLIES[number];
  if (decode === undefined) {
    throw new ProtocolError(`it sent reply ${number}, which is unknown or answers no call of this client`);
  }
  const reply = decode(reader);
  reader.end();
  return reply;
}

function asBuffer(bytes) {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** By number. `Tags` (5) and `Workers` (7) answer administrative calls, which this package lacks. */
const REPLIES = {
  0: (r) => ({ type: 'Error', code: r.u16(), retryAfterMs: r.u32(), detail: r.u64(), text: r.str() }),
  1: (r) => ({ type: 'Hello', version: r.u16(), maxCount: r.u32(), maxInFlight: r.u32() }),
  2: (r) => ({ type: 'Ids', runs: r.list(12, run, [run(r)]) }),
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

  id() {
    const at = this.#take(8);
    const high = this.#body.readUInt32LE(at + 4);
    if (high >= 2 ** 21) return this.#body.readBigUInt64LE(at);
    return high * 2 ** 32 + this.#body.readUInt32LE(at);
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

  /** A list of elements that have at least `size` bytes each, behind those that there are. */
  list(size, read, elements) {
    const length = this.#length(size);
    for (let index = 0; index < length; index += 1) {
      elements.push(read(this));
    }
    return elements;
  }

  /** A length of elements that fit into the rest of the body. */
  #length(size) {
    const length = Number(this.u64());
    if (length * size > this.#body.length - this.#at) {
      throw new ProtocolError(`it sent a length of ${length}, which exceeds the message`);
    }
    return length;
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
  MAX_TAG_CHARACTERS,
  RequestBatch,
  UNSOLICITED,
  VERSION,
  decodeAnswer,
  decodeResponse,
  decodeResponseFrame,
  encodeRequest,
};
