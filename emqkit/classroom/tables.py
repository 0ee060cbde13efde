"""Marks as tables: for a spreadsheet (CSV) and to be looked at (HTML)."""

from __future__ import annotations

import csv
import html
import io
from collections import Counter
from collections.abc import Iterable, Sequence

from emqkit.classroom.exercises import EXERCISES
from emqkit.classroom.grade import Mark, Marked

__all__ = ["as_csv", "as_html", "summary"]

ISOLATED = "isolated: no files of others, no processes, no network"


def as_csv(marked: Iterable[Marked]) -> str:
    """One line for each exercise of each student."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["student", "exercise", "met", "mistake", "says", "isolated"])
    for one in marked:
        for mark in one.marks:
            row = [one.student, mark.exercise, int(mark.met), mark.mistake, mark.says, one.unconfined or "yes"]
            writer.writerow([_harmless(cell) for cell in row])
    return out.getvalue()


def _harmless(cell: object) -> object:
    """A cell that no spreadsheet takes for a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@", "\t", "\r") else cell


def summary(marked: Sequence[Marked]) -> list[str]:
    """A line for each exercise: how many met it, and the commonest mistakes."""
    lines = []
    for name in EXERCISES:
        marks = _of(marked, name)
        if marks:
            lines.append(f"{name:18} {sum(m.met for m in marks):4} of {len(marks):<4} {_commonest(marks)}")
    return lines


def _of(marked: Sequence[Marked], exercise: str) -> list[Mark]:
    return [mark for one in marked for mark in one.marks if mark.exercise == exercise]


def _commonest(marks: Sequence[Mark]) -> str:
    counted = Counter(mark.mistake or "otherwise" for mark in marks if not mark.met)
    return ", ".join(f"{mistake} ({count})" for mistake, count in counted.most_common(3))


def as_html(marked: Sequence[Marked]) -> str:
    """A page with a table of the exercises and one of the students."""
    present = [name for name in EXERCISES if _of(marked, name)]
    exercises = "".join(
        f"<tr><th scope=row>{name}<td>{sum(m.met for m in marks)} of {len(marks)}<td>{html.escape(_commonest(marks))}"
        for name in present
        for marks in [_of(marked, name)]
    )
    students = "".join(_row(one, present) for one in marked)
    heads = "".join(f"<th scope=col>{name}" for name in present)
    how = sorted({one.unconfined for one in marked})
    isolated = "; ".join(f"not isolated: {html.escape(why)}" if why else ISOLATED for why in how)
    of_exercises = "<tr><th scope=col>exercise<th scope=col>met<th scope=col>commonest mistakes"
    of_students = f"<tr><th scope=col>student<th scope=col>met{heads}<th scope=col>notes"
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>Marks</title><style>body{font:15px/1.4 system-ui}"
        "table{border-collapse:collapse;margin:1em 0}td,th{border:1px solid #999;padding:.2em .5em;text-align:left}"
        f"</style><h1>Marks</h1><p>{len(marked)} submissions, each in a process of its own; {isolated}."
        f"<h2>Exercises</h2><table>{of_exercises}{exercises}</table>"
        f"<h2>Students</h2><table>{of_students}{students}</table></html>\n"
    )


def _row(one: Marked, present: Sequence[str]) -> str:
    by_name = {mark.exercise: mark for mark in one.marks}
    cells = "".join(_cell(by_name.get(name)) for name in present)
    notes = html.escape("; ".join(one.notes))
    return f"<tr><th scope=row>{html.escape(one.student)}<td>{one.met} of {len(one.marks)}{cells}<td>{notes}"


def _cell(mark: Mark | None) -> str:
    if mark is None:
        return "<td>"
    return f'<td title="{html.escape(mark.says)}">{"met" if mark.met else html.escape(mark.mistake or "not met")}'
