<?php

/**
 * Run Leasehold jobs in a warm PHP process (a handler with type = "stream").
 *
 *     require 'leasehold.php';
 *
 *     Leasehold\serve(function (Leasehold\Job $job): array {
 *         deliver($job->payload()['to'], $job->payload()['text']);
 *         return ['sent' => true];
 *     });
 *
 * A handler is a callable that takes a Job and returns the job's result: anything that json_encode() takes, a string (kept as
 * text), or null for no result. How it ends says what becomes of the job:
 *
 *     return                      succeeded
 *     throw new Dead($text)       never tried again
 *     throw new Retry($text)      tried again after the backoff, or after so many seconds: new Retry($text, after: 30)
 *     throw new Snooze(60)        run again in so many seconds, and not counted as an attempt
 *     throw new Cancelled()       stopped because $job->cancelled() said so
 *     any other Throwable         tried again, with its class and message as the error; the trace goes to the log
 *
 * A result that JSON cannot hold makes the job dead: trying again would not help.
 *
 * While serve() runs, descriptor 1 is standard error, so echo writes to Leasehold's log, and descriptor 0 is /dev/null; the
 * constants STDIN and STDOUT are closed (php://stdout and STDERR are not). Print nothing before. serve() returns when Leasehold has
 * no more work for this process. Needs PHP 8.1 and nothing else.
 */

declare(strict_types=1);

namespace Leasehold;

const PROTOCOL = 1;
/** @internal */
const ERROR_BYTES = 500, NOTE_BYTES = 1020; // of a note, 255 characters are kept
/** @internal Leasehold takes no line that is nested more than 100 deep. */
const DEEPEST = 90;
/** @internal */
const LONGEST_DELAY_S = 31622400; // a year

/** The attempt failed: try again after so many seconds (0 to 31622400; null: after the backoff). */
class Retry extends \RuntimeException
{
    /** @internal */
    public readonly ?int $afterMs;

    public function __construct(string $message = '', int|float|null $after = null)
    {
        parent::__construct($message);
        $this->afterMs = $after === null ? null : milliseconds($after);
    }
}

/** The job cannot succeed: do not try again. */
class Dead extends \RuntimeException
{
}

/** It is too early: run again after so many seconds (0 to 31622400). The attempt is not counted. */
class Snooze extends \RuntimeException
{
    /** @internal */
    public readonly int $afterMs;

    public function __construct(int|float $after)
    {
        parent::__construct("again in $after s");
        $this->afterMs = milliseconds($after);
    }
}

/** The handler stopped because it was asked to. Without a request, this is an error like any other. */
class Cancelled extends \RuntimeException
{
}

/** Leasehold could not save a step, because the lease is lost, say. Let it end the attempt: it is tried again. */
class StepNotSaved extends \RuntimeException
{
}

/** One attempt at a job. */
final class Job
{
    /** Digits: an id may be greater than PHP_INT_MAX. */
    public readonly string $id;
    /** Grows with every claim: with the id, the fencing token for other systems. */
    public readonly int $claimNo;
    public readonly string $kind;
    public readonly string $queue;
    /** The first attempt is 1. */
    public readonly int $attempt;
    public readonly int $maxAttempts;
    /** A UUID. */
    public readonly string $leaseId;
    /** The length of the lease in milliseconds. It is renewed while the handler runs. */
    public readonly int $leaseMs;
    /** How long the handler may run, in milliseconds; 0 is without limit. */
    public readonly int $timeoutMs;
    /** The W3C trace context of whoever enqueued the job. */
    public readonly ?string $traceparent;
    /** The payload as it is in the table. */
    public readonly string $payloadText;

    /** @var array<string, mixed> */
    private array $steps;
    private ?string $reason = null;
    private bool $ended = false;

    /** @internal */
    public function __construct(private readonly Channel $channel, array $job)
    {
        $this->id = (string) $job['id'];
        $this->claimNo = $job['claim_no'];
        $this->kind = $job['kind'];
        $this->queue = $job['queue'] ?? '';
        $this->attempt = $job['attempt'] ?? 1;
        $this->maxAttempts = $job['max_attempts'] ?? 1;
        $this->leaseId = $job['lease_id'] ?? '';
        $this->leaseMs = $job['lease_ms'] ?? 0;
        $this->timeoutMs = $job['timeout_ms'] ?? 0;
        $this->traceparent = $job['traceparent'] ?? null;
        $this->payloadText = $job['payload'];
        $this->steps = $job['steps'] ?? [];
    }

