#!/usr/bin/ruby
# Issues the invoice of an order once: the invoice and the end of the job are committed together, or neither is.
require 'json'
require 'mysql2'

DEAD = 65   # exit status: never try again
LATER = 75  # try again later
UNDONE = [1020, 1205, 1213].freeze # record changed, lock wait timeout, deadlock: run the whole transaction again

# Somebody else has the job, or has finished it: nothing of ours may be committed.
class LeaseLost < StandardError; end
class NoSuchOrder < StandardError; end

def connect
  db = Mysql2::Client.new(socket: ENV.fetch('DB_SOCKET'), username: ENV.fetch('DB_USER'), password: ENV.fetch('DB_PASSWORD'),
                          database: 'shop', encoding: 'utf8mb4')
  # A snapshot would see the job's row as it was before its last heartbeat.
  db.query('SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED')
  db
end

def issue_invoice(db, order)
  db.query('START TRANSACTION')
  # The effects. However long they take, the lease is renewed meanwhile: the job's row is not locked yet.
  found = db.prepare('SELECT amount FROM orders WHERE id = ?').execute(order).first
  raise NoSuchOrder, "there is no order #{order}" unless found

  insert = db.prepare('INSERT INTO invoices (order_id, amount) VALUES (?, ?)')
  insert.execute(order, found['amount'])
  # The fence. It locks the job's row, so it comes last.
  fence = db.prepare("UPDATE leasehold.jobs SET state = 'succeeded', finished_at = UTC_TIMESTAMP(6), result = ? " \
                     "WHERE id = ? AND lease_id = ? AND state = 'running'")
  fence.execute(insert.last_id.to_s, ENV.fetch('LEASEHOLD_JOB_ID'), ENV.fetch('LEASEHOLD_LEASE_ID'))
  raise LeaseLost, 'the lease is lost: rolled back' unless fence.affected_rows == 1

  db.query('COMMIT')
end

def fail_with(why, status)
  warn why
  exit status # an open transaction ends with the connection: rolled back
end

begin
  order = Integer(JSON.parse($stdin.read).fetch('order'))
rescue JSON::ParserError, KeyError, TypeError, ArgumentError, NoMethodError => e
  fail_with("the payload is not {\"order\": NUMBER}: #{e.message}", DEAD)
end

db = connect
10.times do |attempt|
  issue_invoice(db, order)
  exit 0
rescue NoSuchOrder => e
  fail_with(e.message, DEAD)
rescue LeaseLost => e
  fail_with(e.message, LATER)
rescue Mysql2::Error => e
  raise unless UNDONE.include?(e.error_number) # status 1: tried again. If COMMIT broke and was done, the daemon sees that.

  db.query('ROLLBACK')
  sleep rand * 0.05 * 2**attempt
end
fail_with('too many deadlocks', LATER)
