#!/usr/bin/ruby
# Takes an order (its amount is the argument), and asks for its invoice in the same transaction: both are committed, or neither is.
require 'json'
require 'mysql2'

def place_order(db, amount)
  db.query('START TRANSACTION')
  insert = db.prepare('INSERT INTO orders (amount) VALUES (?)')
  insert.execute(amount)
  job = db.prepare("INSERT INTO leasehold.jobs (kind, payload) VALUES ('invoice.issue', ?)")
  job.execute(JSON.generate(order: insert.last_id))
  db.query('COMMIT')
  insert.last_id
end

db = Mysql2::Client.new(socket: ENV.fetch('DB_SOCKET'), username: ENV.fetch('DB_USER'), password: ENV.fetch('DB_PASSWORD'),
                        database: 'shop', encoding: 'utf8mb4')
puts place_order(db, ARGV.fetch(0))
