'use strict';

const assert = require('node:assert');
const fs = require('node:fs');
const path = require('node:path');
const { test } = require('node:test');

const { ProtocolError } = require('../src/errors.js');
const {
  FrameReader,
  MAX_RESPONSE_LENGTH,
  RequestBatch,
  decodeAnswer,
  decodeResponse,
  decodeResponseFrame,
  encodeRequest,
} = require('../src/wire.js');
const { replies, response } = require('./fake.js');

// The vectors belong to the repository and are not part of the package.
const FILE = path.join(__dirname, '../../../protocol/vectors.json');
const { vectors } = JSON.parse(fs.readFileSync(FILE, 'utf8'));

const CALLS = ['Hello', 'Segment', 'Snowflake', 'Time', 'Status'];
const REPLIES = ['Error', 'Hello', 'Ids', 'Time', 'Status', 'Goodbye'];

function bytesOf({ hex }) {
  return Buffer.from(hex.join('').replace(/\s/g, ''), 'hex');
}

function vectorsOf(direction, messages) {
  return vectors.filter((vector) => vector.direction === direction && messages.includes(vector.message));
}

/** The fields as the package names them. */
function camel(value) {
  if (typeof value === 'bigint') return String(value);
  if (Array.isArray(value)) return value.map(camel);
  if (value === null || typeof value !== 'object') return value;
  const name = (key) => key.replace(/_(.)/g, (_, letter) => letter.toUpperCase());
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [name(key), camel(each)]));
}

function expectedReply({ message, fields }) {
  const named = camel(fields);
  if (message === 'Ids') return { type: message, runs: [named.first, ...named.more] };
  if (message === 'Status') return { type: message, status: named };
  if (message === 'Error') {
    const { message: text, ...rest } = named;
    return { type: message, ...rest, text };
  }
  return { type: message, ...named };
}

test('every request of the vectors is encoded byte for byte', () => {
  const requests = vectorsOf('request', CALLS);
  assert.ok(requests.length >= 8);
  for (const vector of requests) {
    const { magic: _, ...fields } = camel(vector.fields);
    const frame = encodeRequest(BigInt(vector.id), { type: vector.message, ...fields });
    assert.strictEqual(frame.toString('hex'), bytesOf(vector).toString('hex'), vector.name);
  }
});

test('a batch holds the same bytes as the requests one by one, again and again', () => {
  const batch = new RequestBatch();
  const call = (type, fields) => ({ type, count: 7, timeoutMs: 4950, ...fields });
  const calls = [
    call('Segment', { tag: 'orders' }),
    call('Segment', { tag: 'orders' }),
    call('Segment', { tag: '🍃'.repeat(128) }),
    call('Snowflake'),
    call('Time'),
    call('Status'),
    call('Hello', { version: 1 }),
  ];
  let id = 2 ** 32 - 8;
  for (const length of [1, 1, 2, calls.length, 1, calls.length]) {
    const frames = [];
    for (const each of calls.slice(0, length)) {
      batch.add(id, each, each.timeoutMs);
      frames.push(encodeRequest(BigInt(id), each));
      id += 1;
    }
    assert.deepStrictEqual(batch.take(), Buffer.concat(frames));
  }
});

test('a batch is full before the longest request would not fit', () => {
  const batch = new RequestBatch();
  const longest = { type: 'Segment', tag: '🍃'.repeat(128), count: 2 ** 32 - 1 };
  let added = 0;
  for (; !batch.isFull; added += 1) batch.add(added, longest, 1);
  const frames = batch.take();
  assert.ok(frames.length >= 64 * 1024);
  assert.strictEqual(frames.length, added * encodeRequest(1n, { ...longest, timeoutMs: 1 }).length);
  assert.strictEqual(batch.isFull, false);
});

