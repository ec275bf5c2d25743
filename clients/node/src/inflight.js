'use strict';

/** A power of two. The IDs in flight are close together, so a slot rarely has two. */
const SLOTS = 256;

/**
 * The requests in flight on one connection, by ID, each until it is answered. A `Map` would copy its table
 * every few calls, and keep the garbage collector busy with the copies.
 *
 * A request can be abandoned: nobody waits for it, but the daemon still counts it, and its ID must not be
 * used again.
 */
class InFlight {
  #slots = new Array(SLOTS).fill(null);
  #size = 0;
  #abandoned = 0;

  /** How many requests have no answer. */
  get size() {
    return this.#size;
  }

  get abandoned() {
    return this.#abandoned;
  }

  /** How many requests have no answer and a caller. */
  get awaited() {
    return this.#size - this.#abandoned;
  }

  add(call) {
    const slot = call.id & (SLOTS - 1);
    call.isSent = true;
    call.nextInSlot = this.#slots[slot];
    this.#slots[slot] = call;
    this.#size += 1;
  }

  /** Removes the call with this ID and returns it; undefined if there is none. */
  take(id) {
    const slot = Number(id) & (SLOTS - 1);
    let before = null;
    let call = this.#slots[slot];
    while (call !== null && call.id !== id) {
      before = call;
      call = call.nextInSlot;
    }
    if (call === null) return undefined;
    if (before === null) this.#slots[slot] = call.nextInSlot;
    else before.nextInSlot = call.nextInSlot;
    call.nextInSlot = null;
    call.isSent = false;
    this.#size -= 1;
    if (call.isAbandoned) this.#abandoned -= 1;
    return call;
  }

  abandon(call) {
    call.isAbandoned = true;
    this.#abandoned += 1;
  }

  /** Removes all calls and returns those with a caller, in no order. */
  takeAll() {
    const calls = [];
    for (let slot = 0; slot < SLOTS; slot += 1) {
      while (this.#slots[slot] !== null) {
        const call = this.take(this.#slots[slot].id);
        if (!call.isAbandoned) calls.push(call);
      }
    }
    return calls;
  }
}

module.exports = { InFlight };
