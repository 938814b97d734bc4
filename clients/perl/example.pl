#!/usr/bin/perl
# Archives a file: copies it, then reads the copy back. The payload is {"from": "/path", "to": "/path"}.
#
# The result is {"bytes": n, "sha256": "..."}. An attempt that ends between the two steps does not copy again.
use v5.14;
use warnings;
use autodie;
use Digest::SHA;
use FindBin '$Bin';
use IO::Handle;
use lib $Bin;
use Leasehold 'serve';

use constant BLOCK => 1 << 20;

sub copy {
    my ($job, $source, $target) = @_;
    my ($done, $digest, $part) = (0, Digest::SHA->new(256), "$target." . $job->id . '.part');
    my $copied = eval {
        open my $from, '<:raw', $source;
        open my $to,   '>:raw', $part;
        my $size = -s $from || 1;
        while (read $from, my $block, BLOCK) {
            Leasehold::Cancelled->throw if $job->cancelled;
            print {$to} $block or die "$part: $!\n";
            $digest->add($block);
            $done += length $block;
            $job->progress(90 * $done / $size, "copied $done bytes");
        }
        $to->flush && $to->sync or die "$part: $!\n";
        close $to;
        rename $part, $target;
        { bytes => $done, sha256 => $digest->hexdigest };
    };
    my $error = $@;
    unlink $part if -e $part;
    die $error if !$copied;
    return $copied;
}

sub verify {
    my ($job, $target, $copied) = @_;
    $job->progress(90, 'reading it back');
    my $digest = Digest::SHA->new(256)->addfile($target, 'b')->hexdigest;
    Leasehold::Dead->throw("$target is not what was copied") if $digest ne $copied->{sha256};
    return;
}

serve(sub {
    my ($job) = @_;
    my $payload = $job->payload;
    my ($source, $target) = ref $payload eq 'HASH' ? @$payload{qw(from to)} : ();
    defined $source && defined $target or Leasehold::Dead->throw('the payload is not {"from": "...", "to": "..."}');
    utf8::encode($_) for $source, $target;    # names of files are bytes
    -e $source || -e $target or Leasehold::Dead->throw("$source does not exist");
    my $copied = $job->step(copied => sub { copy($job, $source, $target) });
    $job->step(verified => sub { verify($job, $target, $copied) });
    return $copied;
});
