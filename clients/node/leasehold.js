'use strict';
/**
 * Run Leasehold jobs in a warm Node process (a handler with type = "stream").
 *
 *     const { serve } = require('./leasehold');
 *
 *     serve(async (job) => {
 *       await deliver(job.payload.to, job.payload.text);
 *       return { sent: true };
 *     });
 *
 * A handler is a function, async or not, that takes a Job and returns the job's result: anything that JSON.stringify() takes, a
 * string (kept as text), or null or undefined for no result. How it ends says what becomes of the job:
 *
 *     return                    succeeded
 *     throw new Dead(text)      never tried again
 *     throw new Retry(text)     tried again after the backoff, or after a delay: new Retry(text, { afterMs: 30000 })
 *     throw new Snooze(60000)   run again in so many milliseconds, and not counted as an attempt
 *     throw new Cancelled()     stopped because job.cancelled() or job.signal said so
 *     anything else thrown      tried again, with its name and message as the error; the stack goes to the log
 *
 * A result that JSON cannot hold makes the job dead: trying again would not help.
 *
 * While serve() runs, standard output is standard error: console.log() writes to Leasehold's log. Descriptor 0 is /dev/null. Print
 * nothing before. The promise of serve() is fulfilled when Leasehold has no more work for this process: close then what keeps Node
 * running, such as a pool of connections. Needs Node 18 and nothing else.
 *
 * Where standard input and output are no pipes, or pipes of another user, both descriptors stay where they are: then console.log()
 * is still led to standard error, but a program that a handler starts must not inherit them.
 */
const fs = require('node:fs');
const net = require('node:net');

const PROTOCOL = 1;
const ERROR_BYTES = 500;
const NOTE_BYTES = 1020; // 255 characters are kept
const DEEPEST = 90; // Leasehold takes no line that is nested more than 100 deep
const LONGEST_DELAY_MS = 31622400000; // a year

const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

class LeaseholdError extends Error {
  get name() { return this.constructor.name; }
}

/** The attempt failed: try again after afterMs milliseconds (0 to 31622400000; left out: after the backoff). */
class Retry extends LeaseholdError {
  constructor(message = '', { afterMs } = {}) {
    super(message);
    this.afterMs = afterMs === undefined ? undefined : delay(afterMs);
  }
}

/** The job cannot succeed: do not try again. */
class Dead extends LeaseholdError {}

/** It is too early: run again after afterMs milliseconds (0 to 31622400000). The attempt is not counted. */
class Snooze extends LeaseholdError {
  constructor(afterMs) {
    super(`again in ${afterMs} ms`);
    this.afterMs = delay(afterMs);
  }
}

/** The handler stopped because it was asked to. Without a request, this is an error like any other. */
class Cancelled extends LeaseholdError {}

/** Leasehold could not save a step, because the lease is lost, say. Let it end the attempt: it is tried again. */
class StepNotSaved extends LeaseholdError {}

/**
 * One attempt at a job.
 *
 * @property {string} id digits, because an id may be greater than Number.MAX_SAFE_INTEGER
 * @property {number} claimNo grows with every claim: with the id, the fencing token for other systems
 * @property {string} kind
 * @property {string} queue
 * @property {number} attempt the first is 1
 * @property {number} maxAttempts
 * @property {string} leaseId a UUID
 * @property {number} leaseMs the length of the lease, which is renewed while the handler runs
 * @property {number} timeoutMs how long the handler may run; 0 is without limit
 * @property {string|undefined} traceparent the W3C trace context of whoever enqueued the job
 * @property {string} payloadText the payload as it is in the table
 * @property {AbortSignal} signal aborted, with a Cancelled, when the job is to end early: for fetch(), throwIfAborted(), ...
 */
class Job {
  #channel;
  #steps;
  #waiting = []; // one for each step that was sent and not yet answered, in order
  #abort = new AbortController();
  #reason;
  #ended = false;

