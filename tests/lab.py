"""A real JupyterLab and a real browser, driven as a person would: by keyboard, and by what a screen reader is told.

    with open_lab(folder) as lab:
        page = lab.open("01_same_queue_flow.ipynb")
        run_all(page)
        player = show(page, ".emqkit-player")

The server listens on loopback and works on a copy of the notebooks in a temporary folder, its settings beside them.
The browser is one that is already installed; it finds no other host, and what it asked for is kept in `lab.outside`.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, Locator, Page, Playwright, Request, expect, sync_playwright
from playwright.sync_api import Error as BrowserError

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"

START = 60  # seconds for JupyterLab to answer: generous, since the other core may be busy with the rest of the tests
WAIT = 60_000  # milliseconds for anything in the page

# Debian's and Ubuntu's names, then Google's. Elsewhere playwright knows where Chrome is installed.
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

# A browser that asks the outside for nothing.
FLAGS = [
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]


# JupyterLab in a process that ends when its standard input does: when these tests are done with it, or were killed.
LEASHED = """
import os, signal, sys, threading
from jupyterlab.labapp import main

def end_with_stdin():
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGTERM)  # it shuts its kernels down and goes

threading.Thread(target=end_with_stdin, daemon=True).start()
sys.argv[0] = "jupyter-lab"
sys.exit(main())
"""


class NoBrowser(Exception):
    """There is no browser here to drive."""


@dataclass
class Lab:
    """A running JupyterLab and a browser to look at it with.

    Attributes:
        url: its address on loopback, without the token.
        folder: the copy of the notebooks it works on.
        outside: every address that a page asked for and that is not this server.
    """

    url: str
    token: str
    folder: Path
    context: BrowserContext
    outside: list[str] = field(default_factory=list)

    def open(self, name: str, *, dark: bool = False, width: int = 1280, height: int = 900) -> Page:
        """Open a notebook in a fresh window, and wait until its kernel is ready to run cells."""
        if not (self.folder / name).is_file():
            raise FileNotFoundError(f"there is no notebook {name} to open")
        page = self.context.new_page()
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme="dark" if dark else "light")
        page.on("request", self._note)
        page.goto(f"{self.url}lab/tree/{name}?reset&token={self.token}")
        page.wait_for_function("() => window.jupyterapp?.shell.currentWidget?.context?.isReady")
        # Asked earlier to run all cells, JupyterLab silently does nothing.
        page.evaluate(
            """async () => {
                const { context } = window.jupyterapp.shell.currentWidget;
                await context.ready;
                await context.sessionContext.ready;
                while (context.sessionContext.session?.kernel?.status !== 'idle')
                    await new Promise(done => setTimeout(done, 50));
            }"""
        )
        return page

    def close_pages(self) -> None:
        """Close every window and end every kernel."""
        for page in self.context.pages:
            page.close()
        for session in json.loads(self._ask("api/sessions")):
            self._ask(f"api/sessions/{session['id']}", "DELETE")

    def _note(self, request: Request) -> None:
        if not request.url.startswith((self.url, "data:", "blob:")):
            self.outside.append(request.url)

    def _ask(self, path: str, method: str = "GET") -> str:
        request = urllib.request.Request(
            self.url + path, method=method, headers={"Authorization": f"token {self.token}"}
        )
        with urllib.request.urlopen(request, timeout=30) as reply:
            return str(reply.read().decode())


# --- what a person does in a notebook ---------------------------------------------------------------------------------


def run_all(page: Page) -> None:
    """Run every cell and wait for the last. Raises AssertionError with the traceback if a cell fails."""
    failures = page.evaluate(
        """async () => {
            const { commands, shell } = window.jupyterapp;
            await commands.execute('notebook:run-all-cells');
            const cells = [...shell.currentWidget.content.widgets].filter(cell => cell.model.type === 'code');
            const busy = cell => cell.model.sharedModel.source.trim() && cell.model.executionCount === null;
            while (cells.some(busy) && !cells.some(failed))
                await new Promise(done => setTimeout(done, 50));
            return cells.flatMap(errors);

            function errors(cell) {
                return cell.model.outputs.toJSON().filter(output => output.output_type === 'error')
                    .map(output => output.traceback.join('\\n'));
            }
            function failed(cell) { return errors(cell).length > 0; }
        }"""
    )
    assert not failures, "\n".join(failures)


def show(page: Page, selector: str, nth: int = 0) -> Locator:
    """Scroll to the nth element that matches, wherever in the notebook it is, and wait until it is drawn.

    JupyterLab draws only the cells near the window: what is further down is not in the page before one goes there.
    """
    found = page.locator(selector)
    cells = page.evaluate("() => window.jupyterapp.shell.currentWidget.content.widgets.length")
    for cell in range(cells):
        if found.count() > nth:
            break
        page.evaluate("async cell => { await window.jupyterapp.shell.currentWidget.content.scrollToItem(cell); }", cell)
        page.wait_for_timeout(100)
    wanted = found.nth(nth)
    wanted.wait_for()
    wanted.scroll_into_view_if_needed()
    return wanted


@dataclass(frozen=True)
class Player:
    """A player in a page: its keys, its buttons by name, and what it says."""

    root: Locator

    def press(self, key: str) -> None:
        """Press a key with the player focused, as after tabbing to it."""
        self.root.focus()
        self.root.press(key)

    def click(self, button: str) -> None:
        """Press the button with this accessible name: First, Back, Play, Forward or Last."""
        self.root.get_by_role("button", name=button, exact=True).click()

    @property
    def status(self) -> Locator:
        """The line that a screen reader is told."""
        return self.root.locator(".emqkit-status")

    @property
    def board(self) -> Locator:
        """Where the queues are drawn."""
        return self.root.locator(".emqkit-stage")

    def says(self) -> str:
        """The status line's text."""
        # inner_text is empty while JupyterLab still keeps the cell from being rendered
        return (self.status.text_content() or "").strip()

    def draws(self) -> str:
        """The queues as they stand in the page."""
        return str(self.board.text_content())

    def press_and_listen(self, key: str) -> str:
        """Press a key, wait until the status line says something else, and return what it says."""
        before = self.says()
        self.press(key)
        expect(self.status).not_to_have_text(before)
        return self.says()


