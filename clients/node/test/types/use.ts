// Compiled and never run: the declarations say what a program may write. `check` compiles it twice, as an
// ES module and as a CommonJS module.

import {
  CancelledError,
  Client,
  ClosedError,
  DeadlineError,
  Ids,
  InvalidError,
  Layout,
  LeafError,
  Pool,
  ProtocolError,
  RefusedError,
  UnavailableError,
  defaultSocketPath,
} from 'leafd-client';
import type { DaemonStatus, Decoded, PoolEvent, PoolStats, Run } from 'leafd-client';
import { Day, NAMESPACE, Snowflakes, decode, encode, uuid5 } from 'leafd-client/forms';
import type { SnowflakeForm } from 'leafd-client/forms';
import { decodeResponseFrame, encodeRequest } from 'leafd-client/wire';

/** Fails to compile unless the two types are the same. */
type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
function same<A, B>(_: Same<A, B>): void {}

export async function useClient(signal: AbortSignal): Promise<void> {
  const client = new Client({ socketPath: defaultSocketPath(), timeoutMs: 500, backoffMinMs: 1, backoffMaxMs: 2 });
  const id = await client.next('orders', { timeoutMs: 100, signal });
  same<typeof id, bigint>(true);
  const ids = await client.nextMany('orders', 5);
  same<typeof ids, Ids>(true);
  const list: bigint[] = [...ids, ids.first, ...ids.toArray()];
  const runs: Run[] = ids.runs;
  const flake = await client.snowflake({ signal });
  same<typeof flake, bigint>(true);
  const flakes: Iterable<bigint> = await client.snowflakes(2, { timeoutMs: 5 });
  const time: Date = await client.time();
  const status: DaemonStatus = await client.status();
  if (status.snowflake.state.variant === 'ClockBehind') same<typeof status.snowflake.state.behindMs, bigint>(true);
  for await (const each of client.iterate('orders', { batch: 10, signal })) same<typeof each, bigint>(true);
  await client.close();
  await using disposed = new Client();
  void [list, runs, flakes, time, disposed];

  // @ts-expect-error a count is a number
  await client.nextMany('orders', 5n);
  // @ts-expect-error there is no such option
  await client.next('orders', { timeout: 5 });
  // @ts-expect-error there is no such option
  new Client({ socket: '/s' });
  // @ts-expect-error an ID is no number
  const number: number = await client.next('orders');
  // @ts-expect-error IDs come from calls
  new Ids([]);
  // @ts-expect-error made by `tag` or `snowflake`
  new Pool();
}

export async function usePool(): Promise<void> {
  const pool = Pool.tag('orders', { minChunk: 1, maxChunk: 2, onEvent: tell });
  const now: bigint | undefined = pool.tryNext();
  const next: bigint = await pool.next({ timeoutMs: 5 });
  const many: Ids = await pool.nextMany(7);
  const stats: PoolStats = pool.stats();
  const left: number | undefined = pool.secondsLeft;
  for await (const id of pool) same<typeof id, bigint>(true);
  await Pool.snowflake({ maxAgeMs: 500 }).close();
  void [now, next, many, stats, left];
}

function tell(event: PoolEvent): void {
  if (event.type === 'outageBegan') console.log(event.error.kind, event.held);
  else same<typeof event.afterMs, number>(true);
}

export function useErrors(error: unknown): string {
  if (error instanceof RefusedError) {
    same<typeof error.kind, 'refused'>(true);
    same<typeof error.detail, bigint>(true);
    return `${error.number} ${error.numberName}`;
  }
  if (error instanceof UnavailableError) return `${error.path} ${error.cause.message}`;
  if (error instanceof CancelledError) return String(error.cause);
  for (const type of [DeadlineError, ProtocolError, InvalidError, ClosedError]) {
    if (error instanceof type) return `${error.name} ${error.code}`;
  }
  if (error instanceof LeafError) return error.temporary ? `in ${error.retryAfterMs}` : error.kind;
  return '';
}

export function useLayout(): Decoded {
  const layout: Layout = Layout.parse('41/10/12@0');
  const own = new Layout({ epochMs: 0n, timeBits: 41, workerBits: 10, sequenceBits: 12 });
  // @ts-expect-error an ID is a bigint
  layout.decode(5);
  const bits: number[] = [own.timeBits, own.workerBits, own.sequenceBits, own.unitMs];
  const composed: bigint = own.compose(own.epochMs, 0n, 1n);
  void [bits, composed];
  return own.decode(5n) ?? Layout.LEAF.decode(5n);
}

export function useForms(form: SnowflakeForm): bigint[] {
  const snowflakes = new Snowflakes(Layout.LEAF, '4be1f0a37c');
  const uuids: string[] = [snowflakes.uuid7(1n), snowflakes.uuid8(1n), snowflakes.uuid1(1n), NAMESPACE];
  const day = Day.at(new Date(), 'UTC');
  const { day: read, id } = Day.parse(Day.at(5n, '+08:00').text(17n));
  const texts: string[] = [day.tag('invoices'), day.text(17n), String(read), uuid5('4be1f0a37c', 'orders', 17n)];
  const numbers: number[] = [day.year, day.month, day.dayOfMonth, new Day(2026, 11, 22).year];
  void [uuids, texts, numbers];
  // @ts-expect-error an ID is a bigint
  encode('base62', 17);
  // @ts-expect-error a hash is no form of a snowflake
  snowflakes.encode('uuid5', 17n);
  // @ts-expect-error there is no default zone
  Day.at(new Date());
  return [
    id,
    decode('base62', encode('base62', 17n)),
    snowflakes.decode(form, snowflakes.encode(form, 17n)),
    snowflakes.idOf(snowflakes.uuid7(17n)),
    snowflakes.idOfObjectId(snowflakes.objectId(17n)),
  ];
}

export function useWire(): bigint {
  const frame: Uint8Array = encodeRequest(1n, { type: 'Segment', tag: 'orders', count: 1, timeoutMs: 0 });
  const { id, reply } = decodeResponseFrame(frame);
  if (reply.type === 'Ids') same<(typeof reply.runs)[0]['first'], bigint>(true);
  return id;
}
