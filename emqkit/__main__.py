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
    """A subcommand. It imports what it needs when it runs, so that `emqkit --help` answers at once.

    Attributes:
        summary: one line for `--help`.
        run: does it; its answer is the exit status.
        declare: adds its own arguments to its parser.
        failed: the exit status when it could not be done; 2 where 1 is an answer.
    """

    summary: str
    run: Callable[[argparse.Namespace], int]
    declare: Callable[[argparse.ArgumentParser], None] = lambda parser: None
    failed: int = 1


def doctor(arguments: argparse.Namespace) -> int:
    """Print versions and what works here; 1 if something that the kit needs is broken."""
    from emqkit.doctor import report

    found = report()
    print(found)
    return 0 if found.well else 1


def scripts(arguments: argparse.Namespace) -> int:
    """Print how a script set differs from the published scripts; without a name, the mistakes there are to choose."""
    from emqkit.scripts import ScriptSet, patches

    if arguments.set is None:
        for patch in patches():
            print(f"{f'zoo/{patch.name}':24}{patch.script}: {patch.summary}")
    else:
        print(ScriptSet.load(arguments.set).differences() or f"{arguments.set} is what is published.\n", end="")
    return 0


def _name_a_set(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("set", nargs="?", metavar="SET", help="zoo/<mistake>, or a folder of your own Lua")


def _explorer(function: str) -> Callable[[Any], Any]:
    """A function of the explorer's command line, imported when it is called."""

    def call(given: Any) -> Any:
        from emqkit.sim import cli

        return getattr(cli, function)(given)

    return call


COMMANDS = {
    "doctor": Command("say which versions are installed and what works here", doctor),
    "scripts": Command("show a script set as a diff against the published scripts", scripts, _name_a_set),
    "explore": Command(
        "try every order of calls and every placement of faults",
        _explorer("run_explore"),
        _explorer("declare_explore"),
        failed=2,
    ),
    "replay": Command(
        "make the moves of a saved history again", _explorer("run_replay"), _explorer("declare_replay"), failed=2
    ),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        argv: the command and its arguments; those of this process unless given.

    Returns:
        The exit status: 0 when all went well; else what the command says. What goes wrong on the way, or a reader
        that goes away before everything is printed, is a 1, and for `explore` and `replay` a 2: their 1 says that a
        promise is broken. (Arguments that cannot be read end the process with 2, as argparse does.)
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
        # Python flushes once more when it ends: then into nothing.
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