    /**
     * The payload, decoded: objects become arrays, integers beyond PHP_INT_MAX strings.
     *
     * @throws Dead if it is not JSON; then only $payloadText is of use
     */
    public function payload(): mixed
    {
        try {
            return decode($this->payloadText);
        } catch (\JsonException $error) {
            throw new Dead("the payload is not JSON: {$error->getMessage()}");
        }
    }

    /** Reports how far the work is (0 to 100; what lies outside is moved to the edge), what it is at, or both. Does not wait. */
    public function progress(int|float|null $percent = null, ?string $note = null): void
    {
        $message = [];
        if ($percent !== null) {
            $message['progress'] = is_nan((float) $percent) ? 0 : min(100, max(0, $percent));
        }
        if ($note !== null) {
            $message['note'] = clean($note, NOTE_BYTES);
        }
        if ($message !== []) {
            $this->send($message);
        }
    }

    /**
     * Why the job is to end early: "cancel", "timeout", "lease" or "shutdown"; null if it is not. Does not wait.
     *
     * SIGTERM follows soon after such a request, then SIGKILL. Who stops before keeps the process.
     */
    public function cancelled(): ?string
    {
        while ($this->reason === null && ($message = $this->channel->receive(wait: false)) !== null) {
            $this->noteCancel($message);
        }
        return $this->reason;
    }

    /**
     * Does $work() once for all attempts of this job, and returns what it returned, as JSON gives it back.
     *
     * If an earlier attempt saved the step, $work is not called. Otherwise its result is saved (null is fine; all steps of a job
     * have 64 KiB together), and step() returns once that is committed.
     *
     * @param string $name 1 to 64 characters of A-Z a-z 0-9 _ . : -; a job may have 64 steps
     * @throws StepNotSaved if it could not be saved
     */
    public function step(string $name, callable $work): mixed
    {
        if (preg_match('/^[A-Za-z0-9_.:-]{1,64}$/D', $name) !== 1) {
            throw new \ValueError("not a name for a step: $name");
        }
        if (!array_key_exists($name, $this->steps)) {
            $data = $work();
            try {
                $text = encode($data);
            } catch (\Throwable $error) {
                throw new Dead("step $name cannot be written as JSON: {$error->getMessage()}");
            }
            $this->send(['step' => $name, 'data' => $data]);
            $this->awaitSaved($name);
            $this->steps[$name] = decode($text);
        }
        return $this->steps[$name];
    }

    private function awaitSaved(string $name): void
    {
        while (($message = $this->channel->receive()) !== null) {
            $answer = $message['step'] ?? null;
            if ($answer !== null && $this->is($answer) && $answer['name'] === $name) {
                if ($answer['saved'] === true) {
                    return;
                }
                throw new StepNotSaved("step $name was not saved: " . ($answer['why'] ?? 'no reason given'));
            }
            $this->noteCancel($message);
        }
        throw new StepNotSaved("step $name was not saved: Leasehold is gone");
    }

    private function noteCancel(array $message): void
    {
        if (isset($message['cancel']) && $this->is($message['cancel'])) {
            $this->reason = $message['cancel']['reason'];
        }
    }

    private function is(array $other): bool
    {
        return (string) $other['id'] === $this->id && $other['claim_no'] === $this->claimNo;
    }

    private function send(array $message): void
    {
        if ($this->ended) {
            throw new \LogicException('this job has ended');
        }
        // The id is written as digits: as a string it would not be the number that Leasehold asked for.
        $this->channel->write('{"id":' . $this->id . ',"claim_no":' . $this->claimNo . ',' . substr(encode($message), 1));
    }

    /** @internal */
    public function run(?callable $handler): void
    {
        $answer = $this->outcome($handler);
        try {
            $this->send($answer);
        } catch (\Throwable $error) {
            $this->send(['outcome' => 'dead', 'error' => clean("the result cannot be written as JSON: {$error->getMessage()}")]);
        }
        $this->ended = true;
    }

    /** What the handler comes to, as a message. */
    private function outcome(?callable $handler): array
    {
        try {
            if ($handler === null) {
                throw new \LogicException("no handler for the kind {$this->kind}");
            }
            $result = $handler($this);
            return ['outcome' => 'succeeded'] + ($result === null ? [] : ['result' => $result]);
        } catch (Retry $error) {
            return ['outcome' => 'retry', 'error' => clean($error->getMessage() ?: 'Retry')]
                + ($error->afterMs === null ? [] : ['retry_after_ms' => $error->afterMs]);
        } catch (Snooze $error) {
            return ['outcome' => 'snooze', 'snooze_ms' => $error->afterMs];
        } catch (Dead $error) {
            return ['outcome' => 'dead', 'error' => clean($error->getMessage() ?: 'Dead')];
        } catch (\Throwable $error) {
            if ($error instanceof Cancelled && $this->cancelled() !== null) {
                return ['outcome' => 'cancelled'];
            }
            fwrite(STDERR, "$error\n");
            return ['outcome' => 'retry', 'error' => clean($error::class . ": {$error->getMessage()}")];
        }
    }
}

