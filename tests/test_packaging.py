"""What is built from this folder carries the Lua files as they are, and importing it stays light."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def run(*command: str, cwd: Path = ROOT, path: Path | None = None) -> str:
    """The output of a command, its errors shown if it fails."""
    environment = os.environ | ({"PYTHONPATH": str(path)} if path else {})
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(target: str, folder: Path, into: Path) -> Path:
    """Build `folder` as it stands, with the hatchling that is installed: nothing is fetched."""
    run(sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(into), cwd=folder)
    (built,) = into.iterdir()
    return built


def sums(folder: Path) -> dict[str, str]:
    """SHA-1, which is also a script's name on the server, of every Lua file."""
    return {path.relative_to(folder).as_posix(): sha1(path.read_bytes()) for path in sorted(folder.rglob("*.lua"))}


def sha1(data: bytes) -> str:
    return hashlib.sha1(data).hexdigest()


def sums_in(wheel: Path) -> dict[str, str]:
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.startswith("emqkit/lua/")]
        return {name.removeprefix("emqkit/lua/"): sha1(archive.read(name)) for name in sorted(names)}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's contents, in a folder where no checkout lies beside them."""
    folder = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def test_the_wheel_carries_every_lua_file_byte_for_byte(wheel: Path) -> None:
    ours = sums(ROOT / "lua")
    assert ours
    assert sums_in(wheel) == ours


def test_a_wheel_built_from_the_source_archive_carries_the_same(tmp_path: Path) -> None:
    archive = build("sdist", ROOT, tmp_path / "archive")
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    source = tmp_path / archive.name.removesuffix(".tar.gz")
    assert sums(source / "lua") == sums(ROOT / "lua")
    assert not (source / "emqkit" / "lua").exists()  # one copy
    assert sums_in(build("wheel", source, tmp_path / "wheel")) == sums(ROOT / "lua")


def test_the_installed_package_reads_the_lua_files_it_carries(unpacked: Path, tmp_path: Path) -> None:
    found = run(
        sys.executable,
        "-c",
        "import emqkit; from emqkit.scripts import lua_folder; print(emqkit.__file__); print(lua_folder())",
        cwd=tmp_path,
        path=unpacked,
    )
    package, folder = (Path(line) for line in found.splitlines())
    assert package.is_relative_to(unpacked)
    assert folder == unpacked / "emqkit" / "lua"


def test_the_checkout_reads_the_lua_files_beside_it() -> None:
    found = run(sys.executable, "-c", "from emqkit.scripts import lua_folder; print(lua_folder())")
    assert Path(found.strip()) == ROOT / "lua"


def test_every_file_of_the_package_is_in_the_wheel(unpacked: Path) -> None:
    ours = {path.relative_to(ROOT) for path in (ROOT / "emqkit").rglob("*") if path.is_file()}
    ours = {path for path in ours if "__pycache__" not in path.parts}
    assert Path("emqkit/py.typed") in ours
    assert {path for path in ours if not (unpacked / path).is_file()} == set()


def loaded_by(code: str) -> set[str]:
    """Which of the heavy packages are there after a few lines."""
    heavy = ("ipywidgets", "anywidget", "matplotlib", "IPython", "jupyterlab")
    shown = run(sys.executable, "-c", f"import sys\n{code}\nprint(*[name for name in {heavy} if name in sys.modules])")
    return set(shown.split())


def test_importing_emqkit_brings_in_neither_widgets_nor_plots() -> None:
    assert loaded_by("import emqkit") == set()


def test_only_the_widgets_need_widgets_and_only_a_figure_needs_plots() -> None:
    files = [path.relative_to(ROOT).with_suffix("") for path in (ROOT / "emqkit").rglob("*.py")]
    others = [".".join(file.parts).removesuffix(".__init__") for file in files if "widgets" not in file.parts]
    assert loaded_by(f"import {', '.join(others)}") == set()
    assert "matplotlib" not in loaded_by("import emqkit.widgets")
