'use strict';

const assert = require('node:assert');
const fs = require('node:fs');
const path = require('node:path');
const { test } = require('node:test');

const { InvalidError, Layout } = require('../src/index.js');
const { Day, NAMESPACE, Snowflakes, decode, encode, uuid5 } = require('../src/forms.js');

// The vectors belong to the repository and are not part of the package.
const FILE = path.join(__dirname, '../../../protocol/forms.json');
const vectors = JSON.parse(fs.readFileSync(FILE, 'utf8'));

const FLEET = '4be1f0a37c';
const SNOWFLAKE_FORMS = ['uuid7', 'uuid8', 'uuid1', 'objectid'];

function vectorsOf(list) {
  assert.ok(vectors[list].length >= 20, list);
  return vectors[list];
}

/** Refused as a wrong argument, with all of these words. */
function refuses(call, ...words) {
  assert.throws(call, (error) => {
    assert.ok(error instanceof InvalidError, String(error));
    for (const word of words) assert.ok(error.message.includes(word), `${error.message} lacks ${word}`);
    return true;
  });
}

test('texts are those of the vectors in both directions', () => {
  for (const { form, id, text } of vectorsOf('texts')) {
    assert.strictEqual(encode(form, BigInt(id)), text);
    assert.strictEqual(decode(form, text), BigInt(id));
  }
});

test('texts that the vectors refuse are refused', () => {
  for (const { form, text } of vectorsOf('refused')) {
    assert.throws(() => (form === 'dated' ? Day.parse(text) : decode(form, text)), InvalidError, `${form} ${text}`);
  }
});

test('days are those of the vectors in both directions', () => {
  for (const { unix_ms: unixMs, zone, tag, id, text } of vectorsOf('days')) {
    for (const time of [unixMs, BigInt(unixMs), new Date(unixMs)]) {
      const day = Day.at(time, zone);
      assert.strictEqual(day.tag('invoices'), tag);
      assert.strictEqual(day.text(BigInt(id)), text);
    }
    const read = Day.parse(text);
    assert.deepStrictEqual([read.day.tag('invoices'), read.id], [tag, BigInt(id)]);
  }
});

test('UUIDs and ObjectIDs are those of the vectors in both directions', () => {
  for (const { layout, written, fleet, ids } of vectorsOf('snowflakes')) {
    assert.strictEqual(String(Layout.parse(layout)), written);
    const snowflakes = new Snowflakes(Layout.parse(layout), fleet);
    for (const { id, ...forms } of ids) {
      assert.deepStrictEqual(Object.keys(forms).sort(), [...SNOWFLAKE_FORMS].sort());
      for (const [form, text] of Object.entries(forms)) {
        if (text === null) {
          refuses(() => snowflakes.encode(form, BigInt(id)), 'no room');
          continue;
        }
        assert.strictEqual(snowflakes.encode(form, BigInt(id)), text);
        assert.strictEqual(snowflakes.decode(form, text), BigInt(id));
        const read = form === 'objectid' ? snowflakes.idOfObjectId(text) : snowflakes.idOf(text);
        assert.strictEqual(read, BigInt(id));
      }
    }
  }
});

test('UUIDs and ObjectIDs that no snowflake becomes are refused', () => {
  for (const { layout, fleet, form, text } of vectorsOf('refused_snowflakes')) {
    const snowflakes = new Snowflakes(Layout.parse(layout), fleet);
    assert.throws(() => snowflakes.decode(form, text), InvalidError, `${form} ${text}`);
  }
});

test('hashes are those of the vectors', () => {
  for (const { fleet, tag, id, text } of vectorsOf('uuid5')) {
    assert.strictEqual(uuid5(fleet, tag, BigInt(id)), text);
  }
  assert.strictEqual(NAMESPACE, '6c656166-642d-575d-a31b-5e0c8f419726');
  refuses(() => uuid5(FLEET, 'a\ud800', 1n), 'half a surrogate pair');
  refuses(() => uuid5('4be1', 'orders', 1n), '10 lowercase hexadecimal digits');
  refuses(() => uuid5(FLEET, 'orders', -1n), '-1 is not from 0');
});

