'use strict';

// Takes a thousand IDs from a client and a pool, in a process or thread of its own. Arguments: the socket,
// and `cluster` for a primary of two workers, whose IDs it passes on with its own.

const cluster = require('node:cluster');
const { parentPort } = require('node:worker_threads');

const { Client, Pool } = require('../src/index.js');

const [socketPath, kind] = process.argv.slice(2);
const client = new Client({ socketPath });
const pool = Pool.tag('orders', { socketPath });

async function take() {
  const ids = [];
  for (let round = 0; round < 250; round += 1) {
    ids.push(await client.next('orders'), await pool.next(), ...(await pool.nextMany(2)));
  }
  return ids.map(String);
}

async function main() {
  // Used once before the workers start, as in a preforked server.
  const ids = await take();
  if (kind === 'cluster' && cluster.isPrimary) {
    cluster.setupPrimary({ exec: __filename, args: [socketPath, 'worker'] });
    const workers = [cluster.fork(), cluster.fork()];
    const taken = await Promise.all(workers.map((worker) => new Promise((resolve) => worker.once('message', resolve))));
    ids.push(...taken.flat());
  }
  if (parentPort !== null) parentPort.postMessage(ids);
  else process.send(ids, () => process.disconnect());
}

main();
