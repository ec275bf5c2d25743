'use strict';

// Numbers that start over every day, as in 20261122-000017. The date is in the tag, so whatever the clock does, a
// number of a day comes from that day's tag.

const { InvalidError } = require('../errors.js');
const { shown } = require('../options.js');
const { checkId, checkText, quote, wrong, wrongCharacter } = require('./check.js');
const { padded, readPadded } = require('./text.js');

const MS_PER_MINUTE = 60_000;
const MINUTES_PER_DAY = 24 * 60;
const MS_PER_DAY = MS_PER_MINUTE * MINUTES_PER_DAY;

const LAST_DAY = Date.UTC(9999, 11, 31) / MS_PER_DAY;

/** How many digits the number has at least. */
const DIGITS = 6;

class Day {
  /** Counted from 1970-01-01. */
  #number;

  constructor(year, month, dayOfMonth) {
    const isWhole = [year, month, dayOfMonth].every(Number.isInteger);
    const ms = isWhole ? Date.UTC(year, month - 1, dayOfMonth) : NaN;
    const date = new Date(ms);
    // Date would take the 30th of February for the 1st or 2nd of March, and the year 70 for 1970.
    const isDate =
      date.getUTCFullYear() === year && date.getUTCMonth() + 1 === month && date.getUTCDate() === dayOfMonth;
    if (!isDate || year < 1970 || year > 9999) {
      const given = [year, month, dayOfMonth].map(shown).join('-');
      throw new InvalidError(`${given} is no date from 1970-01-01 to 9999-12-31`);
    }
    this.#number = ms / MS_PER_DAY;
  }

  static at(time, zone) {
    const ahead = parseZone(zone);
    const isTime = typeof time === 'number' || typeof time === 'bigint' || time instanceof Date;
    const ms = isTime ? Number(time) : NaN;
    if (Number.isNaN(ms)) {
      throw new InvalidError(`a time must be a Date or milliseconds since 1970, not ${shown(time)}`);
    }
    const number = Math.floor((Math.floor(ms / MS_PER_MINUTE) + ahead) / MINUTES_PER_DAY);
    const date = new Date(Math.min(Math.max(number, 0), LAST_DAY) * MS_PER_DAY);
    return new Day(date.getUTCFullYear(), date.getUTCMonth() + 1, date.getUTCDate());
  }

  static parse(text) {
    checkText('a text', text);
    const example = '20261122-000017';
    const length = '20261122'.length;
    const bad = text.slice(0, length).search(/[^0-9]/);
    if (bad >= 0) throw wrongCharacter(text, bad, `a date of ${length} digits is expected first, as in ${example}`);
    if (text.length <= length) throw wrong(text, `a date, a hyphen and a number are expected, as in ${example}`);
    if (text[length] !== '-') throw wrongCharacter(text, length, 'a hyphen is expected');
    let day;
    try {
      day = new Day(Number(text.slice(0, 4)), Number(text.slice(4, 6)), Number(text.slice(6, length)));
    } catch {
      throw wrong(text, `${text.slice(0, length)} is no date from 19700101 to 99991231`);
    }
    return { day, id: readPadded(text, length + 1, DIGITS) };
  }

  get year() {
    return this.#date().getUTCFullYear();
  }

  get month() {
    return this.#date().getUTCMonth() + 1;
  }

  get dayOfMonth() {
    return this.#date().getUTCDate();
  }

  tag(base) {
    return `${checkText('a tag', base)}-${this}`;
  }

  text(id) {
    return `${this}-${padded(checkId(id), DIGITS)}`;
  }

  toString() {
    return this.#date().toISOString().slice(0, 10).replaceAll('-', '');
  }

  #date() {
    return new Date(this.#number * MS_PER_DAY);
  }
}

/** How many minutes a zone is ahead of UTC. */
function parseZone(zone) {
  if (zone === 'UTC') return 0;
  checkText('a time zone', zone);
  const [, sign, hours, rest] = /^([+-])([0-9]{2}):([0-5][0-9])$/.exec(zone) ?? [];
  const minutes = Number(hours) * 60 + Number(rest);
  if (sign === undefined || minutes > 18 * 60) {
    throw new InvalidError(
      `time zone ${quote(zone)}: write UTC, or hours and minutes from it, at most 18 hours, such as +08:00 or -03:30`,
    );
  }
  return sign === '-' ? -minutes : minutes;
}

module.exports = { Day };
