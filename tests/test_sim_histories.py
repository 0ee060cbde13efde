"""A violation is handed over: as sentences, a trace to step, a picture, a file to replay, an exit status."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from emqkit.__main__ import main
from emqkit.errors import BadArgument
from emqkit.scripts import ScriptSet, lua_folder
from emqkit.servers import Server, open_server
from emqkit.sim import SCENARIOS, Result, explore, promises, scenario, verdicts
from emqkit.sim.catalogue import explore_mistake, mistake, replay
from emqkit.sim.history import load, save
from emqkit.sim.search.shrink import shrink
from emqkit.sim.search.walk import Walker, walk_along, wander
from emqkit.sim.worlds.mistakes import MISTAKES
from emqkit.viz.spacetime import spacetime

pytest_plugins = ["pytester"]


@pytest.fixture(scope="module")
def fake() -> Iterator[Server]:
    with open_server("fake://") as server:
        yield server


@pytest.fixture(scope="module")
def settled_twice(fake: Server) -> Result:
    return explore("repeated-settles", server=fake)


# --- stepping, reading, seeing ---------------------------------------------------------------------------------------


def test_a_violation_is_a_trace_whose_steps_follow_one_another(settled_twice: Result) -> None:
    for violation in settled_twice.violations:
        trace = violation.history.trace
        assert trace.initial == violation.history.initial
        assert len(trace) >= len(violation.history)
        for before, after in zip(trace.steps, trace.steps[1:], strict=False):
            assert before.after == after.before
        assert violation.says in trace.steps[-1].mark


def test_a_violation_opens_in_the_player_down_to_the_lua_lines(settled_twice: Result) -> None:
    from emqkit.viz.film import Film

    history = settled_twice.verdicts["P5"].violation
    assert history is not None
    film = Film.of(history.history.trace, lines=["retry"])
    assert any(frame.depth == 2 and frame.move == "ignore" for frame in film.frames)
    assert film.frames[-1].sentence.startswith("P5 is broken: the counter of order is 0")
    from emqkit.widgets import StepPlayer

    assert repr(StepPlayer(history.history.trace)).startswith("The start")


def test_a_crash_is_a_step_that_nobody_sent(fake: Server) -> None:
    history = explore("climbing", server=fake).verdicts["P3"].violation
    assert history is not None
    crashed = [step for step in history.history.trace.steps if "crashes" in step.mark]
    assert len(crashed) == 1 and not crashed[0].calls
    assert history.history.sentences[-2:] == (
        "5. Worker of orders crashes in jobs.retry: what it had read is gone.",
        "So P3 is broken: root stays held for ever.",
    )


def test_jobs_are_called_by_their_payloads_in_sentences(settled_twice: Result) -> None:
    told = "\n".join(line for violation in settled_twice.violations for line in violation.history.sentences)
    assert "JOB" not in told and "claim hands out pick, the smallest id in pending of orders" in told


def test_a_move_says_what_its_call_did_and_how_its_actor_goes_on(fake: Server) -> None:
    told = explore("two-pumps", server=fake).violations[0].sentences
    assert told[0] == "1. Worker of stock, jobs.claim: HEXISTS asks whether stock is paused: no."
    assert told[1].endswith("and its token is 1. Its work will succeed.")
    assert (
        told[2] == "3. Worker of stock, jobs.complete: HMGET reads the row of pick: parent order, parent_queue orders."
    )
    assert told[16] == "17. Pump of stock 2, pump.sweep: LTRIM trims 1 entry off the outbox of stock; 0 left."


def test_a_lost_reply_is_told_after_what_took_effect(settled_twice: Result) -> None:
    told = next(violation.sentences for violation in settled_twice.violations if violation.promise == "P9")
    assert told[3].startswith("4. Worker of orders 1, jobs.retry: retry finds no attempt left for pick")
    assert told[3].endswith("The reply is lost. It will do the same again.")


def test_the_spacetime_diagram_has_a_lane_for_each_actor_and_marks_what_went_wrong(fake: Server) -> None:
    history = explore("two-pumps", server=fake).violations[0].history
    picture = spacetime(history)
    assert picture.startswith("<svg") and picture.count('class="lane"') == 3
    assert picture.count("<title>") == len(history) and "P3 is broken" in picture
    lapsing = spacetime(explore("lapses", server=fake).violations[0].history)
    assert 'class="time"' in lapsing
    crashing = spacetime(explore("climbing", server=fake).violations[0].history)
    assert crashing.count('class="crash"') == 2  # one cross
    assert "prefers-color-scheme:dark" in picture


# --- replaying -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["heartbeats", "two-pumps", "poison", "reprocessed-child", "landing-and-dying"])
def test_every_history_breaks_its_promise_again_when_its_calls_are_really_made(name: str, server: Server) -> None:
    for violation in explore(name, server=server).violations:
        done = replay(violation.history.as_json(), server=server)
        assert done.confirmed and done.says == violation.says
        assert done.history.sentences == violation.history.sentences


def test_a_history_is_saved_and_replayed_from_its_file(fake: Server, tmp_path: Path) -> None:
    history = explore("two-pumps", server=fake).violations[0].history
    saved = load(save(history, tmp_path / "two-pumps.json"))
    assert saved["scenario"] == "two-pumps" and saved["promise"] == "P3"
    assert replay(saved, server=fake).confirmed


def test_a_file_that_is_no_history_is_refused(tmp_path: Path) -> None:
    (tmp_path / "no.json").write_text("{}")
    for file in ("no.json", "missing.json"):
        with pytest.raises(BadArgument, match="history file"):
            load(tmp_path / file)


@pytest.fixture(scope="module")
def text(fake: Server) -> str:
    """A history as its file holds it."""
    return json.dumps(explore("two-pumps", server=fake).violations[0].history.as_json())


@pytest.fixture
def saved(text: str) -> dict[str, Any]:
    """The same, read, and this test's own."""
    saved: dict[str, Any] = json.loads(text)
    return saved


