#!/usr/bin/perl
# One handler for each behaviour that tests/clients asks of every language; see test_client_outcomes.py for what each must come to.
use v5.14;
use warnings;
use utf8;
use FindBin '$Bin';
use lib "$Bin/../../../clients/perl";
use Leasehold 'serve';
use Time::HiRes 'sleep';

package Failure {
    use overload '""' => sub { $_[0]{message} };
}

binmode STDOUT, ':encoding(UTF-8)';
my $kept;

sub charge {
    say 'ran charge';
    return { amount => 12, who => 'ü' };
}

sub fail { die bless { message => $_[0] }, 'Failure' }

sub stop {
    my ($job) = @_;
    my $reason;
    $job->progress(1);
    sleep 0.005 while !defined($reason = $job->cancelled);
    my $then = $job->payload->{then};
    Leasehold::Cancelled->throw if $then eq 'raise';
    fail("stopped by $reason")  if $then eq 'fail';
    return $reason;
}

sub unencodable {
    my ($job) = @_;
    my %values = (object => sub { }, text => chr 0xD800, number => 9**9**9 / 9**9**9);
    my $value  = $values{ $job->payload->{what} };
    return $job->payload->{where} eq 'step' ? $job->step('odd', sub { $value }) : $value;
}

my @names = qw(claim_no kind queue attempt max_attempts lease_id lease_ms timeout_ms traceparent payload_text);

serve(
    echo     => sub { $_[0]->payload },
    raw      => sub { $_[0]->payload_text },
    nothing  => sub { return },
    pid      => sub { $$ },
    describe => sub { my ($job) = @_; return { id => $job->id . '', map { $_ => $job->$_ } @names } },
    size     => sub { utf8::encode(my $bytes = $_[0]->payload_text); return [length $bytes, substr $_[0]->payload_text, -9] },
    fail     => sub { fail($_[0]->payload->{message}) },
    retry    => sub {
        my $ms = $_[0]->payload->{ms};
        Leasehold::Retry->throw($_[0]->payload->{message}, defined $ms ? (after => $ms / 1000) : ());
    },
    snooze    => sub { Leasehold::Snooze->throw($_[0]->payload->{ms} / 1000) },
    dead      => sub { Leasehold::Dead->throw($_[0]->payload->{message}) },
    cancelled => sub { Leasehold::Cancelled->throw },
    progress  => sub {
        my ($job) = @_;
        $job->progress(0);
        $job->progress(40.5,  'half ünd');
        $job->progress(undef, 'n' x 2000);
        $job->progress(250);
        $job->progress(-5);
        return;
    },
    steps => sub { [$_[0]->step(charged => \&charge), $_[0]->step(mailed => sub { undef }), $_[0]->cancelled] },
    again => sub { [$_[0]->step(charged => \&charge), $_[0]->step(charged => \&charge)] },
    name  => sub { $_[0]->step($_[0]->payload->{name}, sub { 1 }) },
    stop  => \&stop,
    busy  => \&stop,
    look  => sub { $_[0]->cancelled // 'no' },
    print => sub {
        print "printed\n";
        say 'hé';
        syswrite STDERR, '';
        open my $again, '>&', 1 or die;
        print $again "written\n";
        close $again;
        system 'sh', '-c', 'echo from the child; cat';
        return 'read ' . length join '', <STDIN>;
    },
    unencodable => \&unencodable,
    keep        => sub { $kept = $_[0]; return },
    late        => sub { $kept->progress(1) },
);
