'use strict';

// One connection: it says hello, cuts the stream into messages, and tells its owner what they mean. It
// ends once, with one failure, and says nothing after that.

const net = require('node:net');
const { Deadline } = require('./clock.js');
const { ProtocolError } = require('./errors.js');
const { Failure } = require('./failure.js');
const { FrameReader, RequestBatch, UNSOLICITED, VERSION, decodeAnswer } = require('./wire.js');

const HELLO_ID = 1;

/** The ID of the first call on a connection. */
const FIRST_CALL_ID = 2;

/** How long to read from a connection after the daemon said goodbye or a write failed. */
const DRAIN_MS = 100;

/** The most bytes that are read at once. */
const READ_BYTES = 64 * 1024;

const SHUTTING_DOWN = 309;

const GREETING = 'greeting';
const OPEN = 'open';
const ENDING = 'ending';
const OVER = 'over';

class Connection {
  #path;
  #owner;
  #socket;
  #frames = new FrameReader();
  #requests = new RequestBatch();
  #phase = GREETING;
  #timer;
  /** Once the daemon says goodbye or a write fails: the failure to report when nothing more comes. */
  #why;

  /**
   * Starts to connect. `owner` has `opened(limits)`, `answered(id, reply)`, `turnedAway(id)`, `ready()`
   * after each batch of messages and whenever the socket takes more bytes, and `lost(failure)`.
   */
  constructor(path, helloTimeoutMs, owner) {
    this.#path = path;
    this.#owner = owner;
    this.#timer = new Deadline(helloTimeoutMs, () => this.#lose(this.#ended('it did not say hello in time')), {
      keepsAlive: false,
    });
    this.#socket = new Socket({
      read: (bytes, length) => this.#read(bytes, length),
      writeFailed: (error) => this.#writeFailed(error),
    })
      .on('connect', () => {
        this.#requests.add(HELLO_ID, { type: 'Hello', version: VERSION });
        this.flush();
      })
      .on('drain', () => this.#phase !== OVER && this.#owner.ready())
      .on('end', () => this.#lose(this.#why ?? this.#ended('the daemon closed the connection')))
      .on('error', (error) => this.#lose(this.#why ?? Failure.io(this.#path, error)))
      .on('close', () => this.#lose(this.#why ?? this.#ended('the connection was closed')));
    // The timers of the calls keep the process alive while somebody waits; a connection does not.
    this.#socket.unref();
    this.#socket.connect({ path });
  }

  /** Whether the daemon has answered `Hello`, and the connection has not ended. */
  get isOpen() {
    return this.#phase === OPEN || this.#phase === ENDING;
  }

  /** Whether requests may be sent now. */
  get takesRequests() {
    return this.#phase === OPEN && !this.#socket.writableNeedDrain;
  }

  /** Whether the last answers are being read. */
  get isEnding() {
    return this.#phase === ENDING;
  }

  /** Whether the socket has not taken all bytes yet. */
  get isBackedUp() {
    return this.#socket.writableLength > 0;
  }

  /** The requests that the next `flush` writes. */
  get requests() {
    return this.#requests;
  }

  flush() {
    this.#socket.write(this.#requests.take());
    // A socket that has not taken all bytes still needs them.
    if (this.isBackedUp) this.#requests = new RequestBatch();
  }

  /** The owner has what it was waiting for in the phase `ending`. */
  finish() {
    this.#lose(this.#why);
  }

  /** Ends the connection for the owner's own reasons. */
  abandon(message) {
    this.#lose(this.#ended(message));
  }

  /** Ends the connection because of what the owner found in an answer. */
  violated(error) {
    this.#lose(Failure.protocol(error));
  }

  /** Ends the connection without telling the owner. */
  destroy() {
    this.#phase = OVER;
    this.#timer.cancel();
    this.#socket.destroy();
  }

  #read(bytes, length) {
    if (this.#phase === OVER) return;
    try {
      this.#frames.feed(bytes, length);
      for (let body = this.#frames.next(); body !== null; body = this.#frames.next()) {
        this.#understand(decodeAnswer(body));
        if (this.#phase === OVER) return;
      }
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      this.#lose(Failure.protocol(error));
      return;
    }
    this.#owner.ready();
  }

  #understand({ id, reply }) {
    const isError = reply.type === 'Error';
    if (reply.type === 'Goodbye' || (isError && reply.code === SHUTTING_DOWN)) {
      const why = this.#ended('the daemon is stopping');
      if (this.#phase === GREETING) {
        this.#lose(why);
        return;
      }
      // Requests that crossed with the goodbye are turned away one by one.
      if (isError && id !== UNSOLICITED) this.#owner.turnedAway(id);
      this.#end(why);
    } else if (isError && (id === UNSOLICITED || (id === HELLO_ID && this.#phase === GREETING))) {
      this.#lose(Failure.refused(reply));
    } else if (id === UNSOLICITED) {
      throw new ProtocolError(`it sent ${reply.type} without being asked`);
    } else if (this.#phase === GREETING) {
      this.#welcome(id, reply);
    } else {
      this.#owner.answered(id, reply);
    }
  }

  #welcome(id, reply) {
    if (id !== HELLO_ID) {
      throw new ProtocolError(`it answered request ${id}, which was never sent`);
    }
    if (reply.type !== 'Hello') {
      throw new ProtocolError(`it answered with ${reply.type} instead of Hello`);
    }
    if (reply.version !== VERSION) {
      throw new ProtocolError(`it chose protocol version ${reply.version}, which was not offered`);
    }
    this.#timer.cancel();
    this.#phase = OPEN;
    this.#owner.opened({
      maxCount: Math.max(1, reply.maxCount),
      maxInFlight: Math.max(1, reply.maxInFlight),
    });
  }

  /** The reason why a write failed may be there to be read: the daemon may have sent it and closed. */
  #writeFailed(error) {
    if (this.#phase === OVER) return;
    this.#end(Failure.io(this.#path, error));
    this.#owner.ready();
  }

  /** Sends nothing more, and reads what still comes, for a moment. */
  #end(why) {
    if (this.#phase === OVER || this.#phase === ENDING) return;
    if (this.#phase === OPEN) this.#phase = ENDING;
    this.#why = why;
    this.#timer.cancel();
    this.#timer = new Deadline(DRAIN_MS, () => this.#lose(why), { keepsAlive: false });
  }

  #lose(failure) {
    if (this.#phase === OVER) return;
    this.destroy();
    this.#owner.lost(failure);
  }

  #ended(message) {
    return Failure.ended(this.#path, message);
  }
}

/**
 * A socket that a failed write does not destroy: Node would throw away what there is to read. It reads into
 * the same buffer again and again, so `read` must not keep the bytes.
 */
class Socket extends net.Socket {
  #writeFailed;

  constructor({ read, writeFailed }) {
    const buffer = Buffer.allocUnsafeSlow(READ_BYTES);
    const callback = (length) => {
      read(buffer, length);
      return true;
    };
    super({ allowHalfOpen: true, onread: { buffer, callback } });
    this.#writeFailed = writeFailed;
  }

  _write(chunk, encoding, callback) {
    super._write(chunk, encoding, this.#survivor(callback));
  }

  _writev(chunks, callback) {
    super._writev(chunks, this.#survivor(callback));
  }

  #survivor(callback) {
    return (error) => {
      if (!error || this.destroyed) {
        callback(error);
        return;
      }
      callback();
      this.#writeFailed(error);
    };
  }
}

module.exports = { Connection, FIRST_CALL_ID };
