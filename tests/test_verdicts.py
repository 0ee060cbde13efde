"""docs/verdicts.md says what exploring finds today, and docs/findings.md says nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from emqkit.servers import Server
from emqkit.sim import SCENARIOS, explore, verdicts
from emqkit.sim.promises import names

DOCS = Path(__file__).parent.parent / "docs"
VERDICTS = DOCS.joinpath("verdicts.md").read_text(encoding="utf-8")
FINDINGS = DOCS.joinpath("findings.md").read_text(encoding="utf-8")
ROWS = verdicts.rows(VERDICTS)
QUICK = [name for name, row in ROWS.items() if float(row["seconds"]) < 2]
CROSSES = {name: {promise for promise in names() if row[promise] == "✗"} for name, row in ROWS.items()}


def test_every_scenario_has_a_row_and_a_section_and_most_rows_are_compared() -> None:
    assert list(ROWS) == list(SCENARIOS)
    assert re.findall(r"^### (.+)$", VERDICTS, re.M) == list(SCENARIOS)
    assert len(QUICK) >= 20


@pytest.mark.parametrize("name", QUICK)
def test_a_row_says_what_exploring_finds(name: str, embedded_server: Server) -> None:
    found = verdicts.row(explore(name, server=embedded_server))
    del found["seconds"]
    assert found == {column: ROWS[name][column] for column in found}


@pytest.mark.parametrize(
    "name", ["heartbeats", "added-twice", "climbing", "reprocessed-child", "poison", "re-delivery"]
)
def test_the_graph_is_the_same_on_another_server(name: str, server: Server) -> None:
    found = verdicts.row(explore(name, server=server))
    assert found["fingerprint"] == ROWS[name]["fingerprint"]


def test_a_page_is_written_and_read_and_one_world_of_it_explored_anew(tmp_path: Path) -> None:
    page = tmp_path / "verdicts.md"
    stale = VERDICTS.replace(ROWS["two-pumps"]["fingerprint"], "`stale`").replace(", pump.sweep: ", ", dozing: ")
    page.write_text(stale, encoding="utf-8")
    assert verdicts.main([str(page), "two-pumps", "--server", "fake://"]) == 0
    text = page.read_text(encoding="utf-8")
    seconds = "seconds"
    assert {**verdicts.rows(text)["two-pumps"], seconds: ""} == {**ROWS["two-pumps"], seconds: ""}
    sections, were = text.split("\n### "), stale.split("\n### ")
    (changed,) = [n for n, (now, was) in enumerate(zip(sections, were, strict=True)) if now != was and n]
    assert sections[changed].startswith("two-pumps\n\nTwo Pumps sweep one queue, and nothing else goes wrong. Actors: ")
    assert "<summary>P3, 17 moves: pack completed" in text and "\n17. Pump of stock 2, pump.sweep: " in text
    assert "`emqkit explore two-pumps --promise P3 --save h.json; emqkit replay h.json`" in text
    assert "* P14 turn and lease holds; not tried here: " in sections[changed]


def test_a_world_that_was_not_seen_whole_makes_no_page_that_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "verdicts.md"
    page.write_text("", encoding="utf-8")
    monkeypatch.setattr(verdicts, "explore", lambda name, **given: explore(name, max_depth=3, **given))
    assert verdicts.main([str(page), "two-pumps", "--server", "fake://"]) == 2
    assert verdicts.rows(page.read_text(encoding="utf-8"))["two-pumps"]["P3"] == "?"


# --- the prose --------------------------------------------------------------------------------------------------------

CAUSES = FINDINGS[FINDINGS.index("## The causes") : FINDINGS.index("Only its lapse breaks the flagship")]
CLAIMS = [
    (re.findall(r"`([a-z-]+)`", worlds), re.findall(r"P\d+", promises))
    for worlds, promises in re.findall(r"\(((?:`[a-z-]+`,?\s+)*`[a-z-]+`):\s+((?:P\d+,?\s*)+)\)", CAUSES)
]


def test_each_cross_of_the_table_is_told_in_the_prose() -> None:
    told: dict[str, set[str]] = {}
    for worlds, promises in CLAIMS:
        for world in worlds:
            told.setdefault(world, set()).update(promises)
    assert {world: crosses for world, crosses in CROSSES.items() if crosses} == told


def test_every_claim_names_worlds_and_promises_and_nothing_else_is_claimed() -> None:
    assert len(CLAIMS) >= 10 and all(worlds and promises for worlds, promises in CLAIMS)
    assert len(re.findall(r"P\d+", CAUSES)) == sum(len(promises) for _, promises in CLAIMS)


def test_what_the_prose_says_holds_is_broken_nowhere() -> None:
    holds = FINDINGS[FINDINGS.index("What holds, wherever it was tried") : FINDINGS.index("## Faults, each")]
    for name in re.findall(r"`([a-z-]+)`", holds):
        assert not CROSSES[name] and "?" not in ROWS[name].values(), name
    for promise in ("P1", "P12"):
        assert f"({promise})" in holds and not any(promise in crosses for crosses in CROSSES.values())


def test_the_flagship_has_as_many_states_as_the_prose_says() -> None:
    said = FINDINGS[FINDINGS.index("With the lapse it has") :]
    assert re.findall(r"[\d,]{6,}", said)[:3] == [ROWS["flagship"][c] for c in ("states", "transitions", "real calls")]
