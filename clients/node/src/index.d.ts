/// <reference lib="esnext.disposable" />

/** How to reach the daemon, and how long to try. Times are in milliseconds. */
export interface ConnectionOptions {
  /** The daemon's socket. By default, the one that {@link defaultSocketPath} finds. */
  socketPath?: string;
  /**
   * The timeout of a call, which covers connecting, waiting and repeating. Above 0; 5,000 by default.
   * More than 24 hours counts as 24 hours.
   */
  timeoutMs?: number;
  /** The first pause between attempts to connect: 5 by default, at least 1. */
  backoffMinMs?: number;
  /** The longest pause between attempts to connect: 500 by default, at least `backoffMinMs`. */
  backoffMaxMs?: number;
}

/** The options of one call. */
export interface CallOptions {
  /** The timeout of this call, in milliseconds; by default, that of the client or pool. */
  timeoutMs?: number;
  /** Cancels the call: it rejects with a {@link CancelledError}. IDs that still arrive are a gap. */
  signal?: AbortSignal;
}

export interface IterateOptions extends CallOptions {
  /** How many IDs to get at once: 100 by default. Those not used when the loop ends are lost. */
  batch?: number;
}

/** IDs `first`, `first + 1n`, …, `count` in all. */
export interface Run {
  readonly first: bigint;
  readonly count: number;
}

/** The IDs of one call in the order of issue: exactly as many as asked for, each once. */
export declare class Ids implements Iterable<bigint> {
  private constructor(runs: readonly Run[]);
  /** The IDs as runs without gaps. Cheaper than the IDs one by one. */
  get runs(): Run[];
  /** How many IDs there are. */
  get length(): number;
  /** The first ID in the order of issue. */
  get first(): bigint;
  toArray(): bigint[];
  [Symbol.iterator](): IterableIterator<bigint>;
}

/**
 * A client of leafd. All calls share one connection, which is opened at the first call and replaced when
 * it is lost. A call that got no answer is repeated on the new connection: that may skip IDs, but none
 * comes twice. Calls reject with a {@link LeafError}.
 */
export declare class Client {
  /** Connects at the first call. Throws an {@link InvalidError} for invalid options. */
  constructor(options?: ConnectionOptions);
  /** Gets one ID of a tag. */
  next(tag: string, options?: CallOptions): Promise<bigint>;
  /** Gets IDs of a tag: 1 to the daemon's limit, which is 100,000 by default. */
  nextMany(tag: string, count: number, options?: CallOptions): Promise<Ids>;
  /** Gets one snowflake ID. {@link Layout.decode} splits it into its parts. */
  snowflake(options?: CallOptions): Promise<bigint>;
  /** Gets snowflake IDs: 1 to the daemon's limit, which is 100,000 by default. */
  snowflakes(count: number, options?: CallOptions): Promise<Ids>;
  /** Iterates over IDs of a tag without end, and gets them in batches. The timeout is that of a batch. */
  iterate(tag: string, options?: IterateOptions): AsyncGenerator<bigint, never, void>;
  /** Reads the clock of the daemon's host. */
  time(options?: CallOptions): Promise<Date>;
  /** Gets the state of the daemon. */
  status(options?: CallOptions): Promise<DaemonStatus>;
  /** Closes the connection. Calls that wait, and all later ones, reject with a {@link ClosedError}. */
  close(): Promise<void>;
  /** Closes, where the runtime has this symbol (Node 18.18 or later). */
  [Symbol.asyncDispose](): Promise<void>;
}

/** What happens to a pool in the background. */
export type PoolEvent =
  /** Leases have failed for a second, or with an error that does not pass. The pool goes on trying. */
  | { type: 'outageBegan'; error: LeafError; held: number }
  /** The pool has leased again, so long after the first failure. */
  | { type: 'outageEnded'; afterMs: number };

export interface PoolOptions extends ConnectionOptions {
  /** The size of the first and smallest chunk: 1 to 1,000,000 IDs, 100 by default. */
  minChunk?: number;
  /** The size of the largest chunk: 1 to 1,000,000 IDs, 1,000,000 by default. At most two are held. */
  maxChunk?: number;
  /**
   * How old an ID may be when it is taken, in milliseconds, from 10 to 24 hours. Older ones are dropped.
   * 1,000 by default for snowflake IDs, whose time would be wrong by that much; unlimited for a tag.
   */
  maxAgeMs?: number;
  /** Called once for an outage, and once for its end. */
  onEvent?: (event: PoolEvent) => void;
}

