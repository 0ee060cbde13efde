"""A player in a blank page: shown with a stub of a model, and read back step by step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from stage_reading import moments, shown

from emqkit.keyspace import Keyspace
from emqkit.snapshot import Snapshot
from emqkit.viz.film import TRIPS, Film
from emqkit.viz.stage import LANES, Fact
from emqkit.widgets import StepPlayer

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

# A model as a widget manager gives one, and nothing else of Jupyter's.
STUB = """
window.saved = 0;
window.makeModel = state => {
    const heard = {};
    return {
        get: name => state[name],
        set(name, value) {
            if (state[name] === value) return;
            state[name] = value;
            (heard['change:' + name] || []).forEach(act => act());
        },
        on(event, act) { (heard[event] = heard[event] || []).push(act); },
        off() {},
        save_changes() { window.saved += 1; },
    };
};
window.show = (model, place) => {
    const el = document.createElement('div');
    document.querySelector(place || 'main').append(el);
    return window.player.render({ model, el });
};
"""

# Everything the player shows of each of these frames, its drawers opened one after the other.
READ = """frames => {
    const root = document.querySelector('.emqkit-player');
    const text = node => node ? node.textContent : '';
    const own = node => !node ? '' : [...node.childNodes].filter(one => !one.className).map(text).join('');
    const mark = (node, kind = 'emqkit-is-') =>
        ['new', 'gone', 'changed'].find(one => node.classList.contains(kind + one)) || '';
    const open = name => {
        const handle = [...root.querySelectorAll('.emqkit-handle')].find(one => one.textContent === name);
        if (handle.getAttribute('aria-expanded') !== 'true') handle.click();
        return root.querySelector('.emqkit-panel');
    };
    const tables = panel => [...panel.querySelectorAll('table')].map(table => [
        text(table.caption),
        [...table.querySelectorAll('tbody tr')].map(
            ({ cells: [name, ...rest] }) => [mark(name), own(name), ...rest.map(text)]
        ),
    ]);
    return frames.map(frame => {
        model.set('index', frame);
        const lanes = [];
        const counts = {};
        const outbox = {};
        const signals = [];
        const crowds = [];
        for (const queue of root.querySelectorAll('.emqkit-queue')) {
            const name = text(queue.querySelector('h4'));
            counts[name] = [...queue.querySelectorAll('.emqkit-badge')].map(own);
            for (const lane of queue.querySelectorAll('.emqkit-lane')) {
                const which = [...lane.classList].map(one => /^emqkit-lane-(.+)/.exec(one)).find(Boolean);
                const chips = [...lane.querySelectorAll('.emqkit-chip')];
                if (which) crowds.push([name, which[1], text(lane.querySelector('.emqkit-lane-name .emqkit-soft'))]);
                else if (lane.classList.contains('emqkit-outbox'))
                    signals.push(...chips.map(one =>
                        [name, text(one.querySelector('b, s')), own(one.querySelector('.emqkit-note'))]));
                if (which) lanes.push([name, which[1], chips.map(chip => [
                    text(chip.querySelector('b, s')), text(chip.querySelector('.emqkit-note')), mark(chip),
                    chip.querySelectorAll('.emqkit-done').length + chip.querySelectorAll('.emqkit-ignored').length,
                ])]);
                else if (lane.classList.contains('emqkit-outbox')) outbox[name] = chips.map(one => mark(one));
            }
        }
        const code = name => {
            const panel = open(name);
            return {
                lines: [...panel.querySelectorAll('[aria-current]')].map(one => one.value),
                head: [...panel.querySelectorAll('h5')].map(text),
                values: [...panel.querySelectorAll('table')].map(table => [
                    text(table.caption), [...table.rows].map(row => [...row.cells].map(text)),
                ]),
                next: [...panel.querySelectorAll('.emqkit-next')].map(one => one.value),
            };
        };
        return {
            status: text(root.querySelector('.emqkit-status')),
            where: text(root.querySelector('.emqkit-where')),
            count: text(root.querySelector('.emqkit-count')),
            slider: root.querySelector('.emqkit-slider').value,
            off: [...root.querySelectorAll('.emqkit-bar [aria-disabled=true]')].map(text),
            first: [...root.querySelectorAll('.emqkit-changes .emqkit-line')].map(own),
            acts: [...root.querySelectorAll('.emqkit-acts b')].map(text),
            crashed: [...root.querySelectorAll('.emqkit-crashed b')].map(text),
            memory: [...root.querySelectorAll('.emqkit-memory')].map(text),
            lapsed: [...root.querySelectorAll('.emqkit-memory s')].map(text),
            lanes, counts, outbox, crowds, signals,
            ticks: [...root.querySelectorAll('.emqkit-ticks i')].map(one => one.className),
            rows: tables(open('rows and hashes')),
            keys: tables(open('keys')),
            words: [...open('all changes').querySelectorAll('li')].map(one => [mark(one, 'emqkit-'), own(one)]),
            lua: code('the Lua that ran'),
            host: code("the host's line"),
        };
    });
}"""

SAID = {"+": "new", "-": "gone", "~": "changed"}


@dataclass
class Shown:
    """A page with players of stub models."""

    page: Page
    errors: list[str]

    def root(self, nth: int = 0) -> Locator:
        return self.page.locator(".emqkit-player").nth(nth)

    def says(self, nth: int = 0) -> str:
        return self.root(nth).locator(".emqkit-status").inner_text()

    def press(self, *pressed: str, nth: int = 0) -> None:
        self.root(nth).focus()
        for key in pressed:
            self.page.keyboard.press(key)

    def button(self, name: str, nth: int = 0) -> Locator:
        return self.root(nth).get_by_role("button", name=name, exact=True)

    def index(self) -> int:
        return int(self.page.evaluate("() => model.get('index')"))


def put(
    shown: Shown, player: StepPlayer, *, twins: int = 0, theme: str = "light", js: str = "", style: str = ""
) -> None:
    """Show a player, and its twin above it as often as asked; with other JavaScript and more style, if given."""
    state = {name: getattr(player, name) for name in ("payload", "index", "shows", "twin_key")} | {"playing": False}
    module = (js or player._esm).replace("export default { render };", "window.player = { render };")
    shown.page.set_content(
        f"<!doctype html><meta charset='utf-8'><style>body {{ margin: 12px }} {player._css} {style}</style>"
        f"<body data-jp-theme-light='{'true' if theme == 'light' else 'false'}'>"
        f"{player.twin() * twins}<main></main><aside></aside>"
    )
    # in a block: the page keeps what an earlier script declared, whatever its content is now
    shown.page.add_script_tag(content=f"{STUB}{{{module}}}")
    shown.page.evaluate("state => { window.model = makeModel(state); window.cleanup = show(model); }", state)
    shown.root().locator(".emqkit-queues").first.wait_for()


def walk(frames: int) -> list[int]:
    """An order that goes forwards, backwards and to and fro, and comes to every frame."""
    there = list(range(frames))
    jumps = [at for step in range(frames // 2) for at in (step, frames - 1 - step)]
    return [*there, *reversed(there), *jumps]


def differences(page: Page, player: StepPlayer, order: list[int] | None = None) -> list[str]:
    """Step through a player of a trace without lines; each way in which the page is not what trace and frames say."""
    order = walk(len(player)) if order is None else order
    wanted = list(_wanted(player))
    found = page.evaluate(READ, order)
    wrong = []
    for place, (at, seen) in enumerate(zip(order, found, strict=True)):
        seen |= {"rows": _rows(seen["rows"]), "fans": _fans(seen["rows"]), "tables": seen["rows"]}
        seen |= {"cells": _cells(seen["tables"]), "counters": _counters(seen["tables"])}
        seen["sizes"] = {key: said for _, rows in seen["keys"] for _, key, said in rows}
        seen["keys"] = {(mark, key) for _, rows in seen["keys"] for mark, key, _ in rows}
        for name, value in wanted[at].items():
            if seen[name] != value:
                wrong.append(f"look {place}, frame {at}, {name}: {seen[name]!r} instead of {value!r}")
    return wrong


def noticed(shown: Shown, player: StepPlayer, js: str, style: str) -> bool:
    """Is it noticed that a player runs this JavaScript, by what it shows on the way through its frames and back?"""
    from playwright.sync_api import Error

    order = [*range(len(player)), *reversed(range(len(player)))]
    shown.errors.clear()
    try:
        put(shown, player, js=js, style=style)
        pieces = (order[at : at + 16] for at in range(0, len(order), 16))
        return any(differences(shown.page, player, piece) for piece in pieces) or bool(shown.errors)
    except Error:  # the page broke, or never came
        return True
    finally:
        shown.errors.clear()


def _rows(tables: list[Any]) -> set[tuple[str, ...]]:
    """The tables of rows as (queue, id, mark, state, attempts, payload)."""
    found = [(head.removeprefix("rows of "), rows) for head, rows in tables if head.startswith("rows of ")]
    return {(queue, row[2], row[0], *row[3:6]) for queue, rows in found for row in rows}


def _fans(tables: list[Any]) -> set[tuple[str, ...]]:
    """The tables of hashes as (parent, child, hash, mark)."""
    found = [(head[10:].rpartition(", counter ")[0], rows) for head, rows in tables if head.startswith("fan-in of ")]
    return {(parent, child, hash, mark) for parent, rows in found for mark, child, hash, _ in rows}


COLUMNS = ("state", "attempts", "payload", "parent", "parent_queue", "parent_policy")


def _cells(tables: list[Any]) -> dict[tuple[str, str], list[Any]]:
    """The tables of rows, every cell: by (queue, id) the six columns and, sorted, what stands in the last."""
    found = {}
    for head, rows in tables:
        if head.startswith("rows of "):
            for row in rows:
                found[head.removeprefix("rows of "), row[2]] = [*row[3:9], sorted(filter(None, row[9].split(", ")))]
    return found


def _counters(tables: list[Any]) -> dict[str, str]:
    """What the headings of the fan-in tables say: parent → counter."""
    heads = (head[10:].rpartition(", counter ") for head, _ in tables if head.startswith("fan-in of "))
    return {parent: counter for parent, _, counter in heads}


def _earlier(film: Film, at: int, stages: list[dict[Fact, str]]) -> dict[Fact, str]:
    """The facts that a frame's changes are counted from: those of an earlier frame, and what others did since."""
    if at == 0:
        return dict(stages[0])
    facts = dict(stages[film.frames[at].since])
    for frame in film.frames[film.frames[at].since + 1 : at + 1]:
        for fact, value in frame.ops[: frame.meanwhile]:
            facts.pop(fact, None) if value is None else facts.__setitem__(fact, value)
    return facts


