"""Nobody's Lua reaches the machine or takes this process with it, whichever door it comes through."""

from __future__ import annotations

import re
import sys

import pytest
from attacks import ATTACKS, DOORS, against

from emqkit.errors import UnsuitableServer
from emqkit.servers.embedded import find_wheel

try:
    find_wheel()
except UnsuitableServer as missing:
    pytest.skip(f"no sandbox here: {missing}", allow_module_level=True)

ENDS = re.compile(
    r"(Refused: complete was answered with an error|ScriptStopped: |ScriptBroken: attacked/complete\.lua, line \d+: "
    r"|Unseen: complete of attacked |Unrunnable: attacked/complete\.lua, line \d+: "
    r"|done: True|complete ran \d+ lines?|(broken|holds|unknown): |replayed: )"
)
"""Each is a sentence of ours. A busy machine may make any of them a deadline that passed."""

FIRST = {
    "a loop": "still running after 0.3 seconds",
    "a loop in pcalls": "still running after 0.3 seconds",
    "a loop that writes": "still running after 0.3 seconds",
    "a pattern": "still running after 0.3 seconds",
    "half a script": "'end' expected",
    "a deep expression": "chunk has too many syntax levels",
    "MIGRATE": "no permissions to run the 'migrate' command",
    "FLUSHALL": "no permissions to run the 'flushall' command",
    "KEYS": "no permissions to run the 'keys' command",
    "io.open": "nonexistent global variable 'io'",
    "an error of control characters": r"\x1b[2J",
}
"""What some of them are told when the door is `open_server`."""


def ends_in_a_sentence(door: str, attack: str, deadline_s: float) -> None:
    outcome, seconds = against(door, attack, deadline_s)
    print(f"{attack:30} {door:12} {seconds:5.1f} s  {outcome[:150]!r}")
    assert ENDS.match(outcome), outcome
    assert outcome.isprintable()
    if door == "open_server" and attack in FIRST and "still running" not in outcome:
        assert FIRST[attack] in outcome


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_ends_in_a_sentence_at_one_door_after_the_other(attack: str) -> None:
    place = list(ATTACKS).index(attack)
    ends_in_a_sentence(list(DOORS)[place % len(DOORS)], attack, 0.3)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("attack", ATTACKS)
def test_every_attack_ends_in_a_sentence_at_every_door(attack: str, door: str) -> None:
    ends_in_a_sentence(door, attack, 3.0)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not tell the most memory a process has held")
def test_the_largest_of_them_are_no_weight_in_this_process() -> None:
    import resource

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for attack in ("500 MB in a key", "a long list", "a large answer"):
        for door in ("open_server", "step"):
            against(door, attack, 3.0)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 300 << (20 if sys.platform == "darwin" else 10)
