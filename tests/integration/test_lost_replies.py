"""Statements whose fate the daemon cannot know, at every step of a job's life: lost before the server, done but unheard, landing late.

Each case is an instance of its own behind its own proxy, on its own queue; all of a test run at once."""
import signal

import pytest

from harness import proxy as wire
from harness.waiting import until

# How a statement is lost, and whether the proxy hides connection numbers: then the daemon cannot end the lost session, and must wait.
WAYS = {
    "unsent": (wire.drop_before, False),
    "unheard": (wire.drop_reply, False),
    "unheard-hidden": (wire.drop_reply, True),
    "late": (wire.land_late(1.2), False),
    "late-hidden": (wire.land_late(1.2), True),
}


class Case:
    def __init__(self, site, way, pattern, after=None, nth=1, **pool):
        action, hidden = WAYS[way]
        self.proxy = site.proxy(renumber=hidden)
        self.daemon = site.daemon(way, proxy=self.proxy, pools=[{"name": "p", "queues": [way], "threads": 4, "poll": "50ms", **pool}])
        self.daemon.start(site.database)
        self.rule = self.proxy.on(pattern, action, nth=nth, after=after)
        self.site, self.queue = site, way

    def enqueue(self, n, payload="exit 0"):
        self.ids = self.site.database.enqueue("sh", n, queue=self.queue, payload=payload)

    def counts_three(self):
        """The row is committed a moment before the daemon counts it: each look asks for the status anew."""
        self.daemon.signal(signal.SIGUSR1)
        return self.daemon.grep("succeeded 3, by handler 0,")

    def done(self, attempts=1, seconds=20):
        """Each job succeeded after exactly so many runs, none by way of a lapsed lease."""
        self.rule.wait(10, f" ({self.queue})")
        for job in self.site.database.wait(self.ids, "succeeded", seconds):
            runs = len(self.site.runs.starts(job["id"]))
            assert (job["attempt"], runs, job["reclaims"]) == (attempts, attempts, 0), f"{self.queue}: {job}, {runs} runs"


def cases(site, pattern, ways=WAYS, **more):
    return [Case(site, way, pattern, **more) for way in ways]


def test_the_claim(site):
    """A claim that may have happened is read back until that is known; a row that turns up late is released, uncounted, and claimed anew."""
    every = cases(site, wire.CLAIM)
    for case in every:
        case.enqueue(3)
    for case in every:
        case.done()
    # Not to be known at once where numbers are hidden: the ids are kept back until the late claim turned up.
    assert {site.database.job(id)["claim_no"] for id in every[-1].ids} == {2}


def test_the_read_back_of_a_claim(site):
    every = cases(site, wire.READ_BACK, ["unsent", "unheard"])
    for case in every:
        case.enqueue(3)
    for case in every:
        case.done()


def test_the_renewal(site):
    """A renewal that was not heard of moves no trust; the next one is sent on a new connection, in time."""
    every = cases(site, wire.RENEW, nth=2)
    for case in every:
        case.enqueue(2, "sleep 5")
    for case in every:
        case.done()


@pytest.mark.parametrize("payload", ["exit 0", "printf result"], ids=["bare", "with result"])
def test_the_settlement(site, payload):
    """It is sent again, and recognised where it had happened: no success is written twice, none is lost."""
    every = cases(site, wire.SETTLE)
    for case in every:
        case.enqueue(3, payload)
    for case in every:
        case.done()
        until(case.counts_three, 5, "a status of three successes", every=0.2)
        for id in case.ids:
            assert len(site.database.audit(id, "new_state='succeeded' AND old_state='running'")) == 1
            assert site.database.job(id)["result"] == ("result" if "printf" in payload else None) or "printf" not in payload


@pytest.mark.parametrize("pattern, after", [(wire.REQUEUE, None), (wire.COMMIT, wire.REQUEUE)], ids=["update", "commit"])
def test_the_retry(site, pattern, after):
    """A retry whose COMMIT was not heard of is recognised by its ledger row: one attempt, one row, not two."""
    every = cases(site, pattern, after=after)
    for case in every:
        case.enqueue(3, "[ $LEASEHOLD_ATTEMPT -ge 2 ]")
    for case in every:
        case.done(attempts=2)
        for id in case.ids:
            assert [(row["outcome"], row["claim_no"]) for row in site.database.ledger(id)] == [("retry", 1)]


