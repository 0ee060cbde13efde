"""Each test that asks for `server` runs once on every kind of server named by `--servers`."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from watch import OURS

from emqkit.errors import UnsuitableServer
from emqkit.servers import Server, open_server
from emqkit.servers.embedded import find_wheel

if TYPE_CHECKING:
    from lab import Lab

os.environ["EMQKIT_PROGRESS"] = ""  # what tests meet is nobody's progress

# Nothing here is timed: a busy machine is no failure.
settings.register_profile("emqkit", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("emqkit")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--servers",
        default="fake,embedded",
        metavar="fake,embedded,URL",
        help="where tests run, separated by commas: fake, embedded, or the URL of a server of yours (never flushed)",
    )


def server_names(config: pytest.Config) -> list[str]:
    """`fake`, `embedded` and URLs, as asked for."""
    return [name.strip() for name in str(config.getoption("--servers")).split(",") if name.strip()]


def server_url(name: str) -> str:
    """The URL behind a name given to `--servers`."""
    return f"{name}://" if name in ("fake", "embedded") else name


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    names = server_names(metafunc.config)
    if "server_name" in metafunc.fixturenames:
        # A URL may hold a password, and a test's name is printed.
        ids = [name if "://" not in name else f"live{place}" for place, name in enumerate(names)]
        metafunc.parametrize("server_name", names, ids=ids)
    if "private_server_name" in metafunc.fixturenames:
        metafunc.parametrize("private_server_name", [name for name in names if name in ("fake", "embedded")])


@pytest.hookimpl(tryfirst=True)  # before xdist looks for groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "lab" in getattr(item, "fixturenames", ()):
            # One JupyterLab and one browser for the whole run: all who use them go to one worker.
            item.add_marker(pytest.mark.xdist_group("browser"))
            item.add_marker(pytest.mark.slow)
        if item.get_closest_marker("long"):
            item.add_marker(pytest.mark.slow)  # so that -m "not slow", which takes the place of "not long", means both
    # These take longest, and work is handed out in order.
    items.sort(key=lambda item: "lab" not in getattr(item, "fixturenames", ()) and "test_notebooks" not in item.nodeid)


# --- servers ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def wheel() -> str:
    """The name of an installed Valkey, which a sandbox needs; skips, saying why, where there is none."""
    try:
        return find_wheel().name
    except UnsuitableServer as missing:
        pytest.skip(f"no sandbox here: {missing}")


@pytest.fixture(scope="session")
def embedded_process() -> Iterator[Server]:
    """One private Valkey for the session; skips, saying why, where there is none."""
    try:
        server = open_server("embedded://")
    except UnsuitableServer as missing:
        pytest.skip(f"no embedded server here: {missing}")
    with server:
        yield server


@pytest.fixture
def embedded_server(embedded_process: Server) -> Iterator[Server]:
    """A database of the session's Valkey, empty and this test's own."""
    with embedded_process.scratch() as server:
        yield server


@pytest.fixture
def server(server_name: str, request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server of each kind asked for: empty if it is ours, and to be used through `queue` or `queues` if it is not."""
    yield from _opened(server_name, request)


@pytest.fixture
def private_server(private_server_name: str, request: pytest.FixtureRequest) -> Iterator[Server]:
    """As `server`, on the kinds that are ours alone: for tests of keys that belong to no queue."""
    yield from _opened(private_server_name, request)


def _opened(name: str, request: pytest.FixtureRequest) -> Iterator[Server]:
    if name == "embedded":
        yield request.getfixturevalue("embedded_server")
        return
    with open_server(server_url(name)) as server:
        yield server


# --- queues -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def queues(request: pytest.FixtureRequest) -> Iterator[Callable[..., str]]:
    """Make queue names that nobody else has: `queues()`, or `queues("orders")` for one that reads `orders-…`.

    On a server that is not ours their keys are deleted afterwards, and nothing else is.
    """
    made: list[str] = []
    server: Server | None = request.getfixturevalue("server") if "server" in request.fixturenames else None

    def name(stem: str = "q") -> str:
        made.append(f"{stem}-{uuid.uuid4().hex[:12]}")
        OURS.add(made[-1])
        return made[-1]

    yield name
    OURS.clear()
    if server is not None and server.kind == "live":
        for queue in made:
            keys = list(server.client.scan_iter(match=f"emq:{{{queue}}}:*"))
            if keys:
                server.client.delete(*keys)


@pytest.fixture
def queue(queues: Callable[..., str]) -> str:
    """One queue name that nobody else has."""
    return queues()


# --- the browser ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """One JupyterLab and one browser for the session; skips, saying why, where there is no browser."""
    try:
        from lab import NoBrowser, open_lab
    except ModuleNotFoundError as missing:
        pytest.skip(f"no browser test: {missing.name} is not installed (pip install -e '.[test]')")
    try:
        with open_lab() as lab:
            yield lab
    except NoBrowser as missing:
        pytest.skip(f"no browser test: {missing}; install one and run again")