  constructor(channel, job) {
    this.#channel = channel;
    this.#steps = new Map(Object.entries(job.steps ?? {}));
    this.id = String(job.id);
    this.claimNo = job.claim_no;
    this.kind = job.kind;
    this.queue = job.queue;
    this.attempt = job.attempt;
    this.maxAttempts = job.max_attempts;
    this.leaseId = job.lease_id;
    this.leaseMs = job.lease_ms;
    this.timeoutMs = job.timeout_ms;
    this.traceparent = job.traceparent;
    this.payloadText = job.payload;
    this.signal = this.#abort.signal;
  }

  /** The payload, decoded. Throws Dead if it is not JSON; then only payloadText is of use. */
  get payload() {
    try {
      return JSON.parse(this.payloadText);
    } catch (error) {
      throw new Dead(`the payload is not JSON: ${error.message}`);
    }
  }

  /** Reports how far the work is (0 to 100; what lies outside is moved to the edge), what it is at, or both. Does not wait. */
  progress(percent, note) {
    const message = {};
    if (percent !== undefined && percent !== null) message.progress = Math.min(100, Math.max(0, Number(percent) || 0));
    if (note !== undefined && note !== null) message.note = clean(note, NOTE_BYTES);
    if (Object.keys(message).length > 0) this.#send(message);
  }

  /**
   * Why the job is to end early: "cancel", "timeout", "lease" or "shutdown"; undefined if it is not. Does not wait, and sees a
   * request also in a loop that never awaits.
   *
   * SIGTERM follows soon after such a request, then SIGKILL. Who stops before keeps the process.
   */
  cancelled() {
    this.#channel.look();
    return this.#reason;
  }

  /**
   * Does work() once for all attempts of this job; the promise of what it returned, as JSON gives it back.
   *
   * If an earlier attempt saved the step, work is not called. Otherwise its result is saved (undefined becomes null; all steps of a
   * job have 64 KiB together), and the promise is fulfilled once that is committed; it is rejected with StepNotSaved if it is not.
   *
   * @param {string} name 1 to 64 characters of A-Z a-z 0-9 _ . : -; a job may have 64 steps
   * @param {function} work async or not
   */
  async step(name, work) {
    if (!/^[A-Za-z0-9_.:-]{1,64}$/.test(name)) throw new RangeError(`not a name for a step: ${name}`);
    if (!this.#steps.has(name)) {
      const data = (await work()) ?? null;
      let text;
      try {
        text = encode(data);
      } catch (error) {
        throw new Dead(`step ${name} cannot be written as JSON: ${error.message}`);
      }
      await new Promise((resolve, reject) => {
        this.#send({ step: name, data });
        this.#waiting.push({ name, resolve, reject });
      });
      this.#steps.set(name, JSON.parse(text));
    }
    return this.#steps.get(name);
  }

  /** Takes a message of Leasehold; those that concern another claim are late, and mean nothing any more. */
  receive({ cancel, step }) {
    const about = cancel ?? step;
    if (!about || String(about.id) !== this.id || about.claim_no !== this.claimNo || this.#ended) return;
    if (cancel) {
      this.#reason = cancel.reason;
      this.#abort.abort(new Cancelled(cancel.reason));
    } else if (this.#waiting[0]?.name === step.name) {
      const { resolve, reject } = this.#waiting.shift();
      if (step.saved === true) resolve();
      else reject(new StepNotSaved(`step ${step.name} was not saved: ${step.why ?? 'no reason given'}`));
    }
  }

  gone() {
    for (const { name, reject } of this.#waiting) reject(new StepNotSaved(`step ${name} was not saved: Leasehold is gone`));
  }

  async run(handler) {
    await undefined; // messages that came in one piece with the job are taken first
    const answer = await this.#outcome(handler);
    try {
      this.#send(answer);
    } catch (error) {
      this.#send({ outcome: 'dead', error: clean(`the result cannot be written as JSON: ${error.message}`) });
    }
    this.#ended = true;
  }

  /** What the handler comes to, as a message. */
  async #outcome(handler) {
    try {
      if (!handler) throw new Error(`no handler for the kind ${this.kind}`);
      return { outcome: 'succeeded', result: (await handler(this)) ?? undefined };
    } catch (error) {
      const text = clean((error instanceof LeaseholdError && error.message) || error);
      if (error instanceof Retry) return { outcome: 'retry', error: text, retry_after_ms: error.afterMs };
      if (error instanceof Snooze) return { outcome: 'snooze', snooze_ms: error.afterMs };
      if (error instanceof Dead) return { outcome: 'dead', error: text };
      if (error instanceof Cancelled && this.cancelled()) return { outcome: 'cancelled' };
      console.error(error);
      return { outcome: 'retry', error: text };
    }
  }

  #send(message) {
    if (this.#ended) throw new Error('this job has ended');
    // The id is written as digits: as a string it would not be the number that Leasehold asked for.
    this.#channel.write(`{"id":${this.id},"claim_no":${this.claimNo},${encode(message).slice(1)}`);
  }
}

/** The two pipes to Leasehold: messages are JSON objects, one a line. Each message is handed to onMessage as soon as it is read. */
class Channel {
  #in;
  #out;
  #stream;
  #parts = []; // of a line that is not yet complete
  gone = false;