/** The counters of a pool: `leased` is `issued` plus `held` plus `lost`. */
export interface PoolStats {
  /** IDs that callers got. */
  readonly issued: number;
  /** IDs that the daemon has leased to the pool. */
  readonly leased: number;
  /** IDs that the pool has now. This is what an outage leaves. */
  readonly held: number;
  /** IDs that nobody gets: they were too old, or the pool was closed. */
  readonly lost: number;
  /** Chunks that the daemon has leased. */
  readonly refills: number;
  /** Attempts to lease that failed. */
  readonly failures: number;
  /** Calls that had to wait for a refill. */
  readonly waits: number;
  /** The size of a chunk at present, in IDs. */
  readonly chunk: number;
}

/**
 * IDs ahead of need: the pool leases ranges in the background, so a call costs an addition instead of a
 * system call. An ID that is taken after another one was returned is higher. What the process has not used
 * when it ends is lost: at most two chunks. Neither the pool nor its timers keep the process alive.
 */
export declare class Pool implements AsyncIterable<bigint> {
  /** Makes a pool of IDs of a tag. It connects at its first use. Throws an {@link InvalidError}. */
  static tag(tag: string, options?: PoolOptions): Pool;
  /** Makes a pool of snowflake IDs. It connects at its first use. Throws an {@link InvalidError}. */
  static snowflake(options?: PoolOptions): Pool;
  private constructor();
  /**
   * Takes the next ID if one is there. `undefined` means that a refill is under way: it needs the event
   * loop, so do not spin. Throws a {@link ClosedError} once the pool is closed.
   */
  tryNext(): bigint | undefined;
  /** Takes the next ID, and waits for one at most as long as the timeout. Callers are served in turn. */
  next(options?: CallOptions): Promise<bigint>;
  /** Takes IDs: any number from 1. Rejects without taking any if they do not come in time. */
  nextMany(count: number, options?: CallOptions): Promise<Ids>;
  /** Takes IDs without end. */
  [Symbol.asyncIterator](): AsyncGenerator<bigint, never, void>;
  /** How long what the pool holds lasts at the present rate; `undefined` while it knows no rate. */
  get secondsLeft(): number | undefined;
  stats(): PoolStats;
  /** Closes the connection and drops what the pool holds. Callers that wait get a {@link ClosedError}. */
  close(): Promise<void>;
  /** Closes, where the runtime has this symbol (Node 18.18 or later). */
  [Symbol.asyncDispose](): Promise<void>;
}

/** The parts of a snowflake ID. */
export interface Decoded {
  /** The start of the ID's time unit, in milliseconds since 1970-01-01T00:00:00Z. */
  unixMs: bigint;
  /** The worker ID, data centre bits included. */
  worker: bigint;
  /** The sequence number within the time unit. */
  sequence: bigint;
  /** The data centre, if the layout has one. */
  datacenter?: bigint;
}

export interface LayoutFields {
  /** The time 0 of the layout, in milliseconds since 1970. */
  epochMs: bigint;
  timeBits: number;
  workerBits: number;
  sequenceBits: number;
  /** The length of a time unit in milliseconds: 1 by default, or 10 or 1000. */
  unitMs?: number;
  /** How many of the upper worker bits are the data centre: 0 by default. */
  datacenterBits?: number;
  /** Whether the sequence is above the worker: false by default. */
  sequenceAboveWorker?: boolean;
}