@pytest.mark.parametrize("pattern, after", [(r"UPDATE\s+\S*jobs\b.*'dead'", None), (wire.COMMIT, r"UPDATE\s+\S*jobs\b.*'dead'")],
                         ids=["update", "commit"])
def test_the_burial(site, pattern, after):
    every = cases(site, pattern, after=after)
    for case in every:
        case.enqueue(2, "exit 65")
    for case in every:
        case.rule.wait(10)
        for job in site.database.wait(case.ids, "dead", 15):
            assert [row["outcome"] for row in site.database.ledger(job["id"])] == ["dead"], case.queue
            assert (job["attempt"], len(site.runs.starts(job["id"]))) == (1, 1)


def test_the_release(site):
    """A drain gives back what it holds, whatever becomes of the first try; one that lands late matches nothing and does no harm."""
    every = cases(site, wire.REQUEUE, threads=1, prefetch=4)
    for case in every:
        case.enqueue(5, "[ -e $LH_DIR/go ] || sleep 60")
    until(lambda: site.database.states() == {"running": 25}, 10, lambda: site.database.states())
    until(lambda: len(site.runs.starts()) == 5, 5)
    for case in every:
        case.daemon.signal(signal.SIGQUIT)
    for case in every:
        case.daemon.may_fail = True
        case.daemon.wait_exit(10)
        case.rule.wait(5)
    lapse = {case.queue: [id for id in case.ids if site.database.state(id) == "running"] for case in every}
    assert not any(lapse.values()), lapse
    for case in every:
        wrong = [job for job in map(site.database.job, case.ids) if (job["state"], job["attempt"]) != ("ready", 0)]
        assert not wrong, f"{case.queue}: {wrong}, {[site.database.audit(job['id']) for job in wrong]}"
    (site.directory / "go").touch()
    site.start("Z", pools=[{"name": "p", "queues": list(WAYS), "threads": 4, "poll": "50ms"}])
    for case in every:
        for job in site.database.wait(case.ids, "succeeded", 15):
            assert job["attempt"] == 1 and job["reclaims"] == 0


def test_a_crash_at_every_statement(site):
    """The daemon is killed at the very moment at which it sends the claim, the read-back, a renewal, the settlement; another one finishes the work."""
    points = {"claim": wire.CLAIM, "read": wire.READ_BACK, "renew": wire.RENEW, "settle": wire.SETTLE, "retry": wire.REQUEUE}
    jobs = {}
    for name, pattern in points.items():
        proxy = site.proxy()
        daemon = site.start(name, proxy=proxy, pools=[{"name": "p", "queues": [name], "threads": 4, "poll": "50ms"}])
        daemon.may_fail = True
        rule = proxy.on(pattern, wire.call(lambda session, sql, daemon=daemon: daemon.signal(signal.SIGKILL)))
        payload = "[ $LEASEHOLD_ATTEMPT -ge 2 ] || sleep 1; " + ("[ $LEASEHOLD_ATTEMPT -ge 2 ]" if name == "retry" else "")
        jobs[name] = (site.database.enqueue("sh", 2, queue=name, payload=payload), rule, daemon)
    for ids, rule, daemon in jobs.values():
        rule.wait(10)
        assert daemon.wait_exit(5) == -signal.SIGKILL
    site.start("Z", pools=[{"name": "p", "queues": list(points), "threads": 4, "poll": "50ms"}])
    for name, (ids, _, _) in jobs.items():
        for job in site.database.wait(ids, "succeeded", 15):
            assert 1 <= job["attempt"] <= 3 and len(site.runs.starts(job["id"])) <= job["attempt"], name
    assert not [id for id in jobs["settle"][0] if site.database.job(id)["attempt"] > 2]
