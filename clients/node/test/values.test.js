'use strict';

// IDs, layouts, the search for the socket, arguments, and what the package exports. No socket.

const assert = require('node:assert');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { test } = require('node:test');

const leafd = require('../src/index.js');
const { elapsed } = require('../src/clock.js');
const { Backoff } = require('../src/failure.js');
const { Ids, checkRuns } = require('../src/ids.js');
const { List } = require('../src/list.js');
const { checkTag, connectionOptions } = require('../src/options.js');
const { defaultSocketPath } = require('../src/path.js');
const { daemonTimeout } = require('../src/session.js');

const { InvalidError, Layout, ProtocolError } = leafd;

test('an answer has exactly the IDs that were asked for, each once', () => {
  const runs = (...list) => list.map(([first, count]) => ({ first, count }));
  const max = 2n ** 63n - 1n;
  checkRuns(runs([1n, 3]), 3);
  checkRuns(runs([10n, 3], [1n, 9]), 12);
  checkRuns(runs([max, 1]), 1);
  for (const [name, bad, asked] of [
    ['too few', runs([1n, 2]), 3],
    ['too many', runs([1n, 4]), 3],
    ['an empty run', runs([1n, 3], [9n, 0]), 3],
    ['too high', runs([max, 2]), 2],
    ['above 64 bits', runs([2n ** 64n - 1n, 2]), 2],
    ['twice', runs([1n, 3], [3n, 2]), 5],
    ['twice, unsorted', runs([3n, 2], [1n, 3]), 5],
  ]) {
    assert.throws(() => checkRuns(bad, asked), ProtocolError, name);
  }
});

test('IDs can be read as runs, one by one, and as an array', () => {
  const ids = new Ids([
    { first: 5n, count: 2 },
    { first: 9n, count: 1 },
  ]);
  assert.deepStrictEqual([...ids], [5n, 6n, 9n]);
  assert.deepStrictEqual(ids.toArray(), [5n, 6n, 9n]);
  assert.strictEqual(ids.length, 3);
  assert.strictEqual(ids.first, 5n);
  ids.runs[0].count = 100;
  assert.strictEqual(ids.length, 3, 'the runs are copies');
});

test('an ID is decoded as Java Leaf composes it', () => {
  const id = ((1600000000000n - 1288834974657n) << 22n) | (513n << 12n) | 77n;
  assert.deepStrictEqual(Layout.LEAF.decode(id), { unixMs: 1600000000000n, worker: 513n, sequence: 77n });
  assert.strictEqual(Layout.TWITTER.decode(id).datacenter, 16n);
  for (const bad of [-1n, 2n ** 63n, 5, '5', undefined]) {
    assert.throws(() => Layout.LEAF.decode(bad), InvalidError);
  }
});

test('layouts are written and read back', () => {
  for (const name of ['leaf', 'twitter', 'baidu', 'js', 'sonyflake', 'discord']) {
    const layout = Layout.parse(name);
    assert.strictEqual(String(layout), String(Layout[name.toUpperCase()]));
    assert.strictEqual(String(Layout.parse(String(layout))), String(layout));
  }
  for (const [preset, written] of [
    ['js', '37/8/8@1767225600000/10ms'],
    ['sonyflake', '39/s8/w16@1409529600000/10ms'],
    ['discord', '41/5+5/12@1420070400000/1ms'],
  ]) {
    assert.strictEqual(String(Layout.parse(preset)), written);
  }
  const late = '28/22/13@1767225600000/1000ms';
  for (const text of ['baidu@1767225600000', 'baidu@2026-01-01', '28/22/13@2026-01-01/1000ms']) {
    assert.strictEqual(String(Layout.parse(text)), late);
  }
  assert.strictEqual(String(Layout.parse('41/10/12@2010-11-04T01:42:54.657Z')), String(Layout.LEAF));
  for (const bad of [
    '', 'leaf2', 'leaf@', 'baidu@x', 'baidu@2026-02-30', 'baidu@1969-12-31', '41/10/12', '41/10@0', '41/10/12@-1',
    '41/9+/12@0', 'a/b/c@d', '41/10/13@0', '0/51/12@0', '41/22/0@0', '41/10/12@0/2ms', '41/10/12@18446744073709551616',
  ]) {
    assert.throws(() => Layout.parse(bad), InvalidError, bad);
  }
});

