"""The explorer's command line says what was promised, and refuses in one sentence what it cannot do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from emqkit.__main__ import main
from emqkit.errors import BadArgument
from emqkit.sim import SCENARIOS, History, Violation, explore, scenario
from emqkit.sim.promises import PROMISES


def test_every_verdict_is_told_with_what_was_promised(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", "lapses"]) == 1
    told = capsys.readouterr().out.splitlines()
    assert "  P2 held: holds — no claim hands out a parent with an outstanding child" in told
    broken = next(n for n, line in enumerate(told) if line.startswith("  P3 no drop: broken. pick completed"))
    assert told[broken + 1].startswith("    promised: a child's outcome is in its parent's hashes")


def test_the_promises_are_listed_with_title_and_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", "--promises"]) == 0
    assert capsys.readouterr().out.startswith("P1 all or nothing\n    One move takes")
    assert main(["explore", "--promises", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["promises"]
    assert listed == [{"name": one.name, "title": one.title, "says": one.says} for one in PROMISES]


@pytest.mark.parametrize(("file", "says"), [("none/x.json", "there is no folder"), (".", "that is a folder")])
def test_a_file_that_cannot_be_saved_is_refused_before_exploring(
    file: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explore", "lapses", "--save", str(tmp_path / file)]) == 2
    said = capsys.readouterr()
    assert not said.out and says in said.err and said.err.endswith("Nothing was explored.\n")


def test_a_write_that_fails_loses_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*given: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("emqkit.sim.cli.save", full)
    assert main(["explore", "lapses", "--save", str(tmp_path / "x.json")]) == 2
    said = capsys.readouterr()
    assert "P3 broken after 6 moves" in said.out
    assert said.err.endswith("cannot be written (No space left on device).\n") and "was not saved" in said.err


def test_a_promise_that_does_not_exist_is_refused_before_exploring(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", "lapses", "--promise", "P99"]) == 2
    said = capsys.readouterr()
    assert not said.out and "no promise P99" in said.err and "P1, P2" in said.err and "P16" in said.err


def test_a_promise_that_holds_has_no_history_and_the_broken_ones_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.json"
    assert main(["explore", "lapses", "--promise", "P4", "--save", str(file)]) == 1
    assert "P4 holds, so there is no history of it; broken: P3.\n" in capsys.readouterr().err
    assert not file.exists()
    assert main(["explore", "lapses", "--promise", "P1"]) == 1
    assert "P1 is not tried here, so there is no history of it; broken: P3.\n" in capsys.readouterr().err
    assert main(["explore", "failures", "--save", str(file)]) == 0
    assert "There is no history to save: nothing is broken.\n" in capsys.readouterr().err


def test_one_promise_is_told_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", "climbing", "--promise", "P9"]) == 1
    told = capsys.readouterr().out
    assert "P9 broken after" in told and "P3" not in told and "P11" not in told


def test_a_misspelt_scenario_is_met_with_the_nearest_name() -> None:
    with pytest.raises(BadArgument, match="did you mean pump-crashes\\?"):
        scenario("pump-crashs")
    with pytest.raises(BadArgument, match="--list") as refused:
        scenario("zzzz")
    assert "did you mean" not in str(refused.value) and str(len(SCENARIOS)) in str(refused.value)


@pytest.mark.parametrize("count", ["x", "16", "-1", "1.5", "²"])
def test_a_budget_that_is_no_count_is_refused_in_words(count: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["explore", "lapses", f"--crashes={count}"])
    said = capsys.readouterr().err
    assert ended.value.code == 2 and "a whole number from 0 to 15" in said and "_count" not in said


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("# a page", "is not an emqkit history: it is not JSON."),
        (
            "{}",
            "is not an emqkit history: it does not say 'emqkit history 1'; `emqkit explore SCENARIO --save FILE` "
            "writes such files.",
        ),
        (
            '{"format": "emqkit history 1"}',
            "is not an emqkit history: its scenario cannot be read; `emqkit explore SCENARIO --save FILE` "
            "writes such files.",
        ),
        (
            '{"format": "emqkit history 1", "scenario": "lapses", "scripts": "published", "faults": {}, '
            '"promise": "P3", "moves": 3}',
            "is not an emqkit history: its moves are not a list of up to 10000; `emqkit explore SCENARIO --save FILE` "
            "writes such files.",
        ),
        (None, "cannot be read: No such file or directory."),
    ],
)
def test_what_is_no_history_is_not_replayed(
    text: str | None, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.json"
    if text is not None:
        file.write_text(text)
    assert main(["replay", str(file)]) == 2
    assert capsys.readouterr().err == f"{file} {says}\n"


def test_the_gaps_that_were_not_hit_are_named_where_hitting_was_tried() -> None:
    (line,) = [line for line in explore("pump-crashes", crashes=1).text.splitlines() if "not hit" in line]
    assert line.startswith("  not hit: jobs.claim between start and HEXISTS; ") and line.count(" between ") == 3
    assert "not hit" not in explore("lapses").text  # neither a crash nor a lost reply is in its budget


def test_the_fingerprint_is_told_with_its_use() -> None:
    result = explore("lapses")
    assert f"  fingerprint {result.fingerprint} (to compare runs)" in result.text


def test_one_move_is_told_in_the_singular() -> None:
    history = explore("lapses").violations[0].history
    one = History(history.world, history.scripts, history.server_kind, history.initial, history.moves[:1])
    assert str(Violation("P3", "it is gone", one)) == "P3 broken after 1 move: it is gone."


@pytest.mark.parametrize("option", ["--max-states=0", "--max-states=-1", "--max-depth=-1", "--max-depth=x"])
def test_a_bound_that_is_no_count_is_refused_in_words(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["explore", "lapses", option])
    said = capsys.readouterr().err
    assert ended.value.code == 2 and "is not a whole number of 1 or more" in said and "_most" not in said


@pytest.mark.parametrize("error", [BadArgument("x", 1, "is wrong"), ValueError("boom")])
def test_what_goes_wrong_on_the_way_is_never_told_as_broken(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*given: object, **named: object) -> None:
        raise error

    monkeypatch.setattr("emqkit.sim.cli.run_explore", fails)
    monkeypatch.setattr("emqkit.sim.cli.run_replay", fails)
    assert main(["explore", "lapses"]) == 2
    assert main(["replay", "x.json"]) == 2
    assert str(error) in capsys.readouterr().err


def test_a_reader_that_goes_away_meets_no_traceback() -> None:
    command = [sys.executable, "-m", "emqkit", "explore", "--list"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 2


def test_what_no_script_set_states_is_told_and_takes_no_part_in_the_whole_verdict() -> None:
    result = explore("same-queue")
    leftovers = result.verdicts["P16"]
    assert leftovers.word == "unknown" and leftovers not in result.judged and result.exit_status == 0
    assert "  P16 leftovers: unknown. The script set published states neither for how long" in result.text
    assert "P16" not in next(line for line in result.text.splitlines() if "not tried here: P" in line)
