"""What the README shows in Python and on the command line is what happens."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from emqkit import Minter, Server
from emqkit.__main__ import main
from emqkit.sim import SCENARIOS

README = (Path(__file__).resolve().parent.parent / "README.md").read_text("utf-8")
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_the_sixty_seconds_of_python_do_what_their_comments_say(private_server: Server) -> None:
    private_server.minter = Minter.fixed()
    first, second = PYTHON
    opened = re.sub(r"server = emqkit\.open_server\(\).*\n", "", first)
    assert opened != first
    names: dict[str, Any] = {"server": private_server}
    before, rest = opened.split("flows.dependencies(", 1)
    exec(before, names)
    flows, jobs, parent = names["flows"], names["jobs"], names["added"].parent_id
    assert names["claim"].payload == "pick" and names["claim"].token == 1
    assert flows.dependencies("orders", parent) == 1
    exec("flows.dependencies(" + rest, names)
    assert jobs.state("orders", parent) == "pending"
    assert flows.children_values("orders", parent) == dict(
        zip(names["added"].child_ids, ("picked", "labelled"), strict=True)
    )
    exec(second, names)
    assert len(names["trace"]) > 2 and names["trace"].error is None


@pytest.mark.parametrize("word", re.findall(r"\$ emqkit explore ([a-z][a-z-]+)", README))
def test_every_world_the_readme_names_is_listed(word: str) -> None:
    assert word in SCENARIOS


def test_a_lapse_under_a_live_worker_breaks_the_published_scripts_in_six_moves(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["explore", "lapses"]) == 1
    assert "P3 broken after 6 moves" in capsys.readouterr().out


def test_every_file_the_readme_sends_to_is_there() -> None:
    root = Path(__file__).resolve().parent.parent
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        assert (root / link).exists(), link