  constructor() {
    [this.#in, this.#out] = takeStdio();
  }

  listen(onMessage, onEnd) {
    this.onMessage = onMessage;
    this.#stream = this.#in === 0 ? process.stdin : new net.Socket({ fd: this.#in, readable: true, writable: false });
    this.#stream.on('data', (chunk) => this.#feed(chunk)).on('end', onEnd).on('error', onEnd);
  }

  close() {
    this.#stream.destroy();
  }

  /** Reads what is there without waiting for it, for handlers that do not let the event loop run. */
  look() {
    const chunk = Buffer.allocUnsafe(65536);
    try {
      for (let n; (n = fs.readSync(this.#in, chunk)) > 0;) this.#feed(Buffer.from(chunk.subarray(0, n)));
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error;
    }
  }

  #feed(chunk) {
    for (let end; (end = chunk.indexOf(10)) >= 0; chunk = chunk.subarray(end + 1)) {
      const line = Buffer.concat([...this.#parts, chunk.subarray(0, end)]);
      this.#parts = [];
      this.onMessage(decode(line));
    }
    if (chunk.length > 0) this.#parts.push(chunk);
  }

  write(line) {
    const bytes = Buffer.from(`${line}\n`);
    for (let at = 0; at < bytes.length && !this.gone;) {
      try {
        at += fs.writeSync(this.#out, bytes, at);
      } catch (error) {
        if (error.code === 'EPIPE') this.gone = true;
        else if (error.code === 'EAGAIN') Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
        else throw error;
      }
    }
  }
}

/** Descriptors for the two pipes that nothing else writes to or reads from; then 1 is standard error and 0 is /dev/null. */
function takeStdio() {
  let pipes = [0, 1];
  try {
    // Node cannot duplicate a descriptor, but Linux opens a pipe anew; what is opened takes the lowest number that is free.
    const { O_RDONLY, O_WRONLY, O_APPEND, O_NONBLOCK } = fs.constants;
    const error = fs.openSync('/proc/self/fd/2', O_WRONLY | O_APPEND);
    pipes = [fs.openSync('/proc/self/fd/0', O_RDONLY | O_NONBLOCK), fs.openSync('/proc/self/fd/1', O_WRONLY)];
    fs.closeSync(error);
    fs.closeSync(0);
    fs.openSync('/dev/null', O_RDONLY);
    fs.closeSync(1);
    fs.openSync('/proc/self/fd/2', O_WRONLY | O_APPEND);
  } catch {
    // Not pipes, or those of another user: then only what is printed in this process can be led elsewhere.
    Object.defineProperty(process, 'stdout', { configurable: true, get: () => process.stderr });
    globalThis.console = new console.Console(process.stderr, process.stderr);
  }
  return pipes;
}

/**
 * Runs jobs until Leasehold closes the pipe; then the promise is fulfilled.
 *
 * @param {function|Object<string, function>} handlers a handler for every kind, or an object of kind to handler
 */
function serve(handlers) {
  const channel = new Channel();
  let greeted = false;
  let job = null; // at work
  let over = false;

  return new Promise((resolve) => {
    const end = () => {
      channel.close();
      resolve();
    };
    const work = async (next) => {
      job = next;
      await job.run(typeof handlers === 'function' ? handlers : Object.hasOwn(handlers, job.kind) && handlers[job.kind]);
      job = null;
      if (over || channel.gone) end();
    };
    channel.listen((message) => {
      if (!greeted) {
        if (message.hello?.protocol !== PROTOCOL) {
          quit(`speaks protocol ${PROTOCOL}, but was greeted with ${clean(JSON.stringify(message), 200)}`);
        }
        greeted = true;
        channel.write(encode({ hello: { protocol: PROTOCOL, client: 'leasehold.js 1' } }));
      } else if (message.job) {
        if (job) quit('was given a job while one was at work');
        work(new Job(channel, message.job));
      } else {
        job?.receive(message);
      }
    }, () => {
      over = true;
      if (job) job.gone();
      else end();
    });
  });
}

/** A message. Its id stays exact: beyond 2^53 it becomes a string of digits. */
function decode(bytes) {
  let message;
  try {
    const line = UTF8.decode(bytes);
    message = JSON.parse(line);
    if (!line.trimStart().startsWith('{')) throw new TypeError('not an object');
    for (const name of ['job', 'cancel', 'step']) {
      if (message[name] && !Number.isSafeInteger(message[name].id)) {
        const texts = line.replace(/("(?:[^"\\]+|\\.)*")|-?\d[\d.eE+-]*/g, (all, string) => string ?? `"${all}"`);
        message[name].id = JSON.parse(texts)[name].id;
      }
    }
  } catch {
    quit(`this is no message of Leasehold: ${clean(bytes, 200)}`);
  }
  return message;
}

/** JSON that Leasehold can read: in UTF-8, not too deep, and with no whole number beyond 64 bits. */
function encode(value) {
  const text = JSON.stringify(value);
  if (text === undefined) throw new TypeError(`${typeof value} is not a value of JSON`);
  // JSON.stringify() writes half of a surrogate pair as an escape, and nothing else that begins like it.
  if (/(?<!\\)(?:\\\\)*\\ud[89a-f]/.test(text)) throw new TypeError('half of a surrogate pair is not text');
  let depth = 0;
  for (const [token] of text.matchAll(/"(?:[^"\\]+|\\.)*"|[[\]{}]|-?[\d.]{19,}(?![\d.e])/g)) {
    if (token === '[' || token === '{') depth++;
    else if (token === ']' || token === '}') depth--;
    else if (/^[-\d]+$/.test(token) && BigInt.asIntN(64, BigInt(token)) !== BigInt(token)) {
      throw new RangeError(`${token} does not fit into 64 bits`);
    }
    if (depth > DEEPEST) throw new RangeError(`nested more than ${DEEPEST} deep`);
  }
  return text;
}

/** Text that can be sent whatever is in it, cut between two characters. */
function clean(text, limit = ERROR_BYTES) {
  const bytes = Buffer.from(String(text)); // half of a surrogate pair becomes U+FFFD
  let end = Math.min(limit, bytes.length);
  while (end < bytes.length && end > 0 && (bytes[end] & 0xc0) === 0x80) end--;
  return bytes.toString('utf8', 0, end);
}

function delay(ms) {
  if (!(ms >= 0 && ms <= LONGEST_DELAY_MS)) throw new RangeError(`not a delay of 0 to ${LONGEST_DELAY_MS} milliseconds: ${ms}`);
  return Math.round(ms);
}

function quit(why) {
  fs.writeSync(2, `leasehold.js: ${why}\n`);
  process.exit(1);
}

module.exports = { serve, Job, Retry, Dead, Snooze, Cancelled, StepNotSaved };