def player(page: Page, nth: int = 0) -> Player:
    """The nth player of the notebook, scrolled into view."""
    root = show(page, ".emqkit-player", nth)
    root.locator(".emqkit-queues").first.wait_for()
    found = Player(root)
    expect(found.status).not_to_be_empty()
    return found


# --- starting and stopping --------------------------------------------------------------------------------------------


@contextlib.contextmanager
def open_lab(notebooks: Path = NOTEBOOKS, *, server: str = "fake://") -> Iterator[Lab]:
    """Start a browser and a JupyterLab on a copy of `notebooks`, and end both, kernels included.

    Args:
        notebooks: the folder to copy.
        server: what the notebooks' `open_server()` opens.

    Raises:
        NoBrowser: there is no Chromium or Chrome here.
    """
    with contextlib.ExitStack() as stack:
        chromium = stack.enter_context(browser(stack.enter_context(sync_playwright())))
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="emqkit-lab-", ignore_cleanup_errors=True)))
        folder = home / "notebooks"
        shutil.copytree(notebooks, folder, ignore=shutil.ignore_patterns(".*"))
        token = secrets.token_hex(16)
        url = stack.enter_context(_jupyter(home, folder, token, server))
        # One cache for all windows: JupyterLab's own files are fetched once, not for every notebook.
        context = chromium.new_context()
        context.set_default_timeout(WAIT)
        lab = Lab(url, token, folder, context)
        stack.callback(lab.close_pages)
        yield lab


@contextlib.contextmanager
def browser(playwright: Playwright) -> Iterator[Browser]:
    """The Chromium or Chrome of this machine, headless; raises `NoBrowser` where there is none."""
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    try:
        chromium = playwright.chromium.launch(
            executable_path=path, channel=None if path else "chrome", headless=True, args=FLAGS
        )
    except BrowserError as error:
        if path is None:
            raise NoBrowser("no Chromium or Chrome is installed here") from error
        raise
    try:
        yield chromium
    finally:
        chromium.close()


@contextlib.contextmanager
def _jupyter(home: Path, folder: Path, token: str, server: str) -> Iterator[str]:
    runtime = home / "runtime"
    places = {
        "JUPYTER_RUNTIME_DIR": runtime,
        "JUPYTER_CONFIG_DIR": home / "config",
        "JUPYTER_DATA_DIR": home / "data",
        "JUPYTERLAB_SETTINGS_DIR": home / "settings",
        "JUPYTERLAB_WORKSPACES_DIR": home / "workspaces",
        "IPYTHONDIR": home / "ipython",
    }
    # Its first question, whether to show news, would lie over the notebook.
    answer = home / "settings" / "@jupyterlab" / "apputils-extension" / "notification.jupyterlab-settings"
    answer.parent.mkdir(parents=True)
    answer.write_text('{"fetchNews": "false"}')
    command = [sys.executable, "-c", LEASHED, "--no-browser", "--ip=127.0.0.1", "--port=0"]
    command += [f"--ServerApp.root_dir={folder}", f"--IdentityProvider.token={token}"]
    command += ["--LabApp.expose_app_in_browser=True", "--LabApp.news_url=None"]
    command += ["--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")  # where tests run unattended there is often nobody else
    with open(home / "log", "w+") as log:
        process = subprocess.Popen(
            command,
            env=os.environ | {name: str(path) for name, path in places.items()} | {"EMQKIT_SERVER": server},
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C in the terminal is for the tests, which then let go of it
        )
        try:
            yield _address(process, runtime, home / "log")
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _address(process: subprocess.Popen[bytes], runtime: Path, log: Path) -> str:
    """The server's address, once it answers. It writes the port it was given into its runtime folder."""
    until = time.monotonic() + START
    while time.monotonic() < until and process.poll() is None:
        for info in runtime.glob("jpserver-*.json"):
            with contextlib.suppress(ValueError, KeyError, urllib.error.URLError, ConnectionError):
                port = json.loads(info.read_text())["port"]
                url = f"http://127.0.0.1:{port}/"
                with urllib.request.urlopen(url + "api", timeout=5):
                    return url
        time.sleep(0.1)
    raise RuntimeError(f"JupyterLab did not start:\n{log.read_text()[-4000:]}")