/** The bits of a snowflake ID. The daemon's status names its layout. */
export declare class Layout {
  static readonly LEAF: Layout;
  static readonly TWITTER: Layout;
  static readonly BAIDU: Layout;
  static readonly JS: Layout;
  static readonly SONYFLAKE: Layout;
  static readonly DISCORD: Layout;
  /** Throws an {@link InvalidError} if the bits are more than 63 in all. */
  constructor(fields: LayoutFields);
  /**
   * Reads a layout as the daemon writes it: a preset such as `leaf` or `sonyflake`, one of these with another epoch
   * (`baidu@2026-01-01`), or `TIME/WORKER/SEQUENCE@EPOCH/UNITms`. Throws an {@link InvalidError}.
   */
  static parse(text: string): Layout;
  /** Splits an ID into its parts. Throws an {@link InvalidError} for what is no ID. */
  decode(id: bigint): Decoded;
  /**
   * Puts the parts together, the inverse of {@link Layout.decode}. The time is in units of `unitMs` since `epochMs`.
   * Throws an {@link InvalidError} if a part does not fit its bits.
   */
  compose(time: bigint, worker: bigint, sequence: bigint): bigint;
  get timeBits(): number;
  /** The bits of the worker, those of the data centre included. */
  get workerBits(): number;
  get sequenceBits(): number;
  /** The time 0, in milliseconds since 1970. */
  get epochMs(): bigint;
  /** The unit of the time: 1, 10 or 1000 ms. */
  get unitMs(): number;
  /** Writes `TIME/WORKER/SEQUENCE@EPOCH_MS/UNITms`, which {@link Layout.parse} reads. */
  toString(): string;
}

/** The state of a daemon. Numbers of 64 bits are bigints. */
export interface DaemonStatus {
  version: string;
  pid: number;
  uptimeMs: bigint;
  connections: number;
  requests: bigint;
  stateDir: string;
  segments: {
    store: string;
    /** Empty while the store works. */
    storeError: string;
    tags: bigint;
    waiting: bigint;
    issued: bigint;
    leases: bigint;
  };
  snowflake: {
    state: SnowflakeState;
    worker: bigint | null;
    registry: string;
    layout: string;
    ceilingUnixMs: bigint;
    lastUnixMs: bigint;
    clockUnixMs: bigint;
    issued: bigint;
    identity: string;
    lastReportMsAgo: bigint | null;
    registryError: string;
    limitUnixMs: bigint | null;
    clockOffsetMs: bigint | null;
    peers: number;
  };
}

export type SnowflakeState =
  | { variant: 'Serving' }
  | { variant: 'ClockBehind'; behindMs: bigint }
  | { variant: 'Refused'; reason: string }
  | { variant: 'Starting'; reason: string };

export type ErrorKind =
  | 'refused'
  | 'unavailable'
  | 'deadline'
  | 'protocol'
  | 'invalid'
  | 'closed'
  | 'cancelled';

/** Why a call failed. The caller got no ID. */
export declare class LeafError extends Error {
  protected constructor();
  /** The class of the error as a word. */
  readonly kind: ErrorKind;
  /** `ERR_LEAFD_` and the kind in capitals; `ABORT_ERR` for a cancelled call. */
  readonly code: string;
  /** Whether the same call may succeed later without anyone changing anything. */
  readonly temporary: boolean;
  /** How long the daemon asks to wait before the next try, in milliseconds; 0 if it does not say. */
  readonly retryAfterMs: number;
}

/** The daemon answered with an error. */
export declare class RefusedError extends LeafError {
  readonly kind: 'refused';
  /** The number of the error, as in 202. */
  readonly number: number;
  /** The name of the error, as in `UnknownTag`; `Unknown` if this package does not know the number. */
  readonly numberName: string;
  /** A number that belongs to the error, such as a limit; 0 if it has none. */
  readonly detail: bigint;
}

/** No connection before the deadline, or no permission to open the socket. */
export declare class UnavailableError extends LeafError {
  readonly kind: 'unavailable';
  /** The socket that was tried. */
  readonly path: string;
  /** Why the last attempt failed. */
  readonly cause: Error;
}

/** Connected, but no answer before the deadline. */
export declare class DeadlineError extends LeafError {
  readonly kind: 'deadline';
}

/** The peer broke the protocol. Nothing in the offending message was used. */
export declare class ProtocolError extends LeafError {
  readonly kind: 'protocol';
}

/** An argument is invalid. Nothing was sent. */
export declare class InvalidError extends LeafError {
  readonly kind: 'invalid';
}

/** The client or pool was closed. */
export declare class ClosedError extends LeafError {
  readonly kind: 'closed';
}

/** The caller cancelled the call by its signal. Its `name` is `AbortError`. */
export declare class CancelledError extends LeafError {
  readonly kind: 'cancelled';
  /** The signal's reason. */
  readonly cause: unknown;
}

/** Where a client looks for the daemon that was given no `socketPath`. */
export declare function defaultSocketPath(): string;
