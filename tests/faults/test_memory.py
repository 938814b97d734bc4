"""Control groups and want of memory: a handler that takes more than there is costs its job one attempt, is named, and harms nobody else.
Every test makes real control groups, and is skipped, with the reason, where this machine does not let it."""
import os
import time
from pathlib import Path

import pytest

from harness import invariants
from harness.daemon import BINARY
from harness.waiting import until

MIB = 1 << 20
GLUTTON = "exec python3 -c 'x = bytearray(400 << 20); print(len(x))'"
QUIET = "sleep 0.3; echo fine"


def own_group(controller):
    """The directory of our own group in the hierarchy of a controller of version 1, or (None) in that of version 2."""
    name = None
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        number, controllers, path = line.split(":", 2)
        if (controller in controllers.split(",")) if controller else (number, controllers) == ("0", ""):
            name = path
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        if kind == ("cgroup" if controller else "cgroup2") and (not controller or controller in options.split(",")) and name:
            return Path(before.split(" ")[4] + name)
    return None


def make_group(parent, name):
    """A group below our own, or the reason why there is none."""
    group = parent / f"{name}-{os.getpid()}-{time.monotonic_ns()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made in {parent}: {error.strerror}")
    return group


def remove_group(group):
    """All of it, once its processes have ended."""
    def gone():
        for directory in sorted([*group.glob("**/"), group], key=lambda path: -len(path.parts)):
            try:
                directory.rmdir()
            except OSError:
                pass
        return not group.exists()
    until(gone, 5, f"{group} to be empty")


@pytest.fixture
def groups():
    made = []

    def make(parent, name):
        made.append(make_group(parent, name))
        return made[-1]

    yield make
    for group in made:
        remove_group(group)


# A test names its group before its site: what is made first is removed last.
def start_in(site, group, **settings):
    """A daemon that is in that group from its first moment on."""
    daemon = site.daemon(**settings)
    wrapper = site.directory / f"{daemon.name}.sh"
    wrapper.write_text(f'#!/bin/sh\necho 0 >"{group}/cgroup.procs" || exit 99\nexec "{BINARY}" "$@"\n')
    wrapper.chmod(0o755)
    daemon.binary = str(wrapper)
    return daemon


@pytest.fixture
def small_group(groups):
    """A group with 128 MiB, of whichever version has the memory controller."""
    v2, v1 = own_group(None), own_group("memory")
    if v2 and (v2 / "memory.max").exists() or (v2 and "memory" in (v2 / "cgroup.subtree_control").read_text().split()):
        group = groups(v2, "lht-memory")
        (group / "memory.max").write_text(str(128 * MIB))
        if (group / "memory.swap.max").exists():
            (group / "memory.swap.max").write_text("0")
        return group
    if v1 is None:
        pytest.skip("this machine has no memory controller")
    group = groups(v1, "lht-memory")
    (group / "memory.limit_in_bytes").write_text(str(128 * MIB))
    if (group / "memory.memsw.limit_in_bytes").exists():
        (group / "memory.memsw.limit_in_bytes").write_text(str(128 * MIB))
    return group


def test_a_glutton_dies_alone_and_is_named(small_group, site):
    """BR-43: the handler that the kernel kills for want of memory is one failed attempt each time, is dead at its maximum with that cause, and
    the daemon and the other jobs go on."""
    a = start_in(site, small_group)
    if a.sanitized:
        pytest.skip("a sanitizer's memory does not fit into the group")
    a.start(site.database)
    runner, pid = a.runner_pid, a.pid
    poison = site.database.enqueue("sh", payload=GLUTTON, max_attempts=3)
    shell = site.database.enqueue("sh", payload=GLUTTON.replace("exec ", "") + "; exit $?", max_attempts=1)
    healthy = site.database.enqueue("sh", 20, payload=QUIET)
    job = site.database.wait(poison, "dead", 30)
    assert (job["attempt"], job["reclaims"]) == (3, 0) and len(site.runs.starts(poison)) == 3
    assert "killed by SIGKILL, probably out of memory" in job["last_error"], job["last_error"]
    causes = [row["cause"] for row in site.database.ledger(poison)]
    assert len(causes) == 3 and all("probably out of memory" in cause for cause in causes), causes
    assert "exit status 137, probably out of memory" in site.database.wait(shell, "dead", 15)["last_error"]
    for other in site.database.wait(healthy, "succeeded", 15):
        assert other["attempt"] == 1
    assert a.running and (a.pid, a.runner_pid) == (pid, runner)


def test_a_warm_glutton(small_group, site):
    """The same of a process that stays: it costs the job that it had one attempt, is named, and another takes its place."""
    a = start_in(site, small_group, handlers=[site.stream("warm", processes=1)])
    if a.sanitized:
        pytest.skip("a sanitizer's memory does not fit into the group")
    a.start(site.database)
    before = site.database.enqueue("warm", payload="answer(result=os.getpid())")
    first = site.database.wait(before, "succeeded", 15)["result"]
    poison = site.database.enqueue("warm", payload="x = bytearray(400 << 20)", max_attempts=2)
    job = site.database.wait(poison, "dead", 30)
    assert job["attempt"] == 2 and "killed by SIGKILL, probably out of memory" in job["last_error"], job["last_error"]
    after = site.database.wait(site.database.enqueue("warm", payload="answer(result=os.getpid())"), "succeeded", 15)
    assert after["result"] != first and after["attempt"] == 1


