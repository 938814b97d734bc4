"""Effects outside of the database, under the fencing token. Import it, or copy what you need."""
import json
import os
import urllib.request

JOB, CLAIM = int(os.environ["LEASEHOLD_JOB_ID"]), int(os.environ["LEASEHOLD_CLAIM_NO"])


class Stale(Exception):
    """A later attempt of this job has been here: ours lost its lease, and must change nothing."""


def store(db, value):
    """Compare and set: the store keeps the claim number with the value, and refuses what comes from an earlier claim."""
    changed = db.execute("INSERT INTO reports (job, claim_no, value) VALUES (?, ?, ?)"
                         " ON CONFLICT (job) DO UPDATE SET claim_no = excluded.claim_no, value = excluded.value"
                         " WHERE reports.claim_no <= excluded.claim_no", (JOB, CLAIM, value)).rowcount
    db.commit()
    if changed != 1:
        raise Stale(f"job {JOB} has stored its report under a later claim than {CLAIM}")


def charge(url, customer, cents):
    """An idempotency key: the same in all attempts of the job, so that the service can see that it has done this already."""
    body = json.dumps({"customer": customer, "cents": cents}).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json", "Idempotency-Key": f"shop-leasehold-{JOB}-charge"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)