def test_a_history_as_it_was_saved_is_one(saved: dict[str, Any], fake: Server) -> None:
    assert replay(saved, server=fake).confirmed


SPOILT: dict[str, Callable[[dict[str, Any]], object]] = {
    "another format": lambda h: h.update(format="emqkit history 2"),
    "a world that is a number": lambda h: h.update(scenario=7),
    "a world that is a page": lambda h: h.update(scenario="x" * 1001),
    "scripts in a list": lambda h: h.update(scripts=["published"]),
    "no scripts": lambda h: h.update(scripts=""),
    "a hash that is none": lambda h: h.update(scripts_sha="../" * 20),
    "a promise that is none": lambda h: h.update(promise="P17"),
    "a promise that is a list": lambda h: h.update(promise=["P3"]),
    "faults in a list": lambda h: h.update(faults=[1]),
    "an unknown fault": lambda h: h["faults"].update(floods=1),
    "a fault too many": lambda h: h["faults"].update(crashes=16),
    "half a fault": lambda h: h["faults"].update(crashes=0.5),
    "a fault that is true": lambda h: h["faults"].update(crashes=True),
    "no moves": lambda h: h.pop("moves"),
    "moves in a text": lambda h: h.update(moves="call"),
    "moves without end": lambda h: h.update(moves=h["moves"] * 2000),
    "a move that is a text": lambda h: h["moves"].append("call"),
    "a move by nobody": lambda h: h["moves"][0].pop("actor"),
    "a move by a page": lambda h: h["moves"][0].update(actor="x" * 1001),
    "a move of a list": lambda h: h["moves"][0].update(what=["x"]),
    "a fault of a move that is a text": lambda h: h["moves"][0].update(fault="yes"),
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_each_field_of_a_history_is_what_it_should_be_or_nothing_is_made(
    spoil: Callable[[dict[str, Any]], object], saved: dict[str, Any], tmp_path: Path, fake: Server
) -> None:
    spoil(saved)
    (tmp_path / "h.json").write_text(json.dumps(saved))
    with pytest.raises(BadArgument, match="is not an emqkit history: "):
        load(tmp_path / "h.json")
    with pytest.raises(BadArgument, match="is not a history: "):
        replay(saved, server=fake)


@pytest.mark.parametrize("text", ["[" * 100_000, "1" * 10_000, "\ud800", "x" * (16 << 20) + "xx"], ids=len)
def test_a_file_that_is_a_bomb_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "h.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(BadArgument, match="is not an emqkit history"):
        load(tmp_path / "h.json")


def test_a_history_names_no_folder_of_lua_and_no_way_to_one(
    saved: dict[str, Any], tmp_path: Path, fake: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "claim.lua").write_text(
        (lua_folder() / "claim.lua").read_text().replace("-- move: take", "--\n-- move: take")
    )
    monkeypatch.chdir(tmp_path)
    for name in (str(folder), "mine", "./mine", "zoo", "tools", "zoo/../../mine", "../lua"):
        with pytest.raises(BadArgument, match=r"is not a shipped set; .*--scripts FOLDER"):
            replay({**saved, "scripts": name}, server=fake)


def test_what_a_history_says_is_said_back_without_control_characters(
    saved: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for spoilt in (
        {"scenario": "\x1b[2J"},
        {"scripts": "\x1b[2J"},
        {"moves": [{**saved["moves"][0], "actor": "\x1b[2J\r\n"}]},
        {"promise": "\x1b[2J"},
    ):
        (tmp_path / "h.json").write_text(json.dumps({**saved, **spoilt}))
        assert main(["replay", str(tmp_path / "h.json")]) == 2
        said = "".join(capsys.readouterr())
        assert said.replace("\n", "").isprintable(), said


def test_a_history_of_ones_own_world_is_replayed_in_that_world(fake: Server, tmp_path: Path) -> None:
    mine = replace(scenario("two-pumps"), name="my two pumps")
    saved = load(save(explore(mine, server=fake).violations[0].history, tmp_path / "mine.json"))
    assert replay(saved, world=mine, server=fake).confirmed
    with pytest.raises(BadArgument, match=r"'my two pumps' is not listed; .*replay\(saved, world=…\)"):
        replay(saved, server=fake)
    with pytest.raises(BadArgument, match="'lapses' is not where this history was found"):
        replay(saved, world=scenario("lapses"), server=fake)


def test_a_history_of_ones_own_scripts_is_replayed_with_them_and_knows_them_again(
    wheel: str, fake: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    no_signal = ScriptSet.load("zoo/no-signal")["complete"].source + "\n"
    (folder / "complete.lua").write_text(no_signal)
    found = explore(mistake("no-signal").world, scripts=str(folder), server=fake, until="P3")
    file = str(tmp_path / "h.json")
    assert found.verdicts["P3"].violation is not None
    saved = load(save(found.verdicts["P3"].violation.history, file))
    assert (saved["scripts"], len(saved["scripts_sha"])) == ("mine", 40)
    assert main(["replay", file]) == 2
    assert main(["replay", file, "--scripts", str(folder)]) == 1
    assert "not the scripts" not in capsys.readouterr().err
    (folder / "complete.lua").write_text(no_signal + "\n")
    assert main(["replay", file, "--scripts", str(folder)]) == 1
    assert "These are not the scripts that this history was made with." in capsys.readouterr().err


def test_a_history_that_another_set_does_not_follow_is_not_confirmed(fake: Server) -> None:
    broken = explore_mistake(mistake("no-signal"), server=fake).verdicts["P3"].violation
    assert broken is not None
    assert replay(broken.history.as_json(), server=fake).confirmed
    kept = replay(broken.history.as_json(), scripts="published", server=fake)
    assert not kept.confirmed


def test_a_walker_offers_every_move_and_takes_the_one_it_is_given(fake: Server) -> None:
    with Walker(scenario("pump-crashes"), fake) as walker:
        kinds = set()
        for _ in range(30):
            options = walker.options()
            kinds |= {option.label.kind for option in options}
            walker.take(options[0])
        assert {"call", "crash"} <= kinds and len(walker.history()) == 30


def test_wandering_meets_what_searching_finds(fake: Server) -> None:
    found = [h for seed in range(3) for h in wander(scenario("heartbeats"), fake, seed=seed, moves=60)]
    assert found and {h.promise for h in found} <= {v.promise for v in explore("heartbeats", server=fake).violations}
    long = max(found, key=len)
    short = shrink(long, fake)
    assert len(short) < len(long) and (short.promise, short.says) == (long.promise, long.says)
    again = walk_along(short.world, short.as_json()["moves"], short.promise, short.scripts, fake)
    assert again.confirmed
    with pytest.raises(BadArgument):
        wander(scenario("heartbeats"), fake, moves=0)


# --- the zoo ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MISTAKES)
def test_the_explorer_breaks_every_mistake_of_the_zoo(name: str, fake: Server) -> None:
    one = mistake(name)
    result = explore_mistake(one, server=fake)
    assert result.verdicts[one.breaks].word == "broken", result.verdicts[one.breaks].reason


@pytest.mark.parametrize("name", ["no-first-record", "no-signal", "deaf-to-policy", "newest-first", "half-removed"])
def test_where_a_mistake_shows_the_published_script_keeps_the_promise(name: str, fake: Server) -> None:
    one = mistake(name)
    assert (
        explore(one.world, server=fake, crashes=min(one.world.faults.crashes, 1)).verdicts[one.breaks].word == "holds"
    )


@pytest.mark.parametrize("name", ["trim-before-delivery", "children-first", "claim-unasked"])
def test_a_mistake_of_the_host_replays_by_its_name(name: str, fake: Server) -> None:
    one = mistake(name)
    violation = explore_mistake(one, server=fake).verdicts[one.breaks].violation
    assert violation is not None
    assert replay(violation.history.as_json(), server=fake).confirmed


def test_every_promise_is_broken_by_something_so_that_a_silent_one_would_be_noticed() -> None:
    page = verdicts.rows((Path(__file__).parent.parent / "docs" / "verdicts.md").read_text(encoding="utf-8"))
    crossed = {promise for promise in promises.names() for row in page.values() if row[promise] == "✗"}
    assert {one.breaks for one in MISTAKES.values()} | crossed == set(promises.names())


def test_every_script_of_the_zoo_belongs_to_a_mistake_and_marks_it() -> None:
    from emqkit.scripts import patches

    said = {name: one.says for name, one in MISTAKES.items() if one.scripts != "published"}
    assert {patch.name: patch.summary for patch in patches()} == said
    for patch in patches():
        assert "\n".join(patch.sections).count("MISTAKE") == 1


# --- the command line ------------------------------------------------------------------------------------------------


def test_the_list_names_every_scenario_with_its_actors_and_faults(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", "--list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["scenarios"]
    assert [one["name"] for one in listed] == list(SCENARIOS)
    assert listed[0]["name"] == "flagship" and "pump of stock" in listed[0]["actors"]
    assert listed[0]["faults"] == "2 crashes, 1 lost reply, 1 lapse"
    assert main(["explore", "--list"]) == 0
    assert "two Pumps sweep one queue" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["pump-crashes", "--crashes", "1"], 0),
        (["two-pumps"], 1),
        (["pump-crashes", "--max-depth", "3"], 2),
        (["no-such-world"], 2),
        (["two-pumps", "--scripts", "no/such/folder"], 2),
        ([], 2),
    ],
)
def test_the_exit_status_says_holds_broken_or_unknown(
    arguments: list[str], status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explore", *arguments]) == status
    said = capsys.readouterr()
    assert said.out or said.err


def test_a_history_saved_by_the_command_line_replays_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "history.json")
    assert main(["explore", "two-pumps", "--json", "--save", file, "--promise", "P3"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["verdict"] == "broken" and answer["promises"]["P3"]["verdict"] == "broken"
    assert answer["states"] > 0 and len(answer["fingerprint"]) == 64
    assert main(["replay", file]) == 1
    assert "So P3 is broken" in capsys.readouterr().out
    assert main(["replay", str(tmp_path / "none.json")]) == 2


# --- in pytest -------------------------------------------------------------------------------------------------------


def test_the_fixture_explores_and_fails_with_the_history(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        pytest_plugins = ["emqkit.sim.pytest_plugin"]

        def test_that_holds(explored):
            explored("pump-crashes", crashes=1).holds("P3", "P5")

        def test_that_is_broken(explored):
            explored("two-pumps").holds("P3")

        def test_that_is_unknown(explored):
            explored("pump-crashes", max_depth=3).holds("P3")
        """
    )
    outcome = pytester.runpytest_inprocess("-p", "no:randomly", "-p", "no:cacheprovider")
    outcome.assert_outcomes(passed=1, failed=2)
    outcome.stdout.fnmatch_lines(
        ["*P3 broken after 17 moves*", "*17. Pump of stock 2, pump.sweep: LTRIM trims 1 entry*"]
    )
    outcome.stdout.fnmatch_lines(["*P3 no drop: unknown. No violation up to depth 3*"])
