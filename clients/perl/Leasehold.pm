package Leasehold;

=encoding utf8

=head1 NAME

Leasehold - run Leasehold jobs in a warm Perl process (a handler with type = "stream")

=head1 SYNOPSIS

    use Leasehold 'serve';

    serve(sub {
        my ($job) = @_;
        deliver($job->payload->{to}, $job->payload->{text});
        return { sent => JSON::PP::true };
    });

    serve('mail.send' => \&send, 'mail.bounce' => \&bounce);    # by kind

=head1 DESCRIPTION

A handler takes a job and returns, in scalar context, its result: anything that JSON::PP encodes, a string of characters (kept as
text), or undef for no result. How it ends says what becomes of the job:

    return                                       succeeded
    Leasehold::Dead->throw($text)                never tried again
    Leasehold::Retry->throw($text)               tried again after the backoff,
    Leasehold::Retry->throw($text, after => 30)  or after so many seconds (0 to 31622400)
    Leasehold::Snooze->throw(60)                 run again in so many seconds, and not counted as an attempt
    Leasehold::Cancelled->throw                  stopped because $job->cancelled said so
    die                                          tried again, with the text as the error

A result that JSON cannot hold makes the job dead: trying again would not help.

While C<serve> runs, descriptor 1 is standard error, so C<print> writes to Leasehold's log, and descriptor 0 is /dev/null. Print
nothing to standard output before. C<serve> returns when Leasehold has no more work for this process. It needs Perl 5.14 and its
core modules. JSON::PP takes about a second to read a payload of one megabyte.

=head1 THE JOB

=over

=item id, claim_no

Together the fencing token for other systems: claim_no grows with every claim.

=item kind, queue, attempt, max_attempts

The first attempt is 1.

=item lease_id, lease_ms

A UUID, and the length in milliseconds of the lease, which is renewed while the handler runs.

=item timeout_ms

How long the handler may run, in milliseconds; 0 is without limit.

=item traceparent

The W3C trace context of whoever enqueued the job, or undef.

=item payload_text

The payload as it is in the table, as characters.

=item payload

The payload, decoded. Throws Leasehold::Dead if it is not JSON; then only payload_text is of use.

=item progress($percent, $note)

Reports how far the work is (0 to 100; what lies outside is moved to the edge), what it is at, or both; undef says nothing. Does not
wait.

=item cancelled

Why the job is to end early: "cancel", "timeout", "lease" or "shutdown"; undef if it is not. Does not wait.

SIGTERM follows soon after such a request, then SIGKILL. Who stops before keeps the process.

=item step($name, $work)

Calls $work, in scalar context, once for all attempts of this job, and returns what it returned, as JSON gives it back.

If an earlier attempt saved the step, $work is not called. Otherwise its result is saved (undef is fine; all steps of a job have
64 KiB together), and C<step> returns once that is committed; Leasehold::StepNotSaved says that it is not: let it end the attempt,
which is then tried again. The name has 1 to 64 characters of C<A-Z a-z 0-9 _ . : ->; a job may have 64.

=back

=cut

use v5.14;
use warnings;

use Encode ();
use Exporter 'import';
use JSON::PP ();

our $VERSION   = '1';
our @EXPORT_OK = ('serve');

use constant {
    PROTOCOL        => 1,
    ERROR_BYTES     => 500,
    NOTE_BYTES      => 1020,          # 255 characters are kept
    DEEPEST         => 90,            # Leasehold takes no line that is nested more than 100 deep
    LONGEST_DELAY_S => 31_622_400,    # a year
};

# Runs jobs until Leasehold closes the pipe. Takes a handler for every kind, or a list or a reference to a hash of kind => handler.
sub serve {
    my $handlers = @_ == 1 ? $_[0] : {@_};
    my $channel  = Leasehold::Channel->new;
    my $message  = $channel->receive or return;
    my $protocol = ref $message->{hello} eq 'HASH' ? $message->{hello}{protocol} : undef;
    if (!defined $protocol || $protocol ne PROTOCOL) {
        _quit('speaks protocol ' . PROTOCOL . ', but was greeted with ' . _clean(_encode($message), 200));
    }
    $channel->write(_encode({ hello => { protocol => PROTOCOL, client => "Leasehold.pm $VERSION" } }));
    while ($message = $channel->receive) {
        next if !$message->{job};    # a request to cancel the job before may still come
        my $job = Leasehold::Job->_new($channel, $message->{job});
        $job->_run(ref $handlers eq 'HASH' ? $handlers->{ $job->kind } : $handlers);
    }
    return;
}