test('presets of other systems split their IDs, and compose them', () => {
  for (const [layout, id, decoded] of [
    // time << 16 | worker << 8 | sequence
    [Layout.JS, (123456n << 16n) | (5n << 8n) | 7n, { unixMs: 1767226834560n, worker: 5n, sequence: 7n }],
    // Sonyflake has the sequence above the machine.
    [Layout.SONYFLAKE, (123456n << 24n) | (7n << 16n) | 513n, { unixMs: 1409530834560n, worker: 513n, sequence: 7n }],
    // The example of Discord's documentation.
    [Layout.DISCORD, 175928847299117063n, { unixMs: 1462015105796n, worker: 32n, sequence: 7n, datacenter: 1n }],
  ]) {
    assert.deepStrictEqual(layout.decode(id), decoded);
    const time = (decoded.unixMs - layout.epochMs) / BigInt(layout.unitMs);
    assert.strictEqual(layout.compose(time, decoded.worker, decoded.sequence), id);
  }
  const { timeBits, workerBits, sequenceBits } = Layout.SONYFLAKE;
  assert.deepStrictEqual([timeBits, workerBits, sequenceBits], [39, 16, 8]);
});

test('parts that do not fit are not composed', () => {
  const compose = (...parts) => Layout.LEAF.compose(...parts);
  assert.strictEqual(compose(2n ** 41n - 1n, 2n ** 10n - 1n, 2n ** 12n - 1n), 2n ** 63n - 1n);
  for (const parts of [[2n ** 41n, 0n, 0n], [0n, 2n ** 10n, 0n], [0n, 0n, 2n ** 12n], [-1n, 0n, 0n], [0n, 5, 0n], [0n]]) {
    assert.throws(() => compose(...parts), InvalidError, String(parts));
  }
});

test('the first rule that applies finds the socket', () => {
  const user = { XDG_RUNTIME_DIR: '/run/user/7' };
  const find = (variables, uid, directories = [], owned = []) =>
    defaultSocketPath({
      variable: (name) => variables[name],
      uid: () => uid,
      isDirectory: (name) => directories.includes(name),
      isPrivateDirectory: (name, owner) => owned.some(([known, by]) => known === name && by === owner),
    });
  const system = '/run/leafd/leafd.sock';
  assert.strictEqual(find({ ...user, LEAFD_SOCKET: '/a' }, 0, ['/run/user/7/leafd']), '/a');
  assert.strictEqual(find({ ...user, LEAFD_SOCKET: '' }, 0, ['/run/user/7/leafd']), system);
  assert.strictEqual(find(user, 7, ['/run/user/7/leafd']), '/run/user/7/leafd/leafd.sock');
  assert.strictEqual(find(user, 7), system);
  for (const base of [undefined, '', 'relative']) {
    const found = find({ XDG_RUNTIME_DIR: base }, 7, ['relative/leafd'], [['/tmp/leafd-7', 7]]);
    assert.strictEqual(found, '/tmp/leafd-7/leafd.sock');
  }
  assert.strictEqual(find(user, 7, [], [['/tmp/leafd-7', 8]]), system);
  assert.strictEqual(find({}, undefined, [], [['/tmp/leafd-undefined', undefined]]), system);
});

test('what Node would not use as the path that it is is refused', () => {
  for (const socketPath of ['', 'a\0b', '\0a', `/tmp/${'x'.repeat(103)}`, 5, null]) {
    assert.throws(() => new leafd.Client({ socketPath }), InvalidError, String(socketPath));
  }
  assert.ok(connectionOptions({ socketPath: `/tmp/${'x'.repeat(102)}` }));
});

