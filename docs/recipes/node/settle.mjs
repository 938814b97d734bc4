#!/usr/bin/env node
// Issues the invoice of an order once: the invoice and the end of the job are committed together, or neither is.
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import mysql from 'mysql2/promise';

const DEAD = 65; // exit status: never try again
const LATER = 75; // try again later
const UNDONE = [1020, 1205, 1213]; // record changed, lock wait timeout, deadlock: run the whole transaction again

class Failure extends Error {
  constructor(why, status) {
    super(why);
    this.status = status;
  }
}

async function connect() {
  const { DB_SOCKET, DB_USER, DB_PASSWORD } = process.env;
  const db = await mysql.createConnection({ socketPath: DB_SOCKET, user: DB_USER, password: DB_PASSWORD, database: 'shop' });
  // A snapshot would see the job's row as it was before its last heartbeat.
  await db.query('SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED');
  return db;
}

async function issueInvoice(db, order) {
  await db.beginTransaction();
  // The effects. However long they take, the lease is renewed meanwhile: the job's row is not locked yet.
  const [found] = await db.execute('SELECT amount FROM orders WHERE id = ?', [order]);
  if (found.length === 0) throw new Failure(`there is no order ${order}`, DEAD);
  const [invoice] = await db.execute('INSERT INTO invoices (order_id, amount) VALUES (?, ?)', [order, found[0].amount]);
  // The fence. It locks the job's row, so it comes last.
  const [fence] = await db.execute(
    `UPDATE leasehold.jobs SET state = 'succeeded', finished_at = UTC_TIMESTAMP(6), result = ?
      WHERE id = ? AND lease_id = ? AND state = 'running'`,
    [String(invoice.insertId), process.env.LEASEHOLD_JOB_ID, process.env.LEASEHOLD_LEASE_ID]);
  // None: somebody else has the job, or has finished it. Nothing of ours may be committed.
  if (fence.affectedRows !== 1) throw new Failure('the lease is lost: rolled back', LATER);
  await db.commit();
}

async function readOrder() {
  try {
    const { order } = JSON.parse(await text(process.stdin));
    if (Number.isSafeInteger(order)) return order;
  } catch { /* told below */ }
  throw new Failure('the payload is not {"order": NUMBER}', DEAD);
}

async function main() {
  const order = await readOrder();
  const db = await connect();
  for (let attempt = 0; attempt < 10; attempt++) {
    try {
      return await issueInvoice(db, order);
    } catch (error) {
      // Anything else is status 1: tried again. If the connection broke in COMMIT and it was done, the daemon sees that.
      if (!UNDONE.includes(error.errno)) throw error;
      await db.rollback();
      await sleep(Math.random() * 50 * 2 ** attempt);
    }
  }
  throw new Failure('too many deadlocks', LATER);
}

main().then(() => process.exit(0), (error) => {
  console.error(error.message);
  process.exit(error.status ?? 1); // an open transaction ends with the connection: rolled back
});
