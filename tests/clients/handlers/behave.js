'use strict';
// One handler for each behaviour that tests/clients asks of every language; see test_client_outcomes.py for what each must come to.
const fs = require('node:fs');
const { spawnSync } = require('node:child_process');
const { setTimeout: sleep } = require('node:timers/promises');
const { serve, Cancelled, Dead, Retry, Snooze } = require('../../../clients/node/leasehold');

let kept;

function charge() {
  console.log('ran charge');
  return { amount: 12, who: 'ü' };
}

function stopped(reason, then) {
  if (then === 'raise') throw new Cancelled();
  if (then === 'fail') throw new RangeError(`stopped by ${reason}`);
  return reason;
}

function printOwn() {
  console.log('printed');
  process.stdout.write('hé\nwritten\n');
  return 'read 0';
}

function print() {
  printOwn();
  spawnSync('sh', ['-c', 'echo from the child; cat'], { stdio: 'inherit' });
  return `read ${fs.readFileSync(0).length}`;
}

serve({
  echo: (job) => job.payload,
  raw: (job) => job.payloadText,
  nothing: () => {},
  pid: () => process.pid,
  describe: (job) => ({
    id: job.id, claim_no: job.claimNo, kind: job.kind, queue: job.queue, attempt: job.attempt, max_attempts: job.maxAttempts,
    lease_id: job.leaseId, lease_ms: job.leaseMs, timeout_ms: job.timeoutMs, traceparent: job.traceparent ?? null,
    payload_text: job.payloadText,
  }),
  size: (job) => [Buffer.byteLength(job.payloadText), job.payloadText.slice(-9)],
  fail: (job) => { throw new RangeError(job.payload.message); },
  retry: (job) => { throw new Retry(job.payload.message, { afterMs: job.payload.ms }); },
  snooze: (job) => { throw new Snooze(job.payload.ms); },
  dead: async (job) => { throw new Dead(job.payload.message); },
  cancelled: () => { throw new Cancelled(); },
  progress(job) {
    job.progress(0);
    job.progress(40.5, 'half ünd');
    job.progress(undefined, 'n'.repeat(2000));
    job.progress(250);
    job.progress(-5);
  },
  steps: async (job) => [await job.step('charged', charge), await job.step('mailed', () => {}), job.cancelled() ?? null],
  again: async (job) => [await job.step('charged', charge), await job.step('charged', charge)],
  name: (job) => job.step(job.payload.name, () => 1),
  async stop(job) {
    job.progress(1);
    while (!job.cancelled()) await sleep(5);
    return stopped(job.cancelled(), job.payload.then);
  },
  busy(job) { // never lets the event loop run
    job.progress(1);
    while (!job.cancelled()) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
    return stopped(job.cancelled(), job.payload.then);
  },
  async signal(job) {
    job.progress(1);
    await sleep(60000, null, { signal: job.signal }).catch(() => job.signal.throwIfAborted());
  },
  parallel: (job) => Promise.all(['one', 'two', 'three'].map((name) => job.step(name, () => name))),
  look: (job) => job.cancelled() ?? 'no',
  print,
  print_own: printOwn,
  unencodable(job) {
    const value = { object: 10n, text: 'half \ud800' }[job.payload.what];
    return job.payload.where === 'step' ? job.step('odd', () => value) : value;
  },
  keep: (job) => { kept = job; },
  late: () => kept.progress(1),
});
