'use strict';

// UUIDs by RFC 9562 as texts and as fields, the fleet ID, and the UUID that is a hash.

const { createHash } = require('node:crypto');

const { checkTag } = require('../options.js');
const { checkId, checkText, hexHint, wrong, wrongCharacter } = require('./check.js');

const NAMESPACE = '6c656166-642d-575d-a31b-5e0c8f419726';

/** The two bits that UUIDs by RFC 9562 have in common. */
const VARIANT = 0b10n;

const LENGTH = 36;
const HYPHENS = [8, 13, 18, 23];

/** The lowest `count` bits of a number. */
function lowest(count, bits) {
  return BigInt.asUintN(count, bits);
}

/** The text of 16 bytes in hexadecimal digits. */
function hyphenated(digits) {
  return [
    digits.slice(0, 8),
    digits.slice(8, 12),
    digits.slice(12, 16),
    digits.slice(16, 20),
    digits.slice(20),
  ].join('-');
}

/** The UUID of 48, 12 and 62 bits, with version and variant between them. */
function uuidOf(version, a, b, c) {
  const bits = (a << 80n) | (BigInt(version) << 76n) | (b << 64n) | (VARIANT << 62n) | c;
  return hyphenated(bits.toString(16).padStart(32, '0'));
}

/** The version, and the 48, 12 and 62 bits around version and variant. */
function readUuid(text) {
  checkText('a UUID', text);
  for (let at = 0; at < text.length; at += 1) {
    const isHyphen = HYPHENS.includes(at);
    let hint = isHyphen ? undefined : hexHint(text[at]);
    if (isHyphen && text[at] !== '-') hint = 'a hyphen is expected';
    if (at === LENGTH) hint = 'the UUID ends before it';
    if (hint !== undefined) throw wrongCharacter(text, at, hint);
  }
  if (text.length < LENGTH) throw wrong(text, `${text.length} characters instead of the ${LENGTH} of a UUID`);
  const bits = BigInt(`0x${text.replaceAll('-', '')}`);
  return {
    version: Number((bits >> 76n) & 15n),
    hasVariant: ((bits >> 62n) & 3n) === VARIANT,
    a: bits >> 80n,
    b: lowest(12, bits >> 64n),
    c: lowest(62, bits),
  };
}

/** The bits of a fleet ID. */
function readFleet(text) {
  checkText('a fleet ID', text);
  const remedy = 'a fleet ID is 10 lowercase hexadecimal digits, such as 4be1f0a37c';
  const bad = text.search(/[^0-9a-f]/);
  if (bad >= 0) throw wrongCharacter(text, bad, `${hexHint(text[bad])}; ${remedy}`);
  if (text.length !== 10) throw wrong(text, `it has ${text.length} characters; ${remedy}`);
  return BigInt(`0x${text}`);
}

function uuid5(fleet, tag, id) {
  readFleet(fleet);
  // Half a surrogate pair has no bytes of its own: two tags would have one hash.
  checkTag(tag);
  checkId(id);
  const bytes = createHash('sha1')
    .update(Buffer.from(NAMESPACE.replaceAll('-', ''), 'hex'))
    .update(`${fleet}/${tag}/${id}`)
    .digest()
    .subarray(0, 16);
  bytes[6] = (bytes[6] & 0x0f) | 0x50;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  return hyphenated(bytes.toString('hex'));
}

module.exports = { NAMESPACE, lowest, readFleet, readUuid, uuid5, uuidOf };