test('errors name the text, its first wrong character and the remedy', () => {
  for (const [form, text, ...words] of [
    ['decimal', '12x4y', '"12x4y"', 'character 3 is "x"', 'a decimal digit is expected'],
    ['decimal', '017', 'character 1 is "0"', 'one zero too many'],
    ['ord_padded4', 'ord_17', '2 digits instead of at least 4'],
    ['base62', '0000000000é', 'character 11 is "é"', 'a letter of a to z or A to Z'],
    ['base62', '0000000000🍃', 'character 11 is "🍃"'],
    ['base62', '0000', '4 characters instead of 11'],
    ['base36', '000000000000A', 'character 13 is "A"', 'write lowercase letters'],
    ['base36', 'zzzzzzzzzzzzz', 'above 2^63 - 1'],
    ['crockford32', '000000000000OH', 'character 13 is "O"', 'write the digit 0'],
    ['crockford32', '00000000000lHH', 'character 12 is "l"', 'write the digit 1'],
    ['crockford32', '000000000000hH', 'character 13 is "h"', 'write capital letters'],
    ['crockford32', '000000000000HL', 'character 14 is "L"', 'a check symbol is expected'],
    ['crockford32', '000000000000HG', 'the check symbol is "G", but "H" belongs', 'mistyped'],
    ['crockford32', '0000000000000', '13 characters instead of 14'],
    ['ord_base62', 'orx_0000000000H', 'character 3 is "x"', 'the prefix "ord_" is expected'],
    ['ord_base62', 'ord', 'it ends within the prefix "ord_"'],
    ['ord_base62', 'ord_000000000-H', 'character 14 is "-"'],
  ]) {
    refuses(() => decode(form, text), ...words);
  }
  refuses(() => Day.parse('2026x122-000017'), 'character 5 is "x"', '20261122-000017');
  refuses(() => Day.parse('20261122_000017'), 'character 9 is "_"', 'a hyphen is expected');
  refuses(() => Day.parse('20260229-000017'), '20260229 is no date');
  refuses(() => Day.parse('20261122-0000é7'), 'character 14 is "é"');
});

test('a long text takes no time, and an error shows only its beginning', () => {
  for (const long of ['0'.repeat(1_000_000), '1'.repeat(1_000_000), '🍃'.repeat(500_000)]) {
    for (const call of [
      ...['decimal', 'base62', 'crockford32', 'padded'].map((form) => () => decode(form, long)),
      () => encode(long, 1n),
      () => Day.parse(long),
      () => Day.at(0, long),
      () => new Snowflakes(Layout.LEAF, long),
      ...SNOWFLAKE_FORMS.map((form) => () => new Snowflakes(Layout.LEAF, FLEET).decode(form, long)),
    ]) {
      refuses(call, '…');
      assert.throws(call, (error) => error.message.length < 500);
    }
  }
});

