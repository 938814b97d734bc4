"""Fixtures: one private server for the whole run, one site (database, daemons, proxies) for each test. README.md tells more."""
import sys
from pathlib import Path

import pytest

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from harness.daemon import BINARY  # noqa: E402
from harness.server import Server  # noqa: E402
from harness.site import Site  # noqa: E402


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """A failed test shows the end of every daemon's log."""
    report = (yield).get_result()
    site = getattr(item, "funcargs", {}).get("site")
    if site and report.failed:
        site.failed = True
        for daemon in site.daemons:
            report.sections.append((f"log of {daemon.name}", daemon.tail(60)))


@pytest.fixture(scope="session")
def server():
    server = Server().create().start()
    yield server
    server.destroy()


@pytest.fixture(scope="session")
def binary():
    if not BINARY.exists():
        pytest.exit(f"no daemon to test: {BINARY} does not exist; set LEASEHOLD_BIN", returncode=2)
    return BINARY


@pytest.fixture
def make_site(binary):
    """A site on a server of the test's own choice."""
    sites = []

    def make(server, **more):
        sites.append(Site(server, **more))
        return sites[-1]

    yield make
    for site in sites:
        site.finish()


@pytest.fixture
def site(binary, server):
    site = Site(server)
    yield site
    site.finish()


@pytest.fixture(params=["exec", "stream"])
def how(request):
    """For tests of what holds whatever type a handler has: see Site.handlers."""
    return request.param