# JSON that Leasehold can read: in UTF-8, not too deep, and with no whole number beyond 64 bits. Dies if that cannot be.
sub _encode {
    my ($value) = @_;
    my $text = JSON::PP->new->utf8->allow_nonref->max_depth(DEEPEST)->encode($value);

    # JSON::PP lets two things pass that are not JSON: characters that Perl alone encodes, and numbers that are none.
    Encode::decode('UTF-8', my $copy = $text, Encode::FB_CROAK) if $text =~ /[\xED\xF4-\xFF]/;
    (my $bare = $text) =~ s/\\.//g;
    $bare =~ s/"[^"]*"//g;
    die "NaN and infinity are not numbers of JSON\n" if $bare =~ /nan|inf/i;
    while ($bare =~ /(?<![0-9.eE+])(-?)([0-9]{19,})(?![0-9.eE])/g) {
        my $most = $1 ? '9223372036854775808' : '9223372036854775807';
        die "$1$2 does not fit into 64 bits\n" if length $2 > 19 || $2 gt $most;
    }
    return $text;
}

# Text that can be sent whatever is in it, cut between two characters. Bytes are taken for UTF-8 if they are.
sub _clean {
    my ($text, $limit) = @_;
    $text = "$text";
    utf8::decode($text) if !utf8::is_utf8($text);
    $text =~ s/[\x{D800}-\x{DFFF}]|[^\x{0}-\x{10FFFF}]/\x{FFFD}/g;
    my $bytes = substr Encode::encode('UTF-8', $text), 0, $limit // ERROR_BYTES;
    return Encode::decode('UTF-8', $bytes, Encode::FB_QUIET);
}

# What was thrown, without the place in JSON::PP or here that threw it.
sub _reason {
    my ($error) = @_;
    return "$error" =~ s/ at \S+ line \d+\.?\n*\z//r =~ s/\n+\z//r;
}

