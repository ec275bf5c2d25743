import type { DaemonStatus, Run } from './index.js';

// The bytes of the protocol, for tests and tools. A program that needs IDs needs none of this.

export type Call =
  | { type: 'Hello'; version: number }
  | { type: 'Segment'; tag: string; count: number; timeoutMs: number }
  | { type: 'Snowflake'; count: number; timeoutMs: number }
  | { type: 'Time' }
  | { type: 'Status' };

export type Reply =
  | { type: 'Error'; code: number; retryAfterMs: number; detail: bigint; text: string }
  | { type: 'Hello'; version: number; maxCount: number; maxInFlight: number }
  | { type: 'Ids'; runs: Run[] }
  | { type: 'Time'; unixMs: bigint }
  | { type: 'Status'; status: DaemonStatus }
  | { type: 'Goodbye' };

export interface Response {
  id: bigint;
  reply: Reply;
}

/** The version of the protocol. */
export declare const VERSION: number;

/** The limit on the body of a response, in bytes. */
export declare const MAX_RESPONSE_LENGTH: number;

/** Encodes a request as a frame. */
export declare function encodeRequest(id: bigint, call: Call): Uint8Array;

/** Decodes the body of a response. Throws a `ProtocolError`. */
export declare function decodeResponse(body: Uint8Array): Response;

/** Decodes one whole frame, header included. Throws a `ProtocolError`. */
export declare function decodeResponseFrame(frame: Uint8Array): Response;
