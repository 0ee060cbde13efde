"""The doctor reports which versions are installed and tries out what works here, in lines fit for a bug report.

It names no machine, no user and no path.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import emqkit
from emqkit.errors import EmqError, Unreachable, UnsuitableServer
from emqkit.flows import Child, Flow, Flows
from emqkit.jobs import Jobs
from emqkit.scripts import ScriptSet
from emqkit.servers import Server, open_server
from emqkit.servers.embedded import WHEELS, EmbeddedServer, find_wheel
from emqkit.servers.live import LiveServer

__all__ = ["Finding", "Report", "Version", "report"]

State = Literal["works", "missing", "broken"]

PACKAGES = ("redis", "hiredis", "fakeredis", "lupa", "ipywidgets", "anywidget", "jupyterlab", "matplotlib", *WHEELS)
OPTIONAL = ("hiredis", *WHEELS)
LABEXTENSIONS = {"ipywidgets": "@jupyter-widgets/jupyterlab-manager", "anywidget": "anywidget"}
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge", "firefox")
APPLICATIONS = (
    "/Applications/Google Chrome.app",
    "/Applications/Safari.app",
    r"C:\Program Files\Google\Chrome\Application\chrome.exe",
    r"C:\Program Files (x86)\Microsoft\Edge\Application\msedge.exe",
)
QUEUE = "emqkit-doctor"


@dataclass(frozen=True)
class Version:
    """A package or system part and its version, which is empty if it is not installed."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name:<12} {self.version or 'not installed'}"


@dataclass(frozen=True)
class Finding:
    """One thing that was tried. The kit can do without what is `missing`; it needs what is `broken`."""

    what: str
    state: State
    sentence: str

    def __str__(self) -> str:
        return f"{self.state:<8} {self.what}: {self.sentence}"


@dataclass(frozen=True)
class Report:
    """What the doctor found; its text is the report."""

    versions: tuple[Version, ...]
    findings: tuple[Finding, ...]

    @property
    def well(self) -> bool:
        """Whether everything the kit needs works."""
        return all(finding.state != "broken" for finding in self.findings)

    def __str__(self) -> str:
        lines = ["versions", *(f"  {version}" for version in self.versions)]
        lines += ["what works here", *(f"  {finding}" for finding in self.findings)]
        lines += ["all is well" if self.well else "something is broken: see the lines that start with 'broken'"]
        return "\n".join(lines)


def report() -> Report:
    """Try everything out. Takes about a second; starts and stops a private server if one is installed.

    A server named by `EMQKIT_SERVER` is opened, which includes the usual check, and left unchanged.
    """
    findings = [
        _tried("scripts", _scripts),
        _tried("fake", _fake),
        _tried("embedded", _embedded),
        _tried("EMQKIT_SERVER", _named_server),
        _tried("widgets", _widgets),
        _tried("browser", _browser),
    ]
    return Report(_versions(), tuple(findings))


# --- versions ---------------------------------------------------------------------------------------------------------


def _versions() -> tuple[Version, ...]:
    python = f"{platform.python_version()} ({platform.python_implementation()})"
    system = f"{platform.system()} {platform.machine()}"
    versions = [Version("emqkit", emqkit.__version__), Version("Python", python), Version("system", system)]
    for package in PACKAGES:
        version = _installed(package)
        if version or package not in OPTIONAL:
            versions.append(Version(package, version))
    return tuple(versions)


def _installed(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


# --- findings ---------------------------------------------------------------------------------------------------------


def _tried(what: str, attempt: Callable[[], tuple[State, str]]) -> Finding:
    try:
        state, sentence = attempt()
    except EmqError as error:
        state, sentence = "broken", str(error)
    except Exception as error:  # whatever it is, the other findings still matter
        state, sentence = "broken", f"{type(error).__name__}: {error}"
    return Finding(what, state, _PATH.sub("…", " ".join(sentence.split())))


_PATH = re.compile(r"(?<![\w/:.])(?:[A-Za-z]:\\|~?/)[^\s'\":,;]+")
"""Matches anything that looks like a path, but no URL."""


def _scripts() -> tuple[State, str]:
    return "works", f"{len(ScriptSet.load('published').scripts)} published scripts read, headers and all"


def _fake() -> tuple[State, str]:
    with open_server("fake://") as server:
        lua = server.client.eval("return _VERSION", 0)
        _run_a_flow(server)
    return "works", f"a flow ran to its end ({lua.decode() if isinstance(lua, bytes) else lua})"


def _embedded() -> tuple[State, str]:
    try:
        find_wheel()
    except UnsuitableServer as error:
        return "missing", f"{error.why}."
    with open_server("embedded://") as server:
        assert isinstance(server, EmbeddedServer)
        process = server.process
        _run_a_flow(server)
        where = "a socket file" if process.socket is not None else "a port of 127.0.0.1"
    return "works", f"a flow ran to its end (Valkey {process.version} from {process.wheel.name}, on {where})"


def _run_a_flow(server: Server) -> None:
    flows, jobs = Flows(server), Jobs(server)
    added = flows.add(QUEUE, Flow("parent", [Child("first"), Child("second")]))
    for expected in (*added.child_ids, added.parent_id):
        claim = jobs.claim(QUEUE)
        if claim is None or claim.id != expected:
            raise RuntimeError(f"{expected} should have been next")
        jobs.complete(QUEUE, claim.id, claim.token)
    if jobs.claim(QUEUE) is not None:
        raise RuntimeError("the queue should have been empty")


def _named_server() -> tuple[State, str]:
    url = os.environ.get("EMQKIT_SERVER")
    if not url:
        return "missing", "not set, so a server opened without a URL is fake."
    kind = url.partition(":")[0].lower()
    try:
        server = open_server()
    except (Unreachable, UnsuitableServer) as error:  # not their messages, which name the server
        return "broken", f"the {kind} server it names cannot be used: {error.why}."
    except EmqError:
        return "broken", "its value is not a server URL."
    with server:
        version = server.version if isinstance(server, LiveServer) else ""
    return "works", f"the {kind} server it names can be used{f' ({version})' if version else ''}"


def _widgets() -> tuple[State, str]:
    for package in ("jupyterlab", *LABEXTENSIONS):
        if not _installed(package):
            return "broken", f"{package} is not installed; pip install emqkit installs it"
    from jupyter_core.paths import jupyter_path

    for package, extension in LABEXTENSIONS.items():
        about = [Path(folder) / extension / "package.json" for folder in jupyter_path("labextensions")]
        if not any(_is_of(path, extension) for path in about):
            return "broken", f"this Python's JupyterLab does not find the extension of {package}"
    return "works", "JupyterLab finds the extensions of ipywidgets and anywidget"


def _is_of(path: Path, extension: str) -> bool:
    try:
        return bool(json.loads(path.read_text(encoding="utf-8"))["name"] == extension)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _browser() -> tuple[State, str]:
    for name in BROWSERS:
        if shutil.which(name):
            return "works", f"{name} is installed"
    if sys.platform in ("darwin", "win32"):
        for application in APPLICATIONS:
            if Path(application).exists():
                return "works", f"{Path(application).stem} is installed"
    return "missing", "none found; the notebooks open in any browser that reaches JupyterLab, only browser tests skip."
