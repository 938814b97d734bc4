"""Producers of the same machine can ring, so that their job need not wait for the next poll."""
import socket

from harness.waiting import always, until

SLOW = [{"name": "p", "threads": 2, "poll": "20s", "poll_max": "20s"}]


def ring(path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bell:
        bell.sendto(b"", path)


def test_a_ring_is_answered_at_once(site):
    path = str(site.directory / "wake")
    a = site.start(pools=SLOW, instance={"wake_socket": path})
    a.wait_log("claim: connected")
    first = site.database.enqueue("note")
    always(lambda: site.database.state(first) == "ready", 0.5, "the job waits for the poll")
    ring(path)
    site.database.wait(first, "succeeded", 3)
    # What a killed instance left at the path is replaced, and an orderly end leaves nothing.
    a.kill()
    b = site.start("B", pools=SLOW, instance={"wake_socket": path})
    b.wait_log("claim: connected")
    second = site.database.enqueue("note")
    ring(path)
    site.database.wait(second, "succeeded", 3)
    assert b.terminate() == 0
    until(lambda: not (site.directory / "wake").exists(), 2, "the socket is removed")


def test_a_file_at_the_path_is_refused(site):
    path = site.directory / "wake"
    path.write_text("somebody's")
    a = site.daemon("A", instance={"wake_socket": str(path)})
    a.may_fail = True
    a.spawn()
    assert a.wait_exit(10) == 1
    assert a.grep("wake_socket: .*wake exists and is no socket") and path.read_text() == "somebody's"
