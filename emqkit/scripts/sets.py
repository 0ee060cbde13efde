"""Scripts and script sets: the published ones, folders laid over them, and the zoo's mistakes."""

from __future__ import annotations

import difflib
import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from emqkit.errors import BadHeader, ScriptMissing
from emqkit.scripts.contract import CallView, Contract, Move
from emqkit.scripts.header import alike, moves_of, read_header, sections

__all__ = ["Patch", "Script", "ScriptCall", "ScriptSet", "lua_folder", "patches", "shipped"]


class ScriptCall(Protocol):
    """What a set can view: a `wire.Call` of a script, or anything with these three attributes."""

    @property
    def verb(self) -> str: ...
    @property
    def keys(self) -> tuple[bytes, ...]: ...
    @property
    def args(self) -> tuple[bytes, ...]: ...


@dataclass(frozen=True, eq=False)
class Script(Contract):
    """One Lua file and its contract. Two are equal when name and text are.

    Attributes:
        source: the whole text, as it is sent.
        path: where it was read, for messages; relative from `lua/` if it is in there.
    """

    source: str = field(repr=False)
    path: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Script) and (self.name, self.source) == (other.name, other.source)

    def __hash__(self) -> int:
        return hash((self.name, self.source))

    @classmethod
    def parse(cls, source: str, path: str) -> Script:
        """Make a script from its text.

        Args:
            source: the Lua text, header first.
            path: where it is; the file's name must be the script's.

        Raises:
            BadHeader: the header is not a valid contract; says in which line and why.
        """
        return cls(**vars(read_header(source, path)), source=source, path=path)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Script:
        """Read a script from a file of UTF-8 text.

        Raises:
            BadHeader: the header is not a valid contract, or the file is not UTF-8 text.
            ScriptMissing: there is no such file.
        """
        return cls.parse(*_read_file(Path(path)))

    @cached_property
    def sha(self) -> str:
        """The script's name for EVALSHA: the lower-case hexadecimal SHA-1 of its bytes."""
        return _sha1(self.source)


@dataclass(frozen=True)
class Patch:
    """A mistake of the zoo: the moves it replaces in one script.

    Its file opens with `-- NAME, in SCRIPT: what is wrong`; whole moves follow, each from its `-- move:` comment on. It
    is composed over the published script strictly: if it no longer fits, it is refused.

    Attributes:
        name: the file's name without its extension.
        script: the script it changes.
        summary: what is wrong.
        moves: the moves it replaces.
        sections: their text, in the same order.
        path: where it was read.
    """

    name: str
    script: str
    summary: str
    moves: tuple[Move, ...]
    sections: tuple[str, ...] = field(repr=False)
    path: str

    @classmethod
    def read(cls, path: Path) -> Patch:
        """Read a mistake's file.

        Raises:
            BadHeader: its first line is another, it has text before the first move, or no move; or it is not UTF-8.
            ScriptMissing: there is no such file.
        """
        source, shown = _read_file(path)
        (title, *before), *replaced = (section.split("\n") for section in sections(source))
        found = _PATCH.fullmatch(title.rstrip())
        if found is None or found["name"] != path.stem:
            raise BadHeader(shown, 1, f"the first line is not '-- {path.stem}, in SCRIPT: what is wrong'")
        for line, text in enumerate(before, start=2):
            if text.strip():
                raise BadHeader(shown, line, "only moves follow the first line, each from its '-- move:' comment on")
        if not replaced:
            raise BadHeader(shown, 1, "it replaces no move")
        texts = tuple("\n".join(lines).rstrip() for lines in replaced)
        return cls(found["name"], found["script"], found["summary"], moves_of(source), texts, shown)

    def over(self, published: ScriptSet) -> Script:
        """Return the published script with the mistake in it.

        Raises:
            BadHeader: there is no such script, it has no such move, or its move is the same; says which.
        """
        if self.script not in published:
            raise BadHeader(self.path, 1, f"there is no script {self.script} in {published.name}")
        script = published[self.script]
        before, *texts = sections(script.source)
        own = dict(zip((move.name for move in script.moves), texts, strict=True))
        replaced: set[str] = set()
        for move, text in zip(self.moves, self.sections, strict=True):
            if move.name not in own:
                raise BadHeader(self.path, move.line, f"{script.path} has no move {move.name!r}: {', '.join(own)}")
            if move.name in replaced:
                raise BadHeader(self.path, move.line, f"the move {move.name!r} is replaced twice")
            kept = own[move.name].rstrip()
            if text == kept:
                raise BadHeader(self.path, move.line, f"the move {move.name!r} is the same in {script.path}")
            replaced.add(move.name)
            own[move.name] = text + own[move.name][len(kept) :]
        return replace(Script.parse("\n".join((before, *own.values())), script.path), path=self.path)


