"""The command line: `python -m emqkit COMMAND`, or `emqkit COMMAND`."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import emqkit
from emqkit.errors import EmqError

__all__ = ["COMMANDS", "Command", "main"]


@dataclass(frozen=True)
class Command:
    """A subcommand. It imports what it needs only when it runs, so `emqkit --help` is quick.

    Attributes:
        summary: one line for `--help`.
        run: runs it and returns the exit status.
        declare: adds its arguments to its parser.
        failed: the exit status when it cannot be carried out; 2 where 1 already has a meaning.
    """

    summary: str
    run: Callable[[argparse.Namespace], int]
    declare: Callable[[argparse.ArgumentParser], None] = lambda parser: None
    failed: int = 1


def doctor(arguments: argparse.Namespace) -> int:
    """Print versions and what works here; return 1 if something the kit needs is broken."""
    from emqkit.doctor import report

    found = report()
    print(found)
    return 0 if found.well else 1


def scripts(arguments: argparse.Namespace) -> int:
    """Print how a script set differs from the published scripts; without a name, list the mistakes."""
    from emqkit.scripts import ScriptSet, patches

    if arguments.set is None:
        for patch in patches():
            print(f"{f'zoo/{patch.name}':24}{patch.script}: {patch.summary}")
    else:
        diff = ScriptSet.load(arguments.set).differences()
        print(diff or f"{arguments.set}: no difference from the published scripts.\n", end="")
    return 0


def _name_a_set(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("set", nargs="?", metavar="SET", help="zoo/<mistake>, or a folder of your own Lua")


def _classroom(function: str) -> Callable[[Any], Any]:
    """Return a function of the classroom's command line that is imported only when called."""

    def call(given: Any) -> Any:
        from emqkit.classroom import cli

        return getattr(cli, function)(given)

    return call


def _explorer(function: str) -> Callable[[Any], Any]:
    """Return a function of the explorer's command line that is imported only when called."""

    def call(given: Any) -> Any:
        from emqkit.sim import cli

        return getattr(cli, function)(given)

    return call


COMMANDS = {
    "doctor": Command("show which versions are installed and what works here", doctor),
    "scripts": Command("show a script set as a diff against the published scripts", scripts, _name_a_set),
    "explore": Command(
        "try every order of calls and every placement of faults",
        _explorer("run_explore"),
        _explorer("declare_explore"),
        failed=2,
    ),
    "replay": Command(
        "replay the steps of a saved history", _explorer("run_replay"), _explorer("declare_replay"), failed=2
    ),
    "classroom": Command(
        "make exercises to hand out, and mark what comes back", _classroom("run"), _classroom("declare"), failed=2
    ),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        argv: the command and its arguments; those of this process unless given.

    Returns:
        The command's exit status, 0 for success. An error, or an output pipe that closes early, gives 1. For `explore`
        and `replay` it gives 2, because their 1 means that a promise is broken. (Bad arguments exit with 2, as argparse
        does.)
    """
    parser = argparse.ArgumentParser(
        prog="emqkit", description="Learn the flows of EchoMQ by stepping through its real Lua scripts."
    )
    parser.add_argument("--version", action="version", version=f"emqkit {emqkit.__version__}")
    chosen = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        its_parser = chosen.add_parser(name, help=command.summary, description=command.summary)
        its_parser.set_defaults(run=command.run, failed=command.failed)
        command.declare(its_parser)
    arguments = parser.parse_args(argv)
    failed: int = arguments.failed
    try:
        status: int = arguments.run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes again at exit: send that to /dev/null.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return failed
    except EmqError as error:
        print(error, file=sys.stderr)
        return failed
    except Exception:
        traceback.print_exc()
        return failed
    return status


if __name__ == "__main__":
    sys.exit(main())