def test_a_kill_by_hand_is_not_called_that(site):
    """SIGKILL without the kernel's count having grown says nothing of memory."""
    site.start()
    id = site.database.enqueue("sh", payload="kill -KILL $$", max_attempts=1)
    job = site.database.wait(id, "dead", 10)
    assert "killed by SIGKILL" in job["last_error"]
    if own_group("memory") or (own_group(None) and (own_group(None) / "memory.events").exists()):
        assert "memory" not in job["last_error"], job["last_error"]


@pytest.fixture
def instance_group(groups):
    """A group that is the instance's alone, of version 2."""
    parent = own_group(None)
    if parent is None:
        pytest.skip("no cgroup file system of version 2 is mounted")
    return groups(parent, "lht-instance")


def runs_of(group):
    return sorted(path.name for path in group.glob("run-*"))


def test_every_run_in_a_group(instance_group, site):
    """instance.cgroup = "always": the instance moves into a leaf, each run has a group while it lasts, and takes with it all that is in it."""
    a = start_in(site, instance_group, instance={"cgroup": "always"}).start(site.database)
    leaf = instance_group / "daemon"
    assert {a.pid, a.runner_pid} <= {int(pid) for pid in (leaf / "cgroup.procs").read_text().split()}
    away = "( setsid sh -c 'exec </dev/null >/dev/null 2>&1 3>&-; sleep 60' & ) &"
    ids = site.database.enqueue("sh", 12, payload=f"{away}\ngrep ^0:: /proc/self/cgroup; sleep 0.5")
    until(lambda: len(runs_of(instance_group)) >= 4, 10, "groups of runs")
    results = {job["result"] for job in site.database.wait(ids, "succeeded", 20)}
    assert len(results) == 12 and all("/run-" in result for result in results), results
    until(lambda: not runs_of(instance_group), 2, lambda: f"no group to be left: {runs_of(instance_group)}")
    assert not invariants.marked(site.mark)


def test_groups_of_a_killed_instance(instance_group, site):
    """Daemon and runner are killed at the same moment, so nobody is there to end what got away: the next instance in that group does."""
    a = start_in(site, instance_group, instance={"cgroup": "always"}).start(site.database)
    id = site.database.enqueue("sh", payload="[ $LEASEHOLD_ATTEMPT -ge 2 ] && exit 0; ( setsid sleep 60 </dev/null >/dev/null 2>&1 3>&- & ) & sleep 60")
    until(lambda: len(invariants.marked(site.mark)) >= 3, 10)
    runner = a.runner_pid
    os.kill(runner, 19)  # SIGSTOP: it cannot see the daemon go
    a.kill()
    os.kill(runner, 9)
    start_in(site, instance_group, instance={"cgroup": "always"}).start(site.database)
    until(lambda: not invariants.marked(site.mark) or site.database.state(id) == "succeeded", 5, "what was left to be ended")
    site.database.wait(id, "succeeded", 15)
    until(lambda: not runs_of(instance_group), 2, lambda: f"no group to be left: {runs_of(instance_group)}")


def controllers(group):
    return (group / "cgroup.controllers").read_text().split()


def test_limits_that_cannot_be_had_are_refused(instance_group, site):
    """`run` refuses to start and names the option and the reason; so does `check`."""
    if "memory" in controllers(instance_group):
        pytest.skip("here they can be had")
    limited = [site.handler("sh"), site.handler("big.*", limits={"cgroup_memory": "64MiB"})]
    a = start_in(site, instance_group, handlers=limited)
    a.may_fail = True
    a.spawn()
    assert a.wait_exit(10) == 78
    assert a.grep(r'error start: limits\.cgroup_memory of the handlers of big\.\* cannot be had: .*controller "memory"'), a.tail()
    done = site.cli("check", config=site.config(limited), check=False)
    assert done.returncode == 1 and "FAIL cgroup: limits.cgroup_memory of big.* cannot be had:" in done.stdout, done.stdout


def test_limits_of_a_run(instance_group, site):
    """limits.cgroup_memory: a run that meets it is ended as a whole, for certain; limits.cgroup_cpu slows it down."""
    missing = {"memory", "cpu"} - set(controllers(instance_group))
    if missing:
        pytest.skip(f"the cgroup file system of version 2 does not have {', '.join(sorted(missing))} here")
    a = start_in(site, instance_group, handlers=[site.handler("sh"), site.handler("big", limits={"cgroup_memory": "64MiB", "cgroup_cpu": 20})])
    a.start(site.database)
    big = site.database.enqueue("big", payload=GLUTTON.replace("exec ", "sleep 60 & "), max_attempts=2)
    slow = site.database.enqueue("big", payload="python3 -c 'import time\nwhile time.process_time() < 0.5: pass'")
    free = site.database.enqueue("sh", payload=GLUTTON)
    job = site.database.wait(big, "dead", 20)
    assert job["attempt"] == 2 and "killed by SIGKILL: out of memory" in job["last_error"], job["last_error"]
    site.database.wait(free, "succeeded", 20)
    site.database.wait(slow, "succeeded", 20)
    start, = site.runs.starts(slow)
    end, = site.runs.ends(slow)
    assert end.ms - start.ms >= 1500
    until(lambda: not runs_of(instance_group), 2, lambda: f"no group to be left: {runs_of(instance_group)}")
