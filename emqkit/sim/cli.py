"""`emqkit explore` and `emqkit replay`: the explorer from the command line."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from emqkit.errors import BadArgument, EmqError
from emqkit.sim.catalogue import explore, replay
from emqkit.sim.history import load, save
from emqkit.sim.promises import PROMISES, names
from emqkit.sim.report import Result
from emqkit.sim.search.explore import MOST_STATES, Progress
from emqkit.sim.worlds.faults import BUDGETS
from emqkit.sim.worlds.scenarios import SCENARIOS

__all__ = ["declare_explore", "declare_replay", "run_explore", "run_replay"]


def declare_explore(parser: argparse.ArgumentParser) -> None:
    """The arguments of `emqkit explore`."""
    parser.add_argument("scenario", nargs="?", metavar="SCENARIO", help="which world; see --list")
    parser.add_argument("--list", action="store_true", help="print the scenarios and exit")
    parser.add_argument("--promises", action="store_true", help="print what P1 to P16 promise and exit")
    parser.add_argument("--scripts", default="published", metavar="SET", help="published, zoo/<mistake>, or a folder")
    for name in BUDGETS:
        words = name.replace("_", " ")
        parser.add_argument(f"--{name.replace('_', '-')}", type=_count, metavar="N", help=f"how many {words}, 0 to 15")
    parser.add_argument(
        "--max-states",
        type=_most,
        default=MOST_STATES,
        metavar="N",
        help=f"stop after this many states ({MOST_STATES:,})",
    )
    parser.add_argument("--max-depth", type=_most, metavar="N", help="go no deeper than this many moves")
    parser.add_argument("--max-memory", type=_most, metavar="MB", help="stop at this many megabytes, as estimated")
    parser.add_argument("--server", metavar="URL", help="where calls are made; its scratch place is used (fake://)")
    parser.add_argument("--save", metavar="FILE", help="write the first history found to a file, for emqkit replay")
    parser.add_argument("--promise", metavar="P3", help="report only this promise (JSON has all), and save its history")
    parser.add_argument("--json", action="store_true", help="print JSON")


def declare_replay(parser: argparse.ArgumentParser) -> None:
    """The arguments of `emqkit replay`."""
    parser.add_argument("file", metavar="FILE", help="a history that emqkit explore --save wrote")
    parser.add_argument(
        "--scripts", metavar="SET", help="another script set than the history's own, or its own if that does not ship"
    )
    parser.add_argument("--server", metavar="URL", help="where calls are made; its scratch place is used (fake://)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= 15):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to 15")
    return int(text)


def _most(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= len(text) <= 15 and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")
    return int(text)


def _refusal(arguments: argparse.Namespace) -> str:
    """Why exploring with these arguments would be pointless; otherwise empty."""
    if arguments.promise is not None and arguments.promise not in names():
        return f"There is no promise {arguments.promise}. The promises are {', '.join(names())}; see --promises."
    if arguments.save is not None:
        file = Path(arguments.save)
        if file.is_dir():
            return f"--save {file}: that is a folder; name a file. Nothing was explored."
        if not file.parent.is_dir():
            return f"--save {file}: there is no folder {file.parent}. Nothing was explored."
    return ""


def run_explore(arguments: argparse.Namespace) -> int:
    """Explore a scenario and print what was found: 0 holds, 1 broken, 2 unknown or not run."""
    if arguments.list:
        _print_list(arguments.json)
        return 0
    if arguments.promises:
        _print_promises(arguments.json)
        return 0
    if arguments.scenario is None:
        print("Which scenario? `emqkit explore --list` names them.", file=sys.stderr)
        return 2
    if refusal := _refusal(arguments):
        print(refusal, file=sys.stderr)
        return 2
    shows = sys.stderr.isatty() and not arguments.json

    def progress(now: Progress) -> None:
        if shows:
            print(f"\r{now}\033[K", end="", file=sys.stderr, flush=True)

    try:
        result = explore(
            arguments.scenario,
            scripts=arguments.scripts,
            server=arguments.server,
            max_states=arguments.max_states,
            max_depth=arguments.max_depth,
            max_memory=arguments.max_memory,
            progress=progress,
            **{name: getattr(arguments, name) for name in BUDGETS},
        )
    except EmqError as error:
        print(error, file=sys.stderr)
        return 2
    if shows:
        print("\r\033[K", end="", file=sys.stderr)
    as_json = json.dumps(result.as_json(), ensure_ascii=False, indent=1) if arguments.json else ""
    print(as_json or result.told(arguments.promise))
    if not arguments.json:
        print(f"{result.seconds:.1f} s on the {result.server} server", file=sys.stderr)
    # The verdicts have been printed: whatever goes wrong with the file, they are not lost.
    return result.exit_status if _kept(result, arguments.promise, arguments.save) else 2


def _kept(result: Result, promise: str | None, file: str | None) -> bool:
    """Save the requested history, or say why there is none; False if it could not be written."""
    chosen = [violation for violation in result.violations if promise in (None, violation.promise)]
    if not chosen:
        broken = ", ".join(violation.promise for violation in result.violations)
        others = f"broken: {broken}" if broken else "nothing is broken"
        if promise is not None:
            verdict = result.verdicts[promise]
            known = (
                "holds"
                if verdict.word == "holds"
                else "is unknown"
                if verdict.concerns or verdict.lacks
                else "is not tried here"
            )
            print(f"{promise} {known}, so there is no history of it; {others}.", file=sys.stderr)
        elif file is not None:
            print(f"There is no history to save: {others}.", file=sys.stderr)
        return True
    if file is not None:
        try:
            save(chosen[0].history, file)
        except OSError as error:
            print(f"The history was not saved: {file} cannot be written ({error.strerror}).", file=sys.stderr)
            return False
    return True


def _print_promises(as_json: bool) -> None:
    listed = [{"name": promise.name, "title": promise.title, "says": promise.says} for promise in PROMISES]
    if as_json:
        print(json.dumps({"promises": listed}, ensure_ascii=False, indent=1))
        return
    for promise in PROMISES:
        print(f"{promise.name} {promise.title}\n    {promise.says}")


def _print_list(as_json: bool) -> None:
    listed = [
        {
            "name": world.name,
            "actors": list(world.names),
            "faults": str(world.faults),
            "summary": world.summary,
        }
        for world in SCENARIOS.values()
    ]
    if as_json:
        print(json.dumps({"scenarios": listed}, ensure_ascii=False, indent=1))
        return
    for world in SCENARIOS.values():
        print(f"{world.name}\n    {world.summary}\n    {'; '.join(world.names)}\n    faults: {world.faults}")


def run_replay(arguments: argparse.Namespace) -> int:
    """Replay a saved history: 1 if the promise breaks again, 0 if it is kept, 2 if the replay cannot be made."""
    try:
        saved = load(arguments.file)
    except BadArgument as error:
        print(f"{error.value} {error.why}.", file=sys.stderr)
        return 2
    try:
        done = replay(saved, scripts=arguments.scripts, server=arguments.server)
    except EmqError as error:
        print(error, file=sys.stderr)
        return 2
    if not done.same_scripts:
        print("These are not the scripts that this history was made with.", file=sys.stderr)
    if arguments.json:
        print(json.dumps({"confirmed": done.confirmed, "says": done.says, "moves": len(done.history)}, indent=1))
    else:
        print("\n".join(done.history.sentences))
        if not done.confirmed:
            print(f"Not broken here: {done.says}.")
    if done.confirmed:
        return 1
    return 2 if "cannot be made" in done.says else 0