test('forms and arguments that do not exist are refused', () => {
  const absent = ['', 'base64', 'Base62', 'uuid7', 'dated', 'ord-base62', 'ord_', 'base62_', 'constructor', '__proto__'];
  for (const form of absent) {
    refuses(() => encode(form, 1n), 'there is no text form', 'crockford32', 'Snowflakes');
  }
  for (const form of ['padded0', 'padded20', 'padded08', 'padded+8', 'padded-1', 'padded1 ', 'padded8\n']) {
    refuses(() => encode(form, 1n), '1 to 19 digits');
  }
  for (const prefix of ['', '_', '_a', 'a_', 'Ord', 'ord1', 'örd', 'a'.repeat(64)]) {
    refuses(() => encode(`${prefix}_base62`, 1n), '1 to 63 lowercase letters');
  }
  assert.strictEqual(encode(`${'a'.repeat(63)}_decimal`, 1n), `${'a'.repeat(63)}_1`);
  for (const id of [-1n, 2n ** 63n, 17, '17', undefined]) {
    assert.throws(() => encode('base62', id), InvalidError);
    assert.throws(() => new Day(2026, 11, 22).text(id), InvalidError);
    for (const form of SNOWFLAKE_FORMS) {
      assert.throws(() => new Snowflakes(Layout.LEAF, FLEET).encode(form, id), InvalidError);
    }
  }
  for (const other of [undefined, null, 17n, 5, {}]) {
    assert.throws(() => encode(other, 1n), InvalidError);
    assert.throws(() => decode('base62', other), InvalidError);
    assert.throws(() => Day.parse(other), InvalidError);
    assert.throws(() => new Day(2026, 11, 22).tag(other), InvalidError);
    assert.throws(() => new Snowflakes(Layout.LEAF, other), InvalidError);
    assert.throws(() => new Snowflakes(other, FLEET), InvalidError);
    for (const form of SNOWFLAKE_FORMS) {
      assert.throws(() => new Snowflakes(Layout.LEAF, FLEET).decode(form, other), InvalidError);
    }
  }
  const snowflakes = new Snowflakes(Layout.LEAF, FLEET);
  refuses(() => snowflakes.encode('base62', 1n), 'uuid7, uuid8, uuid1 and objectid');
  refuses(() => snowflakes.decode('constructor', ''), 'uuid7, uuid8, uuid1 and objectid');
  refuses(() => snowflakes.decode('uuid5', 'de294177-21a1-5baa-95bd-bdfa16fa7a9e'), 'hash');
});

test('a time is of the day that its zone has', () => {
  for (const zone of ['', 'utc', 'Z', '+8:00', '+08:60', '08:00', '+0800', '+18:01', '-19:00', '+08:00 ', '+08:00\n']) {
    refuses(() => Day.at(0, zone), 'write UTC');
  }
  for (const [unix, zone, day] of [
    [86399 - 18 * 3600, '+18:00', '19700101'],
    [86400 - 18 * 3600, '+18:00', '19700102'],
    [86400 + 18 * 3600 - 1, '-18:00', '19700101'],
    [86400 + 18 * 3600, '-18:00', '19700102'],
    [-1, 'UTC', '19700101'],
    [-Infinity, 'UTC', '19700101'],
    [Infinity, 'UTC', '99991231'],
    [253402300799, '+18:00', '99991231'],
    [253402300800, 'UTC', '99991231'],
    [253402214400 + 18 * 3600 - 1, '-18:00', '99991230'],
  ]) {
    assert.strictEqual(String(Day.at(unix * 1000, zone)), day);
  }
  assert.strictEqual(String(Day.at(2n ** 64n - 1n, '+18:00')), '99991231');
  for (const time of [NaN, new Date(NaN), '0', undefined, null, {}]) {
    refuses(() => Day.at(time, 'UTC'), 'a time must be');
  }
});

test('a day is a date of the calendar', () => {
  const day = new Day(2028, 2, 29);
  assert.deepStrictEqual([day.year, day.month, day.dayOfMonth, `${day}`], [2028, 2, 29, '20280229']);
  for (const date of [
    [2027, 2, 29],
    [1969, 12, 31],
    [70, 1, 1],
    [10000, 1, 1],
    [2026, 13, 1],
    [2026, 1, 0],
    [2026, 1.5, 1],
    [2026n, 1, 1],
    [2026, 1],
  ]) {
    refuses(() => new Day(...date), 'is no date');
  }
});

