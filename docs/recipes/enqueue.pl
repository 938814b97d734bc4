#!/usr/bin/perl
# Takes an order (its amount is the argument), and asks for its invoice in the same transaction: both are committed, or neither is.
use strict;
use warnings;
use DBI;
use JSON::PP qw(encode_json);

sub place_order {
    my ($db, $amount) = @_;
    $db->begin_work;
    $db->do('INSERT INTO orders (amount) VALUES (?)', undef, $amount);
    my $order = $db->last_insert_id;
    $db->do(q{INSERT INTO leasehold.jobs (kind, payload) VALUES ('invoice.issue', ?)}, undef, encode_json({ order => $order + 0 }));
    $db->commit;
    return $order;
}

my $db = DBI->connect("DBI:MariaDB:database=shop;mariadb_socket=$ENV{DB_SOCKET}",
    $ENV{DB_USER}, $ENV{DB_PASSWORD}, { RaiseError => 1, PrintError => 0, AutoCommit => 1 });
print place_order($db, $ARGV[0]), "\n";
