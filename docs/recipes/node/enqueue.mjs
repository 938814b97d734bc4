#!/usr/bin/env node
// Takes an order (its amount is the argument), and asks for its invoice in the same transaction: both are committed, or neither is.
import mysql from 'mysql2/promise';

async function placeOrder(db, amount) {
  await db.beginTransaction();
  const [{ insertId: order }] = await db.execute('INSERT INTO orders (amount) VALUES (?)', [amount]);
  await db.execute("INSERT INTO leasehold.jobs (kind, payload) VALUES ('invoice.issue', ?)", [JSON.stringify({ order })]);
  await db.commit();
  return order;
}

const { DB_SOCKET, DB_USER, DB_PASSWORD } = process.env;
const db = await mysql.createConnection({ socketPath: DB_SOCKET, user: DB_USER, password: DB_PASSWORD, database: 'shop' });
console.log(await placeOrder(db, process.argv[2]));
await db.end();
