'use strict';

// Forms of the number alone: other digits, with an optional prefix.

const { InvalidError } = require('../errors.js');
const { MAX_ID } = require('../ids.js');
const { checkId, checkText, quote, wrong, wrongCharacter } = require('./check.js');

/** How many decimal digits the highest ID has. */
const MAX_DIGITS = 19;

const DIGITS = '0123456789';
const UPPER = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ';
const CROCKFORD = `${DIGITS}ABCDEFGHJKMNPQRSTVWXYZ`;

/** Alphabets in the order of ASCII at a fixed width, so that texts sort as the numbers do. */
const NUMERALS = {
  __proto__: null,
  base62: {
    symbols: DIGITS + UPPER + UPPER.toLowerCase(),
    width: 11,
    hint: () => 'a letter of a to z or A to Z or a digit is expected',
  },
  base36: {
    symbols: DIGITS + UPPER.toLowerCase(),
    width: 13,
    hint: (found) => (/[A-Z]/.test(found) ? 'write lowercase letters' : 'a letter of a to z or a digit is expected'),
  },
  crockford32: { symbols: CROCKFORD, width: 13, checks: `${CROCKFORD}*~$=U`, hint: crockfordHint },
};

function crockfordHint(found) {
  if (/[ILil]/.test(found)) return 'write the digit 1';
  if (/[Oo]/.test(found)) return 'write the digit 0';
  if (/[a-z]/.test(found)) return 'write capital letters';
  return 'a digit or a capital letter other than I, L, O and U is expected';
}

function encode(form, id) {
  const { prefix, numeral, width } = parseForm(form);
  checkId(id);
  return prefix + (numeral === undefined ? padded(id, width) : encodeNumeral(numeral, id));
}

function decode(form, text) {
  const { prefix, numeral, width } = parseForm(form);
  checkText('a text', text);
  if (!text.startsWith(prefix)) throw wrongPrefix(text, prefix);
  return numeral === undefined ? readPadded(text, prefix.length, width) : decodeNumeral(numeral, text, prefix.length);
}

function wrongPrefix(text, prefix) {
  let at = 0;
  while (text[at] === prefix[at]) at += 1;
  if (at === text.length) return wrong(text, `it ends within the prefix ${JSON.stringify(prefix)}`);
  return wrongCharacter(text, at, `the prefix ${JSON.stringify(prefix)} is expected`);
}

/** The prefix with its underscore, and either a numeral or how many decimal digits there are at least. */
function parseForm(form) {
  checkText('a form', form);
  const name = form.slice(form.lastIndexOf('_') + 1);
  const prefix = form.slice(0, form.length - name.length);
  const parsed = { prefix, ...formOf(name, form) };
  const bare = prefix.slice(0, -1);
  if (prefix !== '' && !/^[a-z](?:[a-z_]{0,61}[a-z])?$/.test(bare)) {
    throw new InvalidError(
      `prefix ${quote(bare)}: a prefix is 1 to 63 lowercase letters and underscores, and begins and ends with a letter`,
    );
  }
  return parsed;
}

function formOf(name, form) {
  if (name === 'decimal') return { width: 1 };
  if (name === 'padded') return { width: MAX_DIGITS };
  if (name.startsWith('padded')) {
    const digits = name.slice('padded'.length);
    if (!/^(?:[1-9]|1[0-9])$/.test(digits)) {
      const range = `1 to ${MAX_DIGITS} digits`;
      throw new InvalidError(`form ${quote(form)}: a number can be padded to ${range}, as in padded12`);
    }
    return { width: Number(digits) };
  }
  const numeral = NUMERALS[name];
  if (numeral === undefined) {
    throw new InvalidError(
      `there is no text form ${quote(form)}; there are decimal, base62, base36, crockford32 and padded[N], each with ` +
        'an optional prefix as in ord_base62. For UUIDs and ObjectIDs, use Snowflakes; for numbers of a day, Day',
    );
  }
  return { numeral };
}

function padded(id, width) {
  return String(id).padStart(width, '0');
}

/** The decimal digits behind a prefix. There are more than `width` only if the number needs them. */
function readPadded(text, prefix, width) {
  const digits = text.slice(prefix);
  const bad = digits.search(/[^0-9]/);
  if (bad >= 0) throw wrongCharacter(text, prefix + bad, 'a decimal digit is expected');
  if (digits.length < width) throw wrong(text, `${digits.length} digits instead of at least ${width}`);
  if (digits.length > width && digits[0] === '0') throw wrongCharacter(text, prefix, 'it is one zero too many');
  // Bounded before it is converted: a number of a million digits takes long.
  if (digits.length > MAX_DIGITS) throw tooHigh(text);
  return inRange(text, BigInt(digits));
}

function encodeNumeral({ symbols, width, checks }, id) {
  const base = BigInt(symbols.length);
  let text = '';
  for (let left = id; text.length < width; left /= base) text = symbols[Number(left % base)] + text;
  return checks === undefined ? text : text + checkOf(checks, id);
}

function checkOf(checks, id) {
  return checks[Number(id % BigInt(checks.length))];
}

function decodeNumeral({ symbols, width, checks, hint }, text, prefix) {
  const digits = checks === undefined ? text.slice(prefix) : text.slice(prefix, prefix + width);
  for (let at = 0; at < digits.length; at += 1) {
    if (!symbols.includes(digits[at])) throw wrongCharacter(text, prefix + at, hint(digits[at]));
  }
  const check = text.slice(prefix + digits.length);
  if (check !== '' && !checks.includes(check[0])) {
    const symbol = 'a digit, a capital letter other than I, L and O, or one of * ~ $ =';
    throw wrongCharacter(text, prefix + width, `a check symbol is expected: ${symbol}`);
  }
  const length = prefix + width + (checks === undefined ? 0 : 1);
  if (text.length !== length) throw wrong(text, `${[...text].length} characters instead of ${length}`);
  let id = 0n;
  for (const symbol of digits) id = id * BigInt(symbols.length) + BigInt(symbols.indexOf(symbol));
  inRange(text, id);
  if (checks !== undefined && check !== checkOf(checks, id)) {
    const [found, expected] = [check, checkOf(checks, id)].map((symbol) => JSON.stringify(symbol));
    throw wrong(text, `the check symbol is ${found}, but ${expected} belongs to this number: something is mistyped`);
  }
  return id;
}

function inRange(text, id) {
  if (id > MAX_ID) throw tooHigh(text);
  return id;
}

function tooHigh(text) {
  return wrong(text, 'the number is above 2^63 - 1, so it is no ID');
}

module.exports = { decode, encode, padded, readPadded };