test('what another installation made is refused', () => {
  const here = new Snowflakes(Layout.LEAF, FLEET);
  const there = new Snowflakes(Layout.LEAF, '0000000001');
  for (const form of SNOWFLAKE_FORMS) {
    const text = there.encode(form, 1n);
    refuses(() => here.decode(form, text), text, FLEET, 'another installation');
  }
  for (const fleet of ['', '4be1f0a37', '4be1f0a37c0', '4BE1F0A37C', '4be1f0a37g', '+be1f0a37c', `${FLEET}\n`]) {
    refuses(() => new Snowflakes(Layout.LEAF, fleet), '10 lowercase hexadecimal digits');
  }
  for (const [uuid, word] of [
    ['de294177-21a1-5baa-95bd-bdfa16fa7a9e', 'hash'],
    ['01a1fcd4-5c07-4000-8000-474be1f0a37c', 'version 4'],
    ['01a1fcd4-5c07-7000-c000-474be1f0a37c', 'character 20 is "c"'],
    ['01a1fcd4-5c07-7000-8000-474be1f0a37cé', 'character 37 is "é"'],
    ['01a1fcd4x5c07-7000-8000-474be1f0a37c', 'character 9 is "x": a hyphen is expected'],
    ['01A1fcd4-5c07-7000-8000-474be1f0a37c', 'write lowercase letters'],
  ]) {
    refuses(() => here.idOf(uuid), word);
  }
});

/** Numbers that look random and are the same in every run. */
function* numbers(seed) {
  for (let state = seed; ; ) {
    // Steele and Vigna's splitmix64.
    state = BigInt.asUintN(64, state + 0x9e3779b97f4a7c15n);
    let mixed = BigInt.asUintN(64, (state ^ (state >> 30n)) * 0xbf58476d1ce4e5b9n);
    mixed = BigInt.asUintN(64, (mixed ^ (mixed >> 27n)) * 0x94d049bb133111ebn);
    yield mixed ^ (mixed >> 31n);
  }
}

test('any layout gives forms that turn back, or none', () => {
  const random = numbers(1n);
  const below = (limit) => Number(random.next().value % BigInt(limit));
  const made = { uuid7: 0, uuid8: 0, uuid1: 0, objectid: 0 };
  for (let round = 0; round < 5000; round += 1) {
    const sequenceBits = 1 + below(30);
    const workerBits = below(63 - sequenceBits);
    const timeBits = 1 + below(63 - sequenceBits - workerBits);
    const layout = new Layout({
      timeBits,
      workerBits,
      sequenceBits,
      unitMs: [1, 10, 1000][below(3)],
      epochMs: random.next().value >> BigInt(below(64)),
      sequenceAboveWorker: below(2) === 0,
    });
    const snowflakes = new Snowflakes(layout, FLEET);
    const id = BigInt.asUintN(timeBits + workerBits + sequenceBits, random.next().value) >> BigInt(below(63));
    for (const form of SNOWFLAKE_FORMS) {
      let text;
      try {
        text = snowflakes.encode(form, id);
      } catch (error) {
        assert.match(error.message, /no room/);
        continue;
      }
      made[form] += 1;
      assert.strictEqual(snowflakes.decode(form, text), id, `${layout} ${form} ${text}`);
    }
  }
  for (const count of Object.values(made)) assert.ok(count > 100, JSON.stringify(made));
});

test('any damaged UUID is of one snowflake or none', () => {
  const random = numbers(2n);
  const below = (limit) => Number(random.next().value % BigInt(limit));
  let read = 0;
  for (const name of ['leaf', 'baidu@2026-01-01', 'js', 'sonyflake', '20/30/13@2026-01-01/1000ms']) {
    const snowflakes = new Snowflakes(Layout.parse(name), FLEET);
    for (let round = 0; round < 2000; round += 1) {
      const form = SNOWFLAKE_FORMS[round % 4];
      const text = snowflakes.encode(form, random.next().value >> 21n);
      const at = below(text.length);
      const damaged = text.slice(0, at) + '0123456789abcdef'[below(16)] + text.slice(at + 1);
      let id;
      try {
        id = snowflakes.decode(form, damaged);
      } catch (error) {
        assert.ok(error instanceof InvalidError, String(error));
        continue;
      }
      read += 1;
      assert.strictEqual(snowflakes.encode(form, id), damaged);
    }
  }
  assert.ok(read > 1000, String(read));
});
