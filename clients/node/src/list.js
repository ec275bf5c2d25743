'use strict';

/** A queue from which any element can be removed at once. An element is in one list at most. */
class List {
  #head = null;
  #tail = null;

  get first() {
    return this.#head;
  }

  get isEmpty() {
    return this.#head === null;
  }

  push(element) {
    element.previous = this.#tail;
    element.next = null;
    element.list = this;
    if (this.#tail === null) this.#head = element;
    else this.#tail.next = element;
    this.#tail = element;
  }

  remove(element) {
    if (element.list !== this) return;
    const { previous, next } = element;
    if (previous === null) this.#head = next;
    else previous.next = next;
    if (next === null) this.#tail = previous;
    else next.previous = previous;
    element.previous = null;
    element.next = null;
    element.list = null;
  }

  /** Removes the first element and returns it. */
  shift() {
    const element = this.#head;
    if (element !== null) this.remove(element);
    return element;
  }

  /** Removes all elements and returns them in order. */
  takeAll() {
    const elements = [];
    for (let element = this.shift(); element !== null; element = this.shift()) elements.push(element);
    return elements;
  }
}

module.exports = { List };
