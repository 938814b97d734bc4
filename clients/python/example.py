#!/usr/bin/python3
"""Archives a file: copies it, then reads the copy back. The payload is {"from": "/path", "to": "/path"}.

The result is {"bytes": n, "sha256": "..."}. An attempt that ends between the two steps does not copy again."""
import hashlib
import os

from leasehold import Cancelled, Dead, serve

BLOCK = 1 << 20


def blocks(path):
    with open(path, "rb") as file:
        while block := file.read(BLOCK):
            yield block


def copy(job, source, target):
    size, done, digest = os.path.getsize(source), 0, hashlib.sha256()
    part = f"{target}.{job.id}.part"
    try:
        with open(part, "wb") as file:
            for block in blocks(source):
                if job.cancelled():
                    raise Cancelled()
                file.write(block)
                digest.update(block)
                done += len(block)
                job.progress(90 * done / max(size, 1), f"copied {done} bytes")
            file.flush()
            os.fsync(file.fileno())
        os.rename(part, target)
    finally:
        if os.path.exists(part):
            os.unlink(part)
    return {"bytes": done, "sha256": digest.hexdigest()}


def verify(job, target, copied):
    digest = hashlib.sha256()
    job.progress(90, "reading it back")
    for block in blocks(target):
        digest.update(block)
    if digest.hexdigest() != copied["sha256"]:
        raise Dead(f"{target} is not what was copied")


def archive(job):
    payload = job.payload if isinstance(job.payload, dict) else {}
    source, target = payload.get("from"), payload.get("to")
    if not isinstance(source, str) or not isinstance(target, str):
        raise Dead('the payload is not {"from": "...", "to": "..."}')
    if not os.path.exists(source) and not os.path.exists(target):
        raise Dead(f"{source} does not exist")
    copied = job.step("copied", lambda: copy(job, source, target))
    job.step("verified", lambda: verify(job, target, copied))
    return copied


if __name__ == "__main__":
    serve(archive)
