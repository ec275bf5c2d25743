'use strict';

// A daemon that does what a test tells it. Each request goes to a function of the test.

const fs = require('node:fs');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');

/** Encodes a response as a frame. `id` is a bigint or a number. */
function response(id, reply) {
  const bytes = [u64(id), ...reply];
  const body = Buffer.concat(bytes);
  const header = Buffer.alloc(4);
  header.writeUInt32BE(body.length);
  return Buffer.concat([header, body]);
}

const replies = {
  error: (code, { retryAfterMs = 0, detail = 0n, text = 'no' } = {}) => [
    u32(0),
    u16(code),
    u32(retryAfterMs),
    u64(detail),
    str(text),
  ],
  hello: ({ version = 1, maxCount = 100_000, maxInFlight = 1024 } = {}) => [
    u32(1),
    u16(version),
    u32(maxCount),
    u32(maxInFlight),
  ],
  ids: (...runs) => {
    const [[first, count], ...more] = runs;
    return [u32(2), u64(first), u32(count), u64(more.length), ...more.flatMap(([at, n]) => [u64(at), u32(n)])];
  },
  time: (unixMs) => [u32(3), u64(unixMs)],
  goodbye: () => [u32(6)],
  unknown: () => [u32(99)],
};

function u16(value) {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16LE(value);
  return bytes;
}

function u32(value) {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

function u64(value) {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}

function str(text) {
  const bytes = Buffer.from(text);
  return Buffer.concat([u64(bytes.length), bytes]);
}

class FakeDaemon {
  connections = [];
  /** Every request but `Hello`, in the order of arrival. */
  requests = [];
  /** The next ID of `give`. */
  nextId = 1n;

  constructor(folder, onRequest, { hello, onConnect }) {
    this.folder = folder;
    this.path = path.join(folder, 's');
    this.onRequest = onRequest;
    this.hello = hello;
    this.onConnect = onConnect;
  }

  /**
   * Starts a daemon. `onRequest(request, peer)` gets every request but `Hello`. A peer has `reply(reply)`
   * with an optional ID, and its socket. `hello` are the limits, or null for a daemon that does not answer.
   */
  static async start(onRequest = (request, peer) => peer.daemon.give(request, peer), options = {}) {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'leafd-node-'));
    const daemon = new FakeDaemon(folder, onRequest, options);
    await daemon.listen();
    return daemon;
  }

  async listen() {
    this.server = net.createServer({ allowHalfOpen: true }, (socket) => this.#accept(socket));
    await new Promise((resolve) => this.server.listen(this.path, resolve));
  }

  #accept(socket) {
    const peer = {
      daemon: this,
      socket,
      number: this.connections.length,
      send: (...frames) => socket.write(Buffer.concat(frames)),
      reply: (reply, id = 0) => socket.write(response(id, reply)),
      isClosed: false,
    };
    this.connections.push(peer);
    socket.on('error', () => {});
    socket.on('end', () => socket.end());
    socket.on('close', () => {
      peer.isClosed = true;
    });
    if (this.onConnect?.(peer) === false) return;
    let rest = Buffer.alloc(0);
    socket.on('data', (chunk) => {
      rest = Buffer.concat([rest, chunk]);
      while (rest.length >= 4 && rest.length >= 4 + rest.readUInt32BE(0)) {
        const body = rest.subarray(4, 4 + rest.readUInt32BE(0));
        rest = rest.subarray(4 + body.length);
        this.#receive(body, peer);
      }
    });
  }

  #receive(body, peer) {
    const id = body.readBigUInt64LE(0);
    const number = body.readUInt32LE(8);
    if (number === 0) {
      if (this.hello !== null) peer.reply(replies.hello(this.hello), id);
      return;
    }
    const request = { id, type: ['', 'Segment', 'Snowflake', 'Time', 'Status'][number] };
    if (number === 1 || number === 2) {
      request.count = body.readUInt32LE(body.length - 8);
      request.timeoutMs = body.readUInt32LE(body.length - 4);
    }
    this.requests.push(request);
    this.onRequest(request, peer);
  }

  /** Answers with the next IDs. */
  give({ id, count }, peer) {
    peer.reply(replies.ids([this.nextId, count]), id);
    this.nextId += BigInt(count);
  }

  /** Ends all connections and listens no more. */
  async stop() {
    for (const { socket } of this.connections) socket.destroy();
    await new Promise((resolve) => this.server.close(resolve));
    fs.rmSync(this.path, { force: true });
  }

  async end() {
    await this.stop();
    fs.rmSync(this.folder, { recursive: true, force: true });
  }
}

/** Runs a test with a daemon and things to close. */
async function withDaemon(onRequest, options, test) {
  const daemon = await FakeDaemon.start(onRequest, options);
  const open = [];
  const use = (closable) => {
    open.push(closable);
    return closable;
  };
  try {
    await test(daemon, use);
  } finally {
    for (const each of open) await each.close();
    await daemon.end();
  }
}

function sleep(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

async function until(condition) {
  for (let tries = 0; !condition(); tries += 1) {
    if (tries > 1000) throw new Error(`it never became true: ${condition}`);
    await sleep(5);
  }
}

module.exports = { FakeDaemon, replies, response, sleep, until, withDaemon };