def _told_by_facts(film: Film, was: dict[Fact, str], now: dict[Fact, str]) -> dict[str, Any]:
    """What tables, headings and outboxes say, from the facts before a frame and after it."""

    def changed(fact: Fact) -> str:
        old, new = was.get(fact), now.get(fact)
        if new is None:
            return f"− {old}"
        return new if old in (None, new) else f"{old} → {new}"

    cells: dict[tuple[str, str], list[Any]] = {}
    for fact in (fact for fact in was | now if fact[0] == "row"):
        line = cells.setdefault(fact[1:3], [*[""] * len(COLUMNS), []])
        if fact[3] in COLUMNS:
            line[COLUMNS.index(fact[3])] = changed(fact)
        else:
            line[-1] = sorted([*line[-1], f"{fact[3]}: {changed(fact)}"])
    sizes = {}
    for fact in (fact for fact in was | now if fact[0] == "key"):
        said = changed(fact)
        sizes[fact[1]] = f"gone; was {was[fact]}" if fact not in now else said
    parents = {fact[1:3] for fact in now if fact[0] == "in"}
    signals = []
    for queue in film.queues:
        boxed = sorted((fact for fact in was | now if fact[:2] == ("box", queue)), key=lambda fact: int(fact[2]))
        for fact in boxed:
            kind, child, parent, _, rest = now.get(fact, was.get(fact, "")).split("\t")
            note = f"for {parent}{f' · {rest}' if kind == 'died' else ''}" if parent else ""
            signals.append([queue, f"{kind}: {child}", note])
    lanes = [
        [queue, lane, sum(fact[:3] == ("set", queue, lane) for fact in now)]
        for queue in film.queues
        for lane in [one for one in LANES if film.peaks.get((queue, one))] or ["pending"]
    ]
    return {
        "cells": cells,
        "sizes": sizes,
        "counters": {film.names(id): now["fan", queue, id].split("\t")[0] for queue, id in parents},
        "signals": signals,
        "crowds": [[queue, lane, str(count) if count > 1 else ""] for queue, lane, count in lanes],
    }


