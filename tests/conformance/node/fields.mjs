// Messages of the protocol as the fields of protocol/vectors.json, and back.

/** The answer for a message that the client does not have. */
const UNSUPPORTED = { unsupported: true };

const CALLS = {
  Hello: ({ version }) => ({ type: 'Hello', version }),
  Segment: ({ tag, count, timeout_ms }) => ({ type: 'Segment', tag, count, timeoutMs: timeout_ms }),
  Snowflake: ({ count, timeout_ms }) => ({ type: 'Snowflake', count, timeoutMs: timeout_ms }),
  Time: () => ({ type: 'Time' }),
  Status: () => ({ type: 'Status' }),
};

/** The replies that the client does not have, by their number: `Tags` and `Workers`. */
const OTHER_REPLIES = [5, 7];

export function encode(wire, { message, request_id, fields }) {
  if (!Object.hasOwn(CALLS, message)) return UNSUPPORTED;
  return { hex: Buffer.from(wire.encodeRequest(BigInt(request_id), CALLS[message](fields))).toString('hex') };
}

export function decodeResponse(wire, { hex }) {
  const frame = Buffer.from(hex, 'hex');
  if (frame.length >= 16 && OTHER_REPLIES.includes(frame.readUInt32LE(12))) return UNSUPPORTED;
  const { id, reply } = wire.decodeResponseFrame(frame);
  return { message: reply.type, request_id: String(id), fields: replyFields(reply) };
}

function replyFields(reply) {
  switch (reply.type) {
    case 'Error':
      return {
        code: reply.code,
        retry_after_ms: reply.retryAfterMs,
        detail: String(reply.detail),
        message: reply.text,
      };
    case 'Hello':
      return { version: reply.version, max_count: reply.maxCount, max_in_flight: reply.maxInFlight };
    case 'Ids': {
      const [first, ...more] = snake(reply.runs);
      return { first, more };
    }
    case 'Time':
      return { unix_ms: String(reply.unixMs) };
    case 'Status':
      return statusFields(reply.status);
    default:
      return {};
  }
}

/** `DaemonStatus` by the names of the protocol's page. */
export function statusFields(status) {
  return snake(status);
}

/** The names in snake case, and numbers of 64 bits as strings. */
function snake(value) {
  if (typeof value === 'bigint') return String(value);
  if (Array.isArray(value)) return value.map(snake);
  if (value === null || typeof value !== 'object') return value;
  const name = (text) => text.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [name(key), snake(each)]));
}