test('options out of range move into it, and nonsense is refused', () => {
  const of = (options) => connectionOptions({ socketPath: '/s', ...options });
  const day = 24 * 60 * 60 * 1000;
  assert.deepStrictEqual(of({}), { socketPath: '/s', timeoutMs: 5000, backoffMinMs: 5, backoffMaxMs: 500 });
  assert.strictEqual(of({ timeoutMs: Infinity }).timeoutMs, day);
  assert.deepStrictEqual(of({ backoffMinMs: 0, backoffMaxMs: 0 }), {
    socketPath: '/s',
    timeoutMs: 5000,
    backoffMinMs: 1,
    backoffMaxMs: 1,
  });
  for (const options of [{ timeoutMs: 0 }, { timeoutMs: -1 }, { timeoutMs: NaN }, { timeoutMs: '5' }, { tmeoutMs: 5 }, 5, null]) {
    assert.throws(() => new leafd.Client(options), InvalidError, JSON.stringify(options));
  }
  const bare = Object.create(null);
  assert.throws(() => of({ timeoutMs: bare }), InvalidError);
  assert.throws(() => leafd.Pool.tag('a', { minChunk: bare }), InvalidError);
  for (const options of [{ minChunk: 1.5 }, { onEvent: 5 }, { maxAgeMs: 'x' }, { chunk: 5 }]) {
    assert.throws(() => leafd.Pool.tag('a', options), InvalidError, JSON.stringify(options));
  }
  assert.throws(() => new leafd.Pool(), InvalidError);
});

test('a tag has 1 to 128 characters, no control characters, and no half characters', () => {
  for (const tag of ['a', ' a ', 'é', '\u{10348}'.repeat(128), '\u00a0', '\ufeff']) assert.strictEqual(checkTag(tag), tag);
  for (const tag of ['', 'a\nb', '\0', '\u007f', '\u009f', 'x'.repeat(129), '\u{10348}'.repeat(129), '\ud800', 'a\udc00b', 5]) {
    assert.throws(() => checkTag(tag), InvalidError, JSON.stringify(tag));
  }
  // As an array of characters this would take gigabytes.
  assert.throws(() => checkTag('x'.repeat(2 ** 28)), InvalidError);
});

test('the timeout that is sent is a little less than the time left', () => {
  assert.deepStrictEqual([5000, 100, 0.5, 0].map(daemonTimeout), [4950, 90, 1, 1]);
});

test('pauses double up to the limit, and start anew after an answer', () => {
  for (const [jitter, divisor] of [[0, 1], [1, 2]]) {
    const backoff = new Backoff(5, 500);
    assert.strictEqual(backoff.pause(0), 0);
    for (const expected of [5, 10, 20, 40, 80, 160, 320, 500, 500]) {
      backoff.lost(0, 0, jitter);
      assert.strictEqual(backoff.pause(0), expected / divisor);
    }
    backoff.answered();
    backoff.lost(0, 0, jitter);
    assert.strictEqual(backoff.pause(0), 0);
    backoff.lost(0, 70, jitter);
    assert.strictEqual(backoff.pause(0), 70, 'the daemon names a longer pause');
  }
});

test('an age is the most that any clock says', () => {
  const start = { monotonic: 100, wall: 1000, boot: 50 };
  const age = (monotonic, wall, boot) => elapsed(start, { monotonic, wall, boot });
  assert.strictEqual(age(110, 1010, 60), 10);
  assert.strictEqual(age(110, 5010, 50), 4010, 'the machine was suspended');
  assert.strictEqual(age(110, 0, 4060), 4010, 'and the wall clock was set back');
});

test('a list gives up any of its elements', () => {
  const list = new List();
  const [a, b, c, d] = [{}, {}, {}, {}];
  for (const each of [a, b, c, d]) list.push(each);
  list.remove(b);
  list.remove(b);
  list.remove(d);
  assert.strictEqual(list.shift(), a);
  list.push(b);
  assert.deepStrictEqual(list.takeAll().map((each) => [b, c].indexOf(each)), [1, 0]);
  assert.ok(list.isEmpty);
});

