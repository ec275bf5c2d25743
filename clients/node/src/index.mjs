// The same objects as by `require`, so that `instanceof` holds whichever way a program loads them.
import leafd from './index.js';

export const {
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
} = leafd;