def _ticks(player: StepPlayer) -> list[str]:
    """The marks on the slider: what is to be found again, and where calls lie between that changed nothing."""
    frames, stops = player.film.frames, player.stops
    found = [""]
    for last, at in pairwise(stops):
        event = next((frames[one].event for one in range(at, last, -1) if frames[one].event), "")
        found.append(f"emqkit-event emqkit-{event}" if event else "emqkit-quiet" if _quiet(player, last, at) else "")
    return found


def _wanted(player: StepPlayer) -> Iterator[dict[str, Any]]:
    film, stops = player.film, player.stops
    boxed = {fact[1] for frame in film.frames for fact, _ in frame.ops if fact[0] == "box"}
    stages = [dict(facts) for facts, _ in film.stages()]
    ticks = _ticks(player)
    for at, (frame, (before, after)) in enumerate(zip(film.frames, moments(player.trace), strict=True)):
        page = shown(before, after, film.names)
        place = sum(stop <= at for stop in stops) - 1
        between = stops[place] != at
        quiet = 0 if between or not place else _quiet(player, stops[place - 1], at)
        lanes = []
        for queue in film.queues:
            for lane in [one for one in LANES if film.peaks.get((queue, one))] or ["pending"]:
                chips = page.lanes.get((queue, lane), [])
                lanes.append([queue, lane, [[*chip, _done(after, film, queue, lane, chip)] for chip in chips]])
        held, lapsed = _memory(film, stages[at])
        excerpts = [] if frame.host is None else film.paths[frame.host]
        script = None if frame.source is None else film.sources[frame.source]
        tables = [["ARGV", frame.argv], ["KEYS", frame.keys]] if script else []
        yield _told_by_facts(film, _earlier(film, at, stages), stages[at]) | {
            "ticks": ticks,
            "status": frame.sentence,
            "where": frame.where + (f" · after {quiet} quiet call{'s' if quiet > 1 else ''}" if quiet else ""),
            "count": f"step {place}{'+' if between else ''} of {len(stops) - 1}",
            "slider": str(place),
            "off": _off(player, at),
            "first": [words for _, words in frame.diff[:3]],
            "words": [[SAID[mark], words] for mark, words in frame.diff],
            "acts": [] if frame.actor is None else [film.actors[frame.actor]],
            "crashed": [one for n, one in enumerate(film.actors) if ("who", str(n), "state") in stages[at]],
            "memory": held,
            "lapsed": lapsed,
            "lanes": lanes,
            "counts": {queue: page.counts.get(queue, []) for queue in film.queues},
            "outbox": {queue: page.outbox.get(queue, []) for queue in film.queues if queue in boxed},
            "rows": page.rows,
            "fans": page.fans,
            "keys": page.keys,
            "host": {
                "lines": [n for one in excerpts for n, _ in one.lines if one.marked[0] <= n <= one.marked[1]],
                "head": [f"{one.name} waits in line {one.marked[0]}" for one in excerpts],
                "values": [],
                "next": [],
            },
            "lua": {
                "lines": [],
                "head": [f"{script.name}.lua the whole script, in one step"] if script else [],
                "values": [[title, [list(pair) for pair in pairs]] for title, pairs in tables if pairs],
                "next": [],
            },
        }


