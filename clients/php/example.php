#!/usr/bin/php
<?php

/**
 * Archives a file: copies it, then reads the copy back. The payload is {"from": "/path", "to": "/path"}.
 *
 * The result is {"bytes": n, "sha256": "..."}. An attempt that ends between the two steps does not copy again.
 */

declare(strict_types=1);

require __DIR__ . '/leasehold.php';

use Leasehold\{Cancelled, Dead, Job};

const BLOCK = 1 << 20;

// Warnings, as of a full disk, become exceptions: the attempt is tried again.
set_error_handler(fn (int $level, string $message) => throw new ErrorException($message, 0, $level));

function copyFile(Job $job, string $source, string $target): array
{
    $size = max(filesize($source), 1);
    $done = 0;
    $digest = hash_init('sha256');
    $part = "$target.{$job->id}.part";
    try {
        $from = fopen($source, 'rb');
        $to = fopen($part, 'wb');
        while (($block = fread($from, BLOCK)) !== '') {
            if ($job->cancelled() !== null) {
                throw new Cancelled();
            }
            fwrite($to, $block);
            hash_update($digest, $block);
            $done += strlen($block);
            $job->progress(90 * $done / $size, "copied $done bytes");
        }
        fsync($to);
        rename($part, $target);
    } finally {
        if (file_exists($part)) {
            unlink($part);
        }
    }
    return ['bytes' => $done, 'sha256' => hash_final($digest)];
}

function verify(Job $job, string $target, array $copied): void
{
    $job->progress(90, 'reading it back');
    if (hash_file('sha256', $target) !== $copied['sha256']) {
        throw new Dead("$target is not what was copied");
    }
}

Leasehold\serve(function (Job $job): array {
    ['from' => $source, 'to' => $target] = (array) $job->payload() + ['from' => null, 'to' => null];
    if (!is_string($source) || !is_string($target)) {
        throw new Dead('the payload is not {"from": "...", "to": "..."}');
    }
    if (!file_exists($source) && !file_exists($target)) {
        throw new Dead("$source does not exist");
    }
    $copied = $job->step('copied', fn () => copyFile($job, $source, $target));
    $job->step('verified', fn () => verify($job, $target, $copied));
    return $copied;
});