@dataclass(frozen=True)
class ScriptSet:
    """Scripts by name: `published`, or another set laid over it. Two are equal when name and all texts are.

    Attributes:
        name: the set's name.
        scripts: its scripts, sorted by name.
    """

    name: str
    scripts: Mapping[str, Script] = field(hash=False, repr=False)

    def __post_init__(self) -> None:
        in_order = {name: self.scripts[name] for name in sorted(self.scripts)}
        object.__setattr__(self, "scripts", MappingProxyType(in_order))

    def __reduce__(self) -> tuple[Any, ...]:
        return ScriptSet, (self.name, dict(self.scripts))

    @classmethod
    def load(cls, name_or_path: str | os.PathLike[str]) -> ScriptSet:
        """Read a set of scripts.

        `published` is the files in `lua/` itself, `tools` those in `lua/tools` alone, and `zoo/<mistake>` is
        `published` with some moves replaced by those of that file in `lua/zoo`. Any other folder, within `lua/`
        (`hardened`) or elsewhere, is laid over `published`: it needs only the scripts that differ. A name within
        `lua/` takes precedence over a folder of that name here; a `Path` is always a folder.

        Raises:
            ScriptMissing: there is no such folder, or no Lua file in it.
            BadHeader: a script's header is not a valid contract, or puts a key or an argument where its callers, who
                follow the published one, put another; or a mistake no longer fits the published script.
        """
        root = lua_folder()
        if name_or_path == "tools":
            return cls("tools", _read_folder(root / "tools"))
        published = cls("published", _read_folder(root))
        if name_or_path == "published":
            return published
        wanted = os.fspath(name_or_path)
        folder = Path(wanted)
        name = folder.name
        if isinstance(name_or_path, str):
            if (mistake := root / f"{wanted}.lua").parent == root / "zoo" and mistake.is_file():
                return published.overlay(cls(wanted, _by_name(Patch.read(mistake).over(published))))
            if (root / wanted).is_dir() and wanted != "zoo" and not folder.is_absolute():
                folder, name = root / wanted, wanted
            elif not folder.is_dir():
                if folder.parts[:1] == ("zoo",):
                    raise ScriptMissing(wanted, f"the zoo, which has {', '.join(patch.name for patch in patches())}")
                raise ScriptMissing(f"{wanted}/*.lua", f"{root}, nor from here")
        scripts = _read_folder(folder)
        for script in scripts.values():
            if script.name in published:
                _check_positions(script, published[script.name])
        return published.overlay(cls(name, scripts))

    @cached_property
    def sha(self) -> str:
        """A key for the set's contents, whatever its name: the SHA-1 of its scripts' names and texts."""
        return _sha1("".join(f"{name} {script.sha}\n" for name, script in self.scripts.items()))

    def differences(self) -> str:
        """How the set differs from `published`, script by script: a unified diff, empty if there is none."""
        published = ScriptSet.load("published").scripts
        pairs = [(published.get(name), self.scripts.get(name)) for name in sorted({*published, *self.scripts})]
        return "".join(_difference(*pair) for pair in pairs)

    def view(self, call: ScriptCall) -> CallView:
        """Read a call of one of these scripts by the names in its header.

        Raises:
            ScriptMissing: the set has no script of this verb.
            ScriptArity: no layout of the script fits the call.
        """
        return self[call.verb].view(call.keys, call.args)

    def overlay(self, other: ScriptSet) -> ScriptSet:
        """This set with its scripts replaced by those of `other`, under the name of `other`."""
        return ScriptSet(other.name, {**self.scripts, **other.scripts})

    def __getitem__(self, name: str) -> Script:
        """The script of this name; raises `ScriptMissing`."""
        try:
            return self.scripts[name]
        except KeyError:
            raise ScriptMissing(name, f"the set {self.name}") from None

    def __contains__(self, name: object) -> bool:
        return name in self.scripts

    def __iter__(self) -> Iterator[Script]:
        """The scripts, sorted by name."""
        return iter(self.scripts.values())

    def __len__(self) -> int:
        return len(self.scripts)