def _quiet(player: StepPlayer, last: int, at: int) -> int:
    """How many calls lie between two stops, a flush's summary not counted."""
    frames = player.film.frames
    return sum(
        frames[one].level == TRIPS and not (frames[one].depth == 0 and frames[one - 1].depth == 1)
        for one in range(last + 1, at)
    )


def _off(player: StepPlayer, at: int) -> list[str]:
    """The buttons of the bar that lead nowhere."""
    last, stops = len(player) - 1, player.stops
    names = [*(["First", "Back"] if at == 0 else []), *(["Forward", "Last"] if at == last else [])]
    assert stops[0] == 0 and stops[-1] == last
    depths = [frame.depth for frame in player.film.frames]
    names += ["Into"] if at == last else []
    names += ["Over"] if not any(depth <= depths[at] for depth in depths[at + 1 :]) else []
    return names + (["Out"] if not any(depth < depths[at] for depth in depths[at + 1 :]) else [])


def _memory(film: Film, facts: Mapping[Fact, str]) -> tuple[list[str], list[str]]:
    """What stands in each actor's box, and what of it is struck through."""
    told, struck = [], []
    for number in range(len(film.actors)):
        own = {fact[2:]: value for fact, value in facts.items() if fact[:2] == ("who", str(number))}
        claims = [(fact[1:], lapsed) for fact, lapsed in own.items() if fact[0] == "holds"]
        claims.sort(key=lambda one: (film.names(one[0][0]), int(one[0][1])))
        if not claims:
            told.append(own["does",])
            struck += [own["does",]] if ("state",) in own else []
            continue
        said = [f"{film.names(id)}, token {token}{' lapsed' if lapsed else ''}" for (id, token), lapsed in claims[:2]]
        more = f" and {len(claims) - 2} more" if len(claims) > 2 else ""
        told.append(f"holds {', '.join(said)}{more}")
        struck += [f"{film.names(id)}, token {token}" for (id, token), lapsed in claims[:2] if lapsed]
    return told, struck


def _done(after: Snapshot, film: Film, queue: str, lane: str, chip: tuple[str, str, str]) -> int:
    """How many dots of a held parent's chip are filled."""
    if lane != "held" or chip[2] == "gone":
        return 0
    parents = Keyspace.of(after)[queue].parents
    fan = next((fan for id, fan in parents.items() if film.names(id) == chip[0]), None)
    return 0 if fan is None else len(fan.processed) + len(fan.unsuccessful)
