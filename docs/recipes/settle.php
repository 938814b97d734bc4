#!/usr/bin/php
<?php
/* Issues the invoice of an order once: the invoice and the end of the job are committed together, or neither is. */
declare(strict_types=1);

const DEAD = 65;                  // exit status: never try again
const LATER = 75;                 // try again later
const UNDONE = [1020, 1205, 1213]; // record changed, lock wait timeout, deadlock: run the whole transaction again

/** Somebody else has the job, or has finished it: nothing of ours may be committed. */
class LeaseLost extends Exception {}

function connect(): PDO
{
    $db = new PDO('mysql:unix_socket=' . getenv('DB_SOCKET') . ';dbname=shop;charset=utf8mb4', getenv('DB_USER'), getenv('DB_PASSWORD'),
        [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION, PDO::ATTR_EMULATE_PREPARES => false]);
    // A snapshot would see the job's row as it was before its last heartbeat.
    $db->exec('SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED');
    return $db;
}

function issue_invoice(PDO $db, int $order): void
{
    $db->beginTransaction();
    // The effects. However long they take, the lease is renewed meanwhile: the job's row is not locked yet.
    $select = $db->prepare('SELECT amount FROM orders WHERE id = ?');
    $select->execute([$order]);
    $amount = $select->fetchColumn();
    if ($amount === false) {
        throw new DomainException("there is no order $order");
    }
    $db->prepare('INSERT INTO invoices (order_id, amount) VALUES (?, ?)')->execute([$order, $amount]);
    $invoice = $db->lastInsertId();
    // The fence. It locks the job's row, so it comes last.
    $fence = $db->prepare("UPDATE leasehold.jobs SET state = 'succeeded', finished_at = UTC_TIMESTAMP(6), result = ?
        WHERE id = ? AND lease_id = ? AND state = 'running'");
    $fence->execute([$invoice, getenv('LEASEHOLD_JOB_ID'), getenv('LEASEHOLD_LEASE_ID')]);
    if ($fence->rowCount() !== 1) {
        throw new LeaseLost('the lease is lost: rolled back');
    }
    $db->commit();
}

function fail(string $why, int $status): never
{
    fwrite(STDERR, "$why\n");
    exit($status); // an open transaction ends with the connection: rolled back
}

$order = json_decode(stream_get_contents(STDIN), true)['order'] ?? null;
if (!is_int($order)) {
    fail('the payload is not {"order": NUMBER}', DEAD);
}
$db = connect();
for ($attempt = 0; $attempt < 10; $attempt++) {
    try {
        issue_invoice($db, $order);
        exit(0);
    } catch (DomainException $error) {
        fail($error->getMessage(), DEAD);
    } catch (LeaseLost $error) {
        fail($error->getMessage(), LATER);
    } catch (PDOException $error) {
        if (!in_array($error->errorInfo[1] ?? 0, UNDONE, true)) {
            throw $error; // status 255: tried again. If the connection broke in COMMIT and it was done, the daemon sees that.
        }
        if ($db->inTransaction()) {
            $db->rollBack();
        }
        usleep(random_int(0, 50000 * 2 ** $attempt));
    }
}
fail('too many deadlocks', LATER);
