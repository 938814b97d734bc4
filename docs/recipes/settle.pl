#!/usr/bin/perl
# Issues the invoice of an order once: the invoice and the end of the job are committed together, or neither is.
use strict;
use warnings;
use DBI;
use JSON::PP qw(decode_json);
use Time::HiRes qw(sleep);

use constant { DEAD => 65, LATER => 75 };    # exit status: never try again; try again later

# Record changed, lock wait timeout, deadlock: run the whole transaction again.
my %undone = map { $_ => 1 } 1020, 1205, 1213;

sub fail {
    my ($why, $status) = @_;
    print STDERR "$why\n";
    exit $status;    # an open transaction ends with the connection: rolled back
}

sub issue_invoice {
    my ($db, $order) = @_;
    $db->begin_work;

    # The effects. However long they take, the lease is renewed meanwhile: the job's row is not locked yet.
    my ($amount) = $db->selectrow_array('SELECT amount FROM orders WHERE id = ?', undef, $order);
    fail("there is no order $order", DEAD) unless defined $amount;
    $db->do('INSERT INTO invoices (order_id, amount) VALUES (?, ?)', undef, $order, $amount);
    my $invoice = $db->last_insert_id;

    # The fence. It locks the job's row, so it comes last.
    my $fenced = $db->do(
        q{UPDATE leasehold.jobs SET state = 'succeeded', finished_at = UTC_TIMESTAMP(6), result = ?
           WHERE id = ? AND lease_id = ? AND state = 'running'},
        undef, $invoice, $ENV{LEASEHOLD_JOB_ID}, $ENV{LEASEHOLD_LEASE_ID});

    # Somebody else has the job, or has finished it: nothing of ours may be committed.
    fail('the lease is lost: rolled back', LATER) if $fenced != 1;
    $db->commit;
}

my $payload = eval { local $/; decode_json(<STDIN>) };
my $order = ref $payload eq 'HASH' ? $payload->{order} : undef;
fail('the payload is not {"order": NUMBER}', DEAD) unless defined $order && $order =~ /^[0-9]+$/;

my $db = DBI->connect("DBI:MariaDB:database=shop;mariadb_socket=$ENV{DB_SOCKET}",
    $ENV{DB_USER}, $ENV{DB_PASSWORD}, { RaiseError => 1, PrintError => 0, AutoCommit => 1 });

# A snapshot would see the job's row as it was before its last heartbeat.
$db->do('SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED');

for my $attempt (0 .. 9) {
    exit 0 if eval { issue_invoice($db, $order); 1 };

    # Anything else is status 255: tried again. If the connection broke in COMMIT and it was done, the daemon sees that.
    die $@ unless $undone{ $db->err // 0 };
    $db->rollback unless $db->{AutoCommit};
    sleep rand(0.05 * 2**$attempt);
}
fail('too many deadlocks', LATER);
