#!/usr/bin/env node
'use strict';
/**
 * Archives a file: copies it, then reads the copy back. The payload is {"from": "/path", "to": "/path"}.
 *
 * The result is {"bytes": n, "sha256": "..."}. An attempt that ends between the two steps does not copy again.
 */
const crypto = require('node:crypto');
const fs = require('node:fs');
const { serve, Dead } = require('./leasehold');

const BLOCK = { highWaterMark: 1 << 20 };

async function copy(job, source, target) {
  const size = Math.max((await fs.promises.stat(source)).size, 1);
  const digest = crypto.createHash('sha256');
  const part = `${target}.${job.id}.part`;
  let done = 0;
  try {
    const file = await fs.promises.open(part, 'w');
    try {
      for await (const block of fs.createReadStream(source, BLOCK)) {
        job.signal.throwIfAborted();
        await file.writeFile(block);
        digest.update(block);
        done += block.length;
        job.progress((90 * done) / size, `copied ${done} bytes`);
      }
      await file.sync();
    } finally {
      await file.close();
    }
    await fs.promises.rename(part, target);
  } finally {
    await fs.promises.rm(part, { force: true });
  }
  return { bytes: done, sha256: digest.digest('hex') };
}

async function verify(job, target, copied) {
  const digest = crypto.createHash('sha256');
  job.progress(90, 'reading it back');
  for await (const block of fs.createReadStream(target, BLOCK)) digest.update(block);
  if (digest.digest('hex') !== copied.sha256) throw new Dead(`${target} is not what was copied`);
}

serve(async (job) => {
  const { from, to } = job.payload ?? {};
  if (typeof from !== 'string' || typeof to !== 'string') throw new Dead('the payload is not {"from": "...", "to": "..."}');
  if (!fs.existsSync(from) && !fs.existsSync(to)) throw new Dead(`${from} does not exist`);
  const copied = await job.step('copied', () => copy(job, from, to));
  await job.step('verified', () => verify(job, to, copied));
  return copied;
});
