<?php

// One handler for each behaviour that tests/clients asks of every language; see test_client_outcomes.py for what each must come to.

declare(strict_types=1);

require __DIR__ . '/../../../clients/php/leasehold.php';

use Leasehold\{Cancelled, Dead, Job, Retry, Snooze};

$kept = null;

function charge(): array
{
    echo "ran charge\n";
    return ['amount' => 12, 'who' => 'ü'];
}

function stop(Job $job): string
{
    $job->progress(1);
    while (($reason = $job->cancelled()) === null) {
        usleep(5000);
    }
    return match ($job->payload()['then']) {
        'raise' => throw new Cancelled(),
        'fail' => throw new UnexpectedValueException("stopped by $reason"),
        default => $reason,
    };
}

function prints(): string
{
    echo "printed\n";
    print "hé\n";
    file_put_contents('php://stdout', "written\n");
    proc_close(proc_open(['sh', '-c', 'echo from the child; cat'], [], $pipes));
    return 'read ' . strlen(file_get_contents('php://stdin'));
}

function unencodable(Job $job): mixed
{
    $value = ['object' => STDERR, 'text' => "\xff", 'number' => NAN][$job->payload()['what']];
    return $job->payload()['where'] === 'step' ? $job->step('odd', fn () => $value) : $value;
}

Leasehold\serve([
    'echo' => fn (Job $job) => $job->payload(),
    'raw' => fn (Job $job) => $job->payloadText,
    'nothing' => function (): void {
    },
    'pid' => fn () => getmypid(),
    'describe' => fn (Job $job) => [
        'id' => $job->id, 'claim_no' => $job->claimNo, 'kind' => $job->kind, 'queue' => $job->queue, 'attempt' => $job->attempt,
        'max_attempts' => $job->maxAttempts, 'lease_id' => $job->leaseId, 'lease_ms' => $job->leaseMs,
        'timeout_ms' => $job->timeoutMs, 'traceparent' => $job->traceparent, 'payload_text' => $job->payloadText,
    ],
    'size' => fn (Job $job) => [strlen($job->payloadText), substr($job->payloadText, -9)],
    'fail' => fn (Job $job) => throw new UnexpectedValueException($job->payload()['message']),
    'retry' => function (Job $job): never {
        $ms = $job->payload()['ms'] ?? null;
        throw new Retry($job->payload()['message'], after: $ms === null ? null : $ms / 1000);
    },
    'snooze' => fn (Job $job) => throw new Snooze($job->payload()['ms'] / 1000),
    'dead' => fn (Job $job) => throw new Dead($job->payload()['message']),
    'cancelled' => fn () => throw new Cancelled(),
    'progress' => function (Job $job): void {
        $job->progress(0);
        $job->progress(40.5, 'half ünd');
        $job->progress(note: str_repeat('n', 2000));
        $job->progress(250);
        $job->progress(-5);
    },
    'steps' => fn (Job $job) => [$job->step('charged', 'charge'), $job->step('mailed', fn () => null), $job->cancelled()],
    'again' => fn (Job $job) => [$job->step('charged', 'charge'), $job->step('charged', 'charge')],
    'name' => fn (Job $job) => $job->step($job->payload()['name'], fn () => 1),
    'stop' => 'stop',
    'busy' => 'stop',
    'look' => fn (Job $job) => $job->cancelled() ?? 'no',
    'print' => 'prints',
    'unencodable' => 'unencodable',
    'keep' => function (Job $job) use (&$kept): void {
        $kept = $job;
    },
    'late' => function () use (&$kept): void {
        $kept->progress(1);
    },
]);
