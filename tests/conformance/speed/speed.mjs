// One request at a time: a bare echo, the client, a pool. Prints a line of JSON; see tests/measure-clients.
import { connect } from 'node:net';
import { Client, Pool } from 'leafd-client';

const setting = (name) => Number(process.env[name]);
const [calls, rounds, pooled] = ['CALLS', 'ROUNDS', 'POOLED'].map(setting);
const request = Buffer.alloc(setting('SIZE'));
const size = setting('ANSWER');

const bare = connect(process.env.ECHO);
let left = 0;
let arrived;
bare.on('data', (bytes) => {
  left -= bytes.length;
  if (left === 0) arrived();
});
const echo = () =>
  new Promise((resolve) => {
    left = size;
    arrived = resolve;
    bare.write(request);
  });

const client = new Client();
const pool = Pool.tag('pooled');
const rate = async (call, count) => {
  const began = performance.now();
  for (let i = 0; i < count; i++) await call();
  return (count * 1000) / (performance.now() - began);
};
const next = () => client.next('speed');
const fromPool = () => pool.next();
const rates = { echo: [], client: [], pool: [] };
await rate(echo, calls / 4);
await rate(next, calls / 4);
await rate(fromPool, pooled / 4);
for (let round = 0; round < rounds; round++) {
  rates.echo.push(await rate(echo, calls));
  rates.client.push(await rate(next, calls));
}
for (let round = 0; round < 3; round++) rates.pool.push(await rate(fromPool, pooled));
console.log(JSON.stringify(rates));
bare.destroy();
await client.close();
await pool.close();
