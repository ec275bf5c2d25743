import type { Layout } from './index.js';

// Forms of an ID. Every ID has exactly one text in each form, and no other text is read. Whatever is wrong throws an
// `InvalidError`, which names the text, its first wrong character and what can stand there. None of these forms hides
// the number: whoever sees two of them can count.

/**
 * The text of an ID in a form of the number alone: `decimal`, `base62`, `base36`, `crockford32`, `padded` or `padded1`
 * to `padded19`, each with an optional prefix as in `ord_base62`.
 */
export declare function encode(form: string, id: bigint): string;

/** The ID of a text in a form of the number alone. */
export declare function decode(form: string, text: string): bigint;

/**
 * A date whose IDs have a tag of their own, for numbers that start over every day. Read the clock once, and take the
 * tag and the text from the same `Day`: then the date in the text is the one that the number belongs to.
 */
export declare class Day {
  /** A date of the calendar, from 1970-01-01 to 9999-12-31. January is the month 1. */
  constructor(year: number, month: number, dayOfMonth: number);
  /**
   * The date at a time, a `Date` or milliseconds since 1970. The zone is `UTC`, or a distance such as `+08:00` or
   * `-03:30`, at most 18 hours. A time before 1970 or after 9999 has the first or the last day.
   */
  static at(time: Date | number | bigint, zone: string): Day;
  /** The day and the ID of a text that {@link Day.text} returned. */
  static parse(text: string): { day: Day; id: bigint };
  get year(): number;
  /** From 1 to 12. */
  get month(): number;
  get dayOfMonth(): number;
  /** The tag of this day's IDs, as in `invoices-20261122`. Ask for an ID of it, and pass the ID to {@link Day.text}. */
  tag(base: string): string;
  /** The text of an ID of this day's tag, as in `20261122-000017`. */
  text(id: bigint): string;
  /** The date, as in `20261122`. */
  toString(): string;
}

/** A form of a snowflake ID. */
export type SnowflakeForm = 'uuid7' | 'uuid8' | 'uuid1' | 'objectid';

/** Turns the snowflake IDs of one installation into UUIDs and ObjectIDs, and back. */
export declare class Snowflakes {
  /** The fleet ID is 10 lowercase hexadecimal digits, the same on all hosts of the installation. */
  constructor(layout: Layout, fleet: string);
  /** The text of a snowflake ID. */
  encode(form: SnowflakeForm, id: bigint): string;
  /** The snowflake ID of a text that {@link Snowflakes.encode} returned for this form. */
  decode(form: SnowflakeForm, text: string): bigint;
  /** Version 7: sorts as the snowflakes do. */
  uuid7(id: bigint): string;
  /** Version 8: the number itself, which needs no layout. Sorts as the numbers do. */
  uuid8(id: bigint): string;
  /** Version 1: time in 100 ns, clock sequence and node. Does not sort as the snowflakes do. */
  uuid1(id: bigint): string;
  /** Sorts as the snowflakes do, until 2106. */
  objectId(id: bigint): string;
  /** The snowflake ID of a UUID of version 1, 7 or 8. */
  idOf(uuid: string): bigint;
  /** The snowflake ID of an ObjectID. */
  idOfObjectId(objectId: string): bigint;
}

/** The namespace of {@link uuid5}. */
export declare const NAMESPACE: string;

/**
 * A UUID of version 5 for an ID of a tag. It is a hash: nothing turns it back into the ID. IDs of a tag are unique only
 * within the tag, and no other UUID has room for its name.
 */
export declare function uuid5(fleet: string, tag: string, id: bigint): string;