def lua_folder() -> Path:
    """The folder of the Lua files: inside the installed package, or beside it in a checkout.

    Raises:
        ScriptMissing: it is in neither place; names both.
    """
    package = Path(__file__).resolve().parent.parent
    packaged, sibling = package / "lua", package.parent / "lua"
    for folder in (packaged, sibling):
        if folder.is_dir():
            return folder
    raise ScriptMissing("*.lua", f"{packaged} or {sibling}")


def patches() -> tuple[Patch, ...]:
    """The zoo's mistakes that patch a script, sorted by name."""
    return tuple(Patch.read(path) for path in sorted((lua_folder() / "zoo").glob("*.lua")))


def shipped() -> Iterator[Script]:
    """Every script the kit ships with, from all sets."""
    root, published = lua_folder(), ScriptSet.load("published")
    for folder in (root, *sorted(path for path in root.iterdir() if path.is_dir() and path.name != "zoo")):
        yield from _read_folder(folder).values()
    yield from (patch.over(published) for patch in patches())


_PATCH = re.compile(r"-- (?P<name>[\w-]+), in (?P<script>\w+): (?P<summary>\S.*)")


def _check_positions(script: Script, published: Script) -> None:
    """Refuse a header whose positions do not match what the host sends: its calls would be misread, or go wrong."""
    for mine in script.layouts:
        for theirs in published.layouts:
            if mine.name != theirs.name and not (alike(mine.keys, theirs.keys) and alike(mine.argv, theirs.argv)):
                continue
            for what, word, own, put in (
                ("key", "keys", mine.keys, theirs.keys),
                ("argument", "argv", mine.argv, theirs.argv),
            ):
                for place, (one, other) in enumerate(zip(own, put, strict=False), start=1):
                    if one != other:
                        starts = (f"-- {word} {mine.name}  ", f"-- {word}  ")  # its own line or the shared one
                        lines = list(enumerate(script.source.split("\n"), start=1))
                        line = next(number for start in starts for number, text in lines if text.startswith(start))
                        why = f"{what} {place} is {one}, and callers put {other} there, as {published.path} has it"
                        raise BadHeader(script.path, line, why)


def _difference(published: Script | None, script: Script | None) -> str:
    before, after = ([] if one is None else one.source.splitlines(keepends=True) for one in (published, script))
    old, new = ("/dev/null" if one is None else one.path for one in (published, script))
    return "".join(difflib.unified_diff(before, after, old, new))


def _read_file(place: Path) -> tuple[str, str]:
    """A file's text, and its path for messages; raises `ScriptMissing` or `BadHeader`."""
    try:
        return place.read_bytes().decode("utf-8"), _shown(place)
    except FileNotFoundError:
        raise ScriptMissing(place.stem, str(place.parent)) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise BadHeader(_shown(place), line, "the file is not UTF-8 text") from None


def _read_folder(folder: Path) -> dict[str, Script]:
    scripts = _by_name(*map(Script.read, sorted(folder.glob("*.lua"))))
    if not scripts:
        raise ScriptMissing("*.lua", str(folder))
    return scripts


def _by_name(*scripts: Script) -> dict[str, Script]:
    return {script.name: script for script in scripts}


def _sha1(text: str) -> str:
    return hashlib.sha1(text.encode("utf-8"), usedforsecurity=False).hexdigest()


def _shown(place: Path) -> str:
    """A path for messages and pages: relative from `lua/` for our own files, so it is the same everywhere."""
    root = lua_folder()
    try:
        return (Path(root.name) / place.resolve().relative_to(root)).as_posix()
    except ValueError:
        return str(place)
