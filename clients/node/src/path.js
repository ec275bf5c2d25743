'use strict';

// Where the daemon's socket is. The choice depends on which directories exist, never on which socket
// answers: if an application's daemon is down, it must not silently get IDs from another one.

const fs = require('node:fs');
const { InvalidError } = require('./errors.js');

const SYSTEM_SOCKET = '/run/leafd/leafd.sock';

/** The longest path of a socket on Linux, in bytes. Node would cut a longer one and use the rest. */
const MAX_PATH_BYTES = 107;

/** What the rule depends on. Tests pass in another one. */
const PROCESS = {
  variable: (name) => process.env[name],
  uid: () => process.geteuid?.(),
  isDirectory: (path) => fs.statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false,
  isPrivateDirectory: (path, uid) => {
    const stat = fs.lstatSync(path, { throwIfNoEntry: false });
    return stat !== undefined && stat.isDirectory() && stat.uid === uid && (stat.mode & 0o022) === 0;
  },
};

/** The socket of a client that was given no path. */
function defaultSocketPath(environment = PROCESS) {
  const named = environment.variable('LEAFD_SOCKET');
  if (named) return named;
  const uid = environment.uid();
  if (uid === 0) return SYSTEM_SOCKET;

  const base = environment.variable('XDG_RUNTIME_DIR');
  // The XDG specification says to ignore relative paths.
  if (base?.startsWith('/')) {
    const directory = base.endsWith('/') ? `${base}leafd` : `${base}/leafd`;
    if (exists(() => environment.isDirectory(directory))) return `${directory}/leafd.sock`;
  }
  if (uid !== undefined) {
    const directory = `/tmp/leafd-${uid}`;
    // Anyone can make a directory or a link in /tmp.
    if (exists(() => environment.isPrivateDirectory(directory, uid))) return `${directory}/leafd.sock`;
  }
  return SYSTEM_SOCKET;
}

/** A directory that cannot be looked at counts as absent. */
function exists(look) {
  try {
    return look();
  } catch {
    return false;
  }
}

/** Refuses what Node would not use as the path that it is. */
function checkSocketPath(path) {
  if (typeof path !== 'string') {
    throw new InvalidError(`socketPath must be a string, not ${typeof path}`);
  }
  if (path === '') {
    throw new InvalidError('socketPath is empty; leave it out to search for the socket');
  }
  if (path.includes('\0')) {
    throw new InvalidError('socketPath contains a NUL character');
  }
  const bytes = Buffer.byteLength(path);
  if (bytes > MAX_PATH_BYTES) {
    throw new InvalidError(`socketPath has ${bytes} bytes; a socket's path has at most ${MAX_PATH_BYTES}`);
  }
  return path;
}

module.exports = { PROCESS, checkSocketPath, defaultSocketPath };