test('errors have the properties that callers look at', () => {
  const reply = { code: 304, retryAfterMs: 20, detail: 7n, text: 'clock' };
  const refused = new leafd.RefusedError(reply);
  assert.ok(refused instanceof leafd.LeafError && refused instanceof Error);
  assert.deepStrictEqual(
    [refused.name, refused.kind, refused.code, refused.number, refused.numberName, refused.retryAfterMs, refused.detail, refused.temporary],
    ['RefusedError', 'refused', 'ERR_LEAFD_REFUSED', 304, 'ClockBackwards', 20, 7n, true],
  );
  const temporary = (code) => new leafd.RefusedError({ ...reply, code }).temporary;
  assert.deepStrictEqual([100, 202, 306, 307, 302, 399, 400, 999].map(temporary), [false, false, false, false, true, true, false, false]);
  assert.strictEqual(new leafd.RefusedError({ ...reply, code: 999 }).numberName, 'Unknown');
  const cancelled = new leafd.CancelledError('why');
  assert.deepStrictEqual([cancelled.name, cancelled.code, cancelled.cause], ['AbortError', 'ABORT_ERR', 'why']);
  const denied = new leafd.UnavailableError('/s', Object.assign(new Error('x'), { code: 'EACCES' }));
  assert.strictEqual(denied.temporary, false);
});

test('the type declarations name what there is, and nothing else', async () => {
  const source = path.join(__dirname, '../src');
  for (const [file, there] of [
    ['index', leafd],
    ['forms', require('../src/forms.js')],
  ]) {
    const declared = fs.readFileSync(path.join(source, `${file}.d.ts`), 'utf8');
    const names = [...declared.matchAll(/^export declare (?:class|function|const) (\w+)/gm)].map(([, name]) => name);
    assert.deepStrictEqual(names.sort(), Object.keys(there).sort());
    const imported = await import(`../src/${file}.mjs`);
    for (const name of names) assert.strictEqual(imported[name], there[name], name);
    assert.deepStrictEqual(Object.keys(imported).sort(), names);

    for (const [, name, body] of declared.matchAll(/^export declare class (\w+)[^{]*\{\n(.*?)^\}/gms)) {
      const members = [...body.matchAll(/^  (?:get )?(\w+)\(/gm)].map(([, member]) => member);
      const own = Object.getOwnPropertyNames(there[name].prototype).filter((member) => member !== 'name');
      const expected = own.filter((member) => member !== 'again');
      assert.deepStrictEqual([...new Set(['constructor', ...members])].sort(), expected.sort(), name);
    }
  }
  const wire = require('../src/wire.js');
  for (const [, name] of fs
    .readFileSync(path.join(source, 'wire.d.ts'), 'utf8')
    .matchAll(/^export declare (?:function|const) (\w+)/gm)) {
    assert.strictEqual((await import('../src/wire.mjs'))[name], wire[name]);
    assert.notStrictEqual(wire[name], undefined);
  }
});

test('a directory in /tmp counts only if it is private', () => {
  const base = fs.mkdtempSync(path.join(os.tmpdir(), 'leafd-node-path-'));
  try {
    const link = path.join(base, 'link');
    fs.symlinkSync(base, link);
    const look = (name, mode, uid = process.geteuid()) => {
      fs.chmodSync(base, mode);
      // The rule of the process, with another folder in the place of /tmp/leafd-UID.
      const { isPrivateDirectory } = require('../src/path.js').PROCESS;
      return isPrivateDirectory(name, uid);
    };
    assert.deepStrictEqual(
      [look(base, 0o700), look(base, 0o755), look(base, 0o720), look(base, 0o702), look(link, 0o700)],
      [true, true, false, false, false],
    );
    assert.strictEqual(look(base, 0o700, process.geteuid() + 1), false);
    assert.strictEqual(look(path.join(base, 'absent'), 0o700), false);
  } finally {
    fs.rmSync(base, { recursive: true });
  }
});
