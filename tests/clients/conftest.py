"""Fixtures: a client in a language, started by the test and ended after it."""
import pytest

from client_driver import Child
from client_languages import LANGUAGES, behave, build


@pytest.fixture(scope="session")
def command(tmp_path_factory):
    """The command that runs a source file of a language; C is compiled once."""
    directory = tmp_path_factory.mktemp("programs")
    return lambda language, source: build(language, source, directory)


@pytest.fixture
def start(command, tmp_path):
    """Starts a client that has not been greeted yet."""
    children = []

    def run(language, source, **more):
        child = Child(command(language, source), tmp_path / f"stderr{len(children)}", **more)
        children.append(child)
        return child

    yield run
    for child in children:
        child.close()


@pytest.fixture(params=LANGUAGES)
def language(request):
    return request.param


@pytest.fixture
def behaves(start, language):
    """The handlers of handlers/ in a language, greeted."""
    return start(language, behave(language)).greet()
