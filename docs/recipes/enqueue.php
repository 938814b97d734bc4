#!/usr/bin/php
<?php
/* Takes an order (its amount is the argument), and asks for its invoice in the same transaction: both are committed, or neither is. */
declare(strict_types=1);

function place_order(PDO $db, string $amount): int
{
    $db->beginTransaction();
    $db->prepare('INSERT INTO orders (amount) VALUES (?)')->execute([$amount]);
    $order = (int) $db->lastInsertId();
    $db->prepare("INSERT INTO leasehold.jobs (kind, payload) VALUES ('invoice.issue', ?)")->execute([json_encode(['order' => $order])]);
    $db->commit();
    return $order;
}

$db = new PDO('mysql:unix_socket=' . getenv('DB_SOCKET') . ';dbname=shop;charset=utf8mb4', getenv('DB_USER'), getenv('DB_PASSWORD'),
    [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION, PDO::ATTR_EMULATE_PREPARES => false]);
echo place_order($db, $argv[1]), "\n";