sub _milliseconds {
    my ($seconds) = @_;
    if (!defined $seconds || $seconds !~ /\A[-+.0-9eE]+\z/ || $seconds < 0 || $seconds > LONGEST_DELAY_S) {
        die 'not a delay of 0 to ' . LONGEST_DELAY_S . ' seconds: ' . ($seconds // 'undef') . "\n";
    }
    return int($seconds * 1000 + 0.5);
}

sub _quit {
    my ($why) = @_;
    print STDERR Encode::encode('UTF-8', "Leasehold.pm: $why\n");
    exit 1;
}

package Leasehold::Error {
    use overload '""' => sub { $_[0]{message} }, bool => sub { 1 }, fallback => 1;

    sub new {
        my ($class, $message, %options) = @_;
        my $after_ms = defined $options{after} ? Leasehold::_milliseconds($options{after}) : undef;
        return bless { message => $message // $class, after_ms => $after_ms }, $class;
    }

    sub throw {
        my ($class, @arguments) = @_;
        die $class->new(@arguments);
    }
}

package Leasehold::Retry        { our @ISA = ('Leasehold::Error') }
package Leasehold::Dead         { our @ISA = ('Leasehold::Error') }
package Leasehold::Cancelled    { our @ISA = ('Leasehold::Error') }
package Leasehold::StepNotSaved { our @ISA = ('Leasehold::Error') }

package Leasehold::Snooze {
    our @ISA = ('Leasehold::Error');

    sub new {
        my ($class, $after) = @_;
        my $after_ms = Leasehold::_milliseconds($after);
        return bless { message => "again in $after s", after_ms => $after_ms }, $class;
    }
}

package Leasehold::Job {
    use Scalar::Util 'blessed';

    for my $name (qw(id claim_no kind queue attempt max_attempts lease_id lease_ms timeout_ms traceparent)) {
        no strict 'refs';
        *$name = sub { $_[0]{job}{$name} };
    }

    sub _new {
        my ($class, $channel, $job) = @_;
        return bless { channel => $channel, job => $job, steps => $job->{steps} // {}, reason => undef, ended => 0 }, $class;
    }

    sub payload_text { $_[0]{job}{payload} }

    sub payload {
        my ($self) = @_;
        my $payload;
        if (!eval { $payload = JSON::PP->new->allow_nonref->decode($self->payload_text); 1 }) {
            Leasehold::Dead->throw('the payload is not JSON: ' . Leasehold::_reason($@));
        }
        return $payload;
    }

    sub progress {
        my ($self, $percent, $note) = @_;
        my %message;
        if (defined $percent) {
            $message{progress} = $percent > 100 ? 100 : $percent > 0 ? $percent + 0 : 0;
        }
        $message{note} = Leasehold::_clean($note, Leasehold::NOTE_BYTES) if defined $note;
        $self->_send(\%message) if %message;
        return;
    }

    sub cancelled {
        my ($self) = @_;
        while (!defined $self->{reason} && (my $message = $self->{channel}->receive('at once'))) {
            $self->_note_cancel($message);
        }
        return $self->{reason};
    }

    sub step {
        my ($self, $name, $work) = @_;
        $name =~ /\A[A-Za-z0-9_.:-]{1,64}\z/ or die "not a name for a step: $name\n";
        if (!exists $self->{steps}{$name}) {
            my $data = $work->();
            my $text = eval { Leasehold::_encode($data) };
            defined $text or Leasehold::Dead->throw("step $name cannot be written as JSON: " . Leasehold::_reason($@));
            $self->_send({ step => $name, data => $data });
            $self->_await_saved($name);
            $self->{steps}{$name} = JSON::PP->new->utf8->allow_nonref->decode($text);
        }
        return $self->{steps}{$name};
    }

    sub _await_saved {
        my ($self, $name) = @_;
        while (my $message = $self->{channel}->receive) {
            my $answer = $message->{step};
            if ($answer && $self->_is($answer) && $answer->{name} eq $name) {
                return if $answer->{saved};
                Leasehold::StepNotSaved->throw("step $name was not saved: " . ($answer->{why} // 'no reason given'));
            }
            $self->_note_cancel($message);
        }
        Leasehold::StepNotSaved->throw("step $name was not saved: Leasehold is gone");
    }

    sub _note_cancel {
        my ($self, $message) = @_;
        my $cancel = $message->{cancel};
        $self->{reason} = $cancel->{reason} if $cancel && $self->_is($cancel);
        return;
    }

    sub _is {
        my ($self, $other) = @_;
        return $other->{id} eq $self->id && $other->{claim_no} eq $self->claim_no;
    }

    sub _send {
        my ($self, $message) = @_;
        die "this job has ended\n" if $self->{ended};

        # The id is written as digits, whatever Perl takes them for.
        my $rest = substr Leasehold::_encode($message), 1;
        $self->{channel}->write(sprintf '{"id":%s,"claim_no":%s,%s', $self->id, $self->claim_no, $rest);
        return;
    }

    sub _run {
        my ($self, $handler) = @_;
        my $answer = $self->_outcome($handler);
        if (!eval { $self->_send($answer); 1 }) {
            my $why = Leasehold::_clean('the result cannot be written as JSON: ' . Leasehold::_reason($@));
            $self->_send({ outcome => 'dead', error => $why });
        }
        $self->{ended} = 1;
        return;
    }

    # What the handler comes to, as a message.
    sub _outcome {
        my ($self, $handler) = @_;
        my $result;
        if (eval { $handler or die 'no handler for the kind ', $self->kind, "\n"; $result = $handler->($self); 1 }) {
            return defined $result ? { outcome => 'succeeded', result => $result } : { outcome => 'succeeded' };
        }
        my $error = $@;
        my $is    = sub { blessed $error && $error->isa($_[0]) };
        if ($is->('Leasehold::Retry')) {
            my %delay = defined $error->{after_ms} ? (retry_after_ms => $error->{after_ms}) : ();
            return { outcome => 'retry', error => Leasehold::_clean($error), %delay };
        }
        return { outcome => 'snooze', snooze_ms => $error->{after_ms} } if $is->('Leasehold::Snooze');
        return { outcome => 'dead', error => Leasehold::_clean($error) } if $is->('Leasehold::Dead');
        return { outcome => 'cancelled' } if $is->('Leasehold::Cancelled') && defined $self->cancelled;

        my $text = Leasehold::_clean((blessed $error ? ref($error) . ': ' : '') . ($error =~ s/\n+\z//r));
        print STDERR Encode::encode('UTF-8', "$text\n");
        return { outcome => 'retry', error => $text };
    }
}

# The two pipes to Leasehold: messages are JSON objects, one a line.
package Leasehold::Channel {

    sub new {
        my ($class) = @_;
        open my $in,  '<&', \*STDIN  or Leasehold::_quit("standard input: $!");
        open my $out, '>&', \*STDOUT or Leasehold::_quit("standard output: $!");
        binmode $_ for $in, $out;
        open STDIN,  '<',  '/dev/null' or Leasehold::_quit("/dev/null: $!");
        open STDOUT, '>&', \*STDERR    or Leasehold::_quit("standard error: $!");
        STDOUT->autoflush;
        return bless { in => $in, out => $out, buffer => '', searched => 0 }, $class;
    }

    # The next message; undef at the end, and, at once, if there is none yet.
    sub receive {
        my ($self, $at_once) = @_;
        my $end;
        while (($end = index $self->{buffer}, "\n", $self->{searched}) < 0) {
            $self->{searched} = length $self->{buffer};
            return if $at_once && !$self->_readable;
            my $n = sysread $self->{in}, $self->{buffer}, 65536, $self->{searched};
            next if !defined $n && $!{EINTR};
            return if !$n;
        }
        my $line = substr $self->{buffer}, 0, $end + 1, '';
        $self->{searched} = 0;
        my $message = eval { JSON::PP->new->utf8->decode($line) };
        return $message if ref $message eq 'HASH';
        Leasehold::_quit('this is no message of Leasehold: ' . Leasehold::_clean($line, 200));
    }

    sub _readable {
        my ($self) = @_;
        vec(my $bits = '', fileno $self->{in}, 1) = 1;
        return select($bits, undef, undef, 0) > 0;
    }

    sub write {
        my ($self, $line) = @_;
        $line .= "\n";
        for (my $at = 0; $at < length $line;) {
            my $n = syswrite $self->{out}, $line, length($line) - $at, $at;
            next if !defined $n && $!{EINTR};
            defined $n or Leasehold::_quit("Leasehold is gone: $!");
            $at += $n;
        }
        return;
    }
}

1;