test('an ID is a number, and a bigint where a number would be another ID', () => {
  for (const [id, expected] of [
    [0n, 0],
    [2n ** 32n + 5n, 2 ** 32 + 5],
    [2n ** 53n - 1n, 2 ** 53 - 1],
    [2n ** 53n + 1n, 2n ** 53n + 1n],
    [2n ** 64n - 1n, 2n ** 64n - 1n],
  ]) {
    assert.strictEqual(decodeAnswer(response(id, replies.goodbye()).subarray(4)).id, expected);
  }
});

test('every response of the vectors is decoded to its fields', () => {
  const responses = vectorsOf('response', REPLIES);
  assert.ok(responses.length >= 12);
  for (const vector of responses) {
    const { id, reply } = decodeResponseFrame(new Uint8Array(bytesOf(vector)));
    assert.strictEqual(String(id), vector.id, vector.name);
    assert.deepStrictEqual(camel(reply), expectedReply(vector), vector.name);
  }
});

test('a response that is cut short or has a byte too many does not decode', () => {
  for (const vector of vectorsOf('response', REPLIES)) {
    const body = bytesOf(vector).subarray(4);
    for (let length = 0; length < body.length; length += 1) {
      assert.throws(() => decodeResponse(body.subarray(0, length)), ProtocolError, `${vector.name} ${length}`);
    }
    assert.throws(() => decodeResponse(Buffer.concat([body, Buffer.alloc(1)])), ProtocolError, vector.name);
  }
});

test('damaged bodies do not decode', () => {
  const damaged = {
    'an unknown reply': response(7, replies.unknown()),
    'a reply to a call that the client lacks': response(7, [Buffer.from('05000000', 'hex'), Buffer.alloc(8)]),
    'a text that is not UTF-8': response(7, [
      Buffer.from('00000000ca00000000000000000000000000', 'hex'),
      Buffer.from('0200000000000000c328', 'hex'),
    ]),
    'a list longer than the message': response(7, [
      Buffer.from('02000000' + '0100000000000000' + '01000000' + 'ffffffffffffff7f', 'hex'),
    ]),
  };
  for (const [name, frame] of Object.entries(damaged)) {
    assert.throws(() => decodeResponseFrame(frame), ProtocolError, name);
  }
  const status = bytesOf(vectors.find((vector) => vector.name === 'page-status-reply' || vector.message === 'Status' && vector.direction === 'response'));
  // The option byte of the worker: its value is 3 in the vector, after the state.
  const option = status.indexOf(Buffer.from('010300000000000000', 'hex'));
  assert.ok(option > 0);
  status[option] = 2;
  assert.throws(() => decodeResponseFrame(status), /option with the byte 2/);
});

test('a text keeps its byte order mark', () => {
  const { reply } = decodeResponseFrame(response(7, replies.error(202, { text: '\ufeffé🍃' })));
  assert.strictEqual(reply.text, '\ufeffé🍃');
});

/** The bodies that `chunk` completes. */
function bodiesOf(reader, chunk) {
  const bodies = [];
  reader.feed(chunk, chunk.length);
  for (let body = reader.next(); body !== null; body = reader.next()) bodies.push(body);
  return bodies;
}

test('frames come whole however the stream is cut', () => {
  const frames = [1, 2, 300].map((count) =>
    response(count, replies.ids(...Array.from({ length: count }, (_, index) => [index * 10 + 1, 5]))),
  );
  const stream = Buffer.concat(frames);
  for (const size of [1, 2, 3, 7, 100, stream.length]) {
    const reader = new FrameReader();
    const bodies = [];
    for (let at = 0; at < stream.length; at += size) {
      bodies.push(...bodiesOf(reader, stream.subarray(at, at + size)));
    }
    assert.deepStrictEqual(bodies, frames.map((frame) => frame.subarray(4)), `in pieces of ${size}`);
  }
});

test('a frame that is too long is refused by its header alone', () => {
  const header = Buffer.alloc(4);
  header.writeUInt32BE(MAX_RESPONSE_LENGTH + 1);
  assert.throws(() => bodiesOf(new FrameReader(), header), ProtocolError);
  header.writeUInt32BE(MAX_RESPONSE_LENGTH);
  assert.deepStrictEqual(bodiesOf(new FrameReader(), header), []);
});
