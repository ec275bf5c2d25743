'use strict';

const { Client } = require('./client.js');
const errors = require('./errors.js');
const { Ids } = require('./ids.js');
const { Layout } = require('./layout.js');
const { defaultSocketPath } = require('./path.js');
const { Pool } = require('./pool.js');

module.exports = {
  CancelledError: errors.CancelledError,
  Client,
  ClosedError: errors.ClosedError,
  DeadlineError: errors.DeadlineError,
  Ids,
  InvalidError: errors.InvalidError,
  Layout,
  LeafError: errors.LeafError,
  Pool,
  ProtocolError: errors.ProtocolError,
  RefusedError: errors.RefusedError,
  UnavailableError: errors.UnavailableError,
  defaultSocketPath: () => defaultSocketPath(),
};
