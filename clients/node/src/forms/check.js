'use strict';

// What is wrong with an argument of the forms: the value, its first wrong character, and the remedy.

const { InvalidError } = require('../errors.js');
const { MAX_ID } = require('../ids.js');

/** How many characters of a text an error shows. A text can be as long as an attacker likes. */
const SHOWN_CHARACTERS = 80;

function quote(text) {
  // A character takes at most two UTF-16 units.
  const characters = Array.from(text.slice(0, 2 * SHOWN_CHARACTERS + 2));
  const isLong = characters.length > SHOWN_CHARACTERS;
  return isLong ? `${JSON.stringify(characters.slice(0, SHOWN_CHARACTERS).join(''))}…` : JSON.stringify(text);
}

function wrong(text, why) {
  return new InvalidError(`${quote(text)}: ${why}`);
}

/** The error about the character at an index of a text in which only ASCII precedes it. */
function wrongCharacter(text, at, hint) {
  const found = String.fromCodePoint(text.codePointAt(at));
  return wrong(text, `character ${at + 1} is ${JSON.stringify(found)}: ${hint}`);
}

function checkId(id) {
  if (typeof id !== 'bigint') {
    throw new InvalidError(`an ID must be a bigint, not ${typeof id}: a number cannot hold all of them`);
  }
  if (id < 0n || id > MAX_ID) {
    throw new InvalidError(`${id} is not from 0 to 2^63 - 1, so it is no ID`);
  }
  return id;
}

function checkText(what, text) {
  if (typeof text !== 'string') {
    throw new InvalidError(`${what} must be a string, not ${typeof text}`);
  }
  return text;
}

/** What to write instead of a character where a lowercase hexadecimal digit is expected, or undefined. */
function hexHint(found) {
  if (/^[0-9a-f]$/.test(found)) return undefined;
  return /^[A-F]$/.test(found) ? 'write lowercase letters' : 'a hexadecimal digit is expected';
}

module.exports = { checkId, checkText, hexHint, quote, wrong, wrongCharacter };