/** @internal The two pipes to Leasehold: messages are JSON objects, one a line. */
final class Channel
{
    /** @var resource */
    private $in;
    /** @var resource */
    private $out;
    /** What now stands at descriptors 0 and 1: it must stay open. */
    private static array $standard = [];
    private string $buffer = '';
    private int $searched = 0;
    public bool $gone = false;

    public function __construct()
    {
        $this->in = fopen('php://fd/0', 'r');
        $this->out = fopen('php://fd/1', 'w');
        // What is opened takes the lowest descriptor that is free.
        fclose(STDIN);
        self::$standard[] = fopen('/dev/null', 'r');
        fclose(STDOUT);
        self::$standard[] = fopen('php://fd/2', 'w');
    }

    /** The next message; null at the end, and, without $wait, if there is none yet. */
    public function receive(bool $wait = true): ?array
    {
        while (($end = strpos($this->buffer, "\n", $this->searched)) === false) {
            $this->searched = strlen($this->buffer);
            $read = [$this->in];
            $write = $except = null;
            if (!@stream_select($read, $write, $except, $wait ? null : 0)) { // a signal may end the wait
                if (!$wait) {
                    return null;
                }
                continue;
            }
            $chunk = (string) fread($this->in, 65536);
            if ($chunk === '' && feof($this->in)) {
                return null;
            }
            $this->buffer .= $chunk;
        }
        $line = substr($this->buffer, 0, $end);
        $this->buffer = substr($this->buffer, $end + 1);
        $this->searched = 0;
        return $this->message($line);
    }

    private function message(string $line): array
    {
        try {
            $message = decode($line);
        } catch (\JsonException) {
            $message = null;
        }
        if (!is_array($message) || ltrim($line)[0] !== '{') { // [] and {} are the same to PHP
            quit('this is no message of Leasehold: ' . clean($line, 200));
        }
        return $message;
    }

    public function write(string $line): void
    {
        $line .= "\n";
        while ($line !== '' && !$this->gone) {
            $written = @fwrite($this->out, $line);
            $this->gone = $written === false || $written === 0;
            $line = substr($line, (int) $written);
        }
    }
}

/**
 * Runs jobs until Leasehold closes the pipe.
 *
 * @param callable|array<string, callable> $handlers a handler for every kind, or a map of kind to handler
 */
function serve(callable|array $handlers): void
{
    $channel = new Channel();
    $hello = $channel->receive();
    if ($hello === null) {
        return;
    }
    if (!is_array($hello['hello'] ?? null) || ($hello['hello']['protocol'] ?? null) !== PROTOCOL) {
        quit('speaks protocol ' . PROTOCOL . ', but was greeted with ' . clean(encode($hello), 200));
    }
    $channel->write(encode(['hello' => ['protocol' => PROTOCOL, 'client' => 'leasehold.php 1']]));
    while (!$channel->gone && ($message = $channel->receive()) !== null) {
        if (isset($message['job'])) { // a request to cancel the job before may still come
            $job = new Job($channel, $message['job']);
            $job->run(is_callable($handlers) ? $handlers : $handlers[$job->kind] ?? null);
        }
    }
}

/** @internal */
function encode(mixed $value): string
{
    $flags = JSON_THROW_ON_ERROR | JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES | JSON_PRESERVE_ZERO_FRACTION;
    return json_encode($value, $flags, DEEPEST);
}

/** @internal */
function decode(string $text): mixed
{
    return json_decode($text, true, 512, JSON_THROW_ON_ERROR | JSON_BIGINT_AS_STRING);
}

/** @internal Text that can be sent whatever is in it, cut between two characters. */
function clean(string $text, int $limit = ERROR_BYTES): string
{
    $valid = decode(json_encode(substr($text, 0, $limit + 4), JSON_THROW_ON_ERROR | JSON_INVALID_UTF8_SUBSTITUTE));
    while (strlen($valid) > $limit) {
        $valid = preg_replace('/.\z/su', '', $valid);
    }
    return $valid;
}

/** @internal */
function milliseconds(int|float $seconds): int
{
    if (!($seconds >= 0 && $seconds <= LONGEST_DELAY_S)) {
        throw new \ValueError('not a delay of 0 to ' . LONGEST_DELAY_S . " seconds: $seconds");
    }
    return (int) round($seconds * 1000);
}

/** @internal */
function quit(string $why): never
{
    fwrite(STDERR, "leasehold.php: $why\n");
    exit(1);
}
