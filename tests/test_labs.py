"""The labs: a button does what its verb does, the sentence says how things stand, and what must not count does not."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from html import unescape
from typing import Any

import pytest
from ipywidgets import Button, Widget

from emqkit import Child, Flow, Flows, Jobs, Minter, Pump, Trace, keys, open_server
from emqkit.errors import BadArgument, IllFormedQueue, ReplyLost, Unreachable
from emqkit.scripts import Script, ScriptSet
from emqkit.servers import Server
from emqkit.snapshot import Snapshot, capture, restore
from emqkit.widgets import BulkLedger, CounterLab, OutboxLab, PumpCrashLab
from emqkit.widgets.lab import Crashes, Lab, Table, Tape
from emqkit.wire import Flush, Reply

FOREIGN, OTHER = "USR0KHTOWnGLuC", "USR0NgWEfAEJfs"


def buttons(lab: Lab) -> dict[str, Button]:
    """Every button of a lab by its name."""

    def walk(widget: Widget) -> Iterator[Button]:
        if isinstance(widget, Button):
            yield widget
        for child in getattr(widget, "children", ()):
            yield from walk(child)

    return {button.description: button for button in walk(lab)}


def click(lab: Lab, name: str) -> str:
    """Press a button as a browser would; what the lab says then."""
    buttons(lab)[name].click()
    return repr(lab)


@pytest.fixture
def fresh(private_server: Server) -> Server:
    """An empty server of ours whose ids are always the same."""
    private_server.minter = Minter.fixed()
    return private_server


def batch() -> list[Flow]:
    """Two flows that land, one refused whole, one left held, one of no shape."""
    return [
        Flow("order 1", [Child("pick"), Child("pack")]),
        Flow("order 2", [Child("pick"), Child("pack", id=FOREIGN)]),
        Flow("order 3", [Child("label", queue="labels")]),
        Flow("order 4", [Child("label", queue="labels"), Child("pay", queue="payments", id=OTHER)]),
        Flow("order 5", []),
    ]


@pytest.fixture
def ledger(fresh: Server) -> BulkLedger:
    return BulkLedger(Trace.of(Flows(fresh).add_bulk.program("orders", batch()), fresh))


# --- every lab --------------------------------------------------------------------------------------------------------

LABS: dict[str, Callable[[Server], Lab]] = {
    "bulk": lambda server: BulkLedger(Trace.of(Flows(server).add_bulk.program("orders", batch()), server)),
    "counter": lambda server: CounterLab(3, server=server),
    "outbox": OutboxLab,
    "pump": PumpCrashLab,
}


@pytest.fixture(params=LABS)
def any_lab(request: pytest.FixtureRequest, fresh: Server) -> Iterator[Lab]:
    lab = LABS[request.param](fresh)
    yield lab
    lab.close()


def test_its_repr_is_its_sentence_and_is_what_the_status_line_says(any_lab: Lab) -> None:
    assert repr(any_lab) == any_lab.sentence == unescape(any_lab._line.value) != ""
    assert repr(any_lab.sentence) == any_lab.sentence, "a verb's answer shows without quotation marks"
    for name in buttons(any_lab):
        assert click(any_lab, name) == any_lab.sentence == unescape(any_lab._line.value)


def test_every_button_has_a_name_in_words_and_no_icon(any_lab: Lab) -> None:
    for name, button in buttons(any_lab).items():
        assert name.strip() and name.isprintable() and not button.icon


def test_it_displays_its_twin_and_then_itself_as_two_outputs(any_lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[dict[str, Any]] = []
    monkeypatch.setattr("IPython.display.display", lambda data, **more: shown.append(data))
    any_lab._ipython_display_()
    twin, widget = shown
    assert set(twin) == {"text/html", "text/plain"}
    assert f'data-emqkit-twin="{any_lab.player.twin_key}"' in twin["text/html"]
    page = unescape(twin["text/html"])
    assert any_lab.sentence in page
    for table in any_lab.tables():
        assert table.caption in page and table.text() in twin["text/plain"]
        assert all(cell in page for row in table.rows for cell in row)
    assert widget["text/plain"] == any_lab.sentence
    assert "application/vnd.jupyter.widget-view+json" in widget
    assert "text/html" not in widget


def test_it_asks_nothing_of_the_outside_and_prints_into_no_output_widget(any_lab: Lab) -> None:
    import re

    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|@import|url\(", any_lab.twin())
    state = str(any_lab.children)
    assert "Output(" not in state


def test_two_labs_with_the_same_history_are_the_same_to_nbval(any_lab: Lab, request: pytest.FixtureRequest) -> None:
    kind = request.node.callspec.params["any_lab"]
    with open_server("fake://", minter=Minter.fixed()) as other:
        lab = LABS[kind](other)
        assert lab.twin() == any_lab.twin()
        assert lab.transcript() == any_lab.transcript()
        lab.close()


def test_a_lab_leaves_the_server_it_was_given_alone_and_does_not_mind_what_becomes_of_it(
    any_lab: Any, fresh: Server
) -> None:
    before = capture(fresh)
    assert any_lab.server is not fresh and any_lab.server.scripts is fresh.scripts
    for name in buttons(any_lab):
        click(any_lab, name)
    assert capture(fresh) == before
    restore(fresh, Snapshot())
    Flows(fresh).add("orders", Flow("somebody else's", [Child("pick")]))
    for name in reversed(buttons(any_lab)):
        click(any_lab, name)
    assert "somebody else's" not in any_lab.transcript()


def test_what_a_control_refuses_or_fails_with_is_said_at_once(any_lab: Any, caplog: pytest.LogCaptureFixture) -> None:
    def refuse() -> None:
        raise BadArgument("gap", 7, "is not there")

    def fail() -> None:
        raise ZeroDivisionError("one by none")

    any_lab.button("No", refuse).click()
    assert any_lab.sentence == "gap 7 is not there. Nothing was sent."
    assert "emqkit-lab-refused" in any_lab._line._dom_classes and not caplog.records
    any_lab.button("Worse", fail).click()
    assert any_lab.sentence == "This failed: ZeroDivisionError: one by none"
    assert caplog.records[-1].exc_info, "the traceback is there for whoever asks"
    any_lab._say("All is well.")
    assert "emqkit-lab-refused" not in any_lab._line._dom_classes


def test_a_dead_server_is_one_sentence(any_lab: Any) -> None:
    def gone(_: object) -> Any:
        raise Unreachable("fake://", "it has gone")

    any_lab.server.round_trip = gone
    for name in buttons(any_lab):
        said = click(any_lab, name)
        assert said and "failed:" not in said and "Traceback" not in said


def test_a_field_or_dropdown_that_is_refused_gets_its_value_back(fresh: Server) -> None:
    wrong = [
        (CounterLab(2, server=fresh), "_queue", "a{b", "ill-formed queue name"),
        (CounterLab(2, server=fresh), "_children", " , ", "1 to 8 payloads"),
        (PumpCrashLab(fresh), "_queue", "orders", "without a signal"),
        (PumpCrashLab(fresh), "_signals", "a,b,c,d,e,f,g,h,i", "1 to 8"),
    ]
    for lab, name, value, why in wrong:
        field = getattr(lab, name)
        before = field.value
        lab.complete() if isinstance(lab, CounterLab) else lab.crash()
        field.value = value
        assert why in lab.sentence and field.value == before
        assert "emqkit-lab-refused" in lab._line._dom_classes
        lab.complete() if isinstance(lab, CounterLab) else lab.finish()
        assert "emqkit-lab-refused" not in lab._line._dom_classes
        assert "Nothing" not in lab.sentence and lab.trace.error is None, "the old flow is there and works"
        lab.close()
    box = OutboxLab(fresh)
    box._names[2].value = "orders"
    assert "the other queue's name too" in box.sentence and box._names[2].value == "stock"
    assert box.complete(2).startswith("Child 2, take from shelf, is completed in stock: a signal waits")
    box.close()


def test_what_is_typed_into_a_field_lands_anew(fresh: Server) -> None:
    counter = CounterLab(3, server=fresh)
    counter._children.value = "pick, label"
    counter._queue.value = "parcels"
    counter._parent.value = "order 9"
    assert "0 of" not in counter.sentence and "The counter stands at 2 of 2" in counter.sentence
    assert "pick is completed" in counter.complete()
    assert counter.player.film.queues == ("parcels",)
    assert counter.set_flow(children=["weigh"]) and counter._children.value == "weigh"
    counter.close()

    box = OutboxLab(fresh)
    box._payloads[1].value = "pay"
    box._names[0].value = "ship order 8"
    box._names[1].value = "shop"
    box._names[2].value = "bank"
    assert box._places[1].options == ("shop", "bank") and box._places[1].value == "bank"
    assert box.die(2) == (
        "Child 2, pay, dies in bank: a signal waits in the outbox of bank. "
        "The parent is held and waits for 3; the outbox holds 1 signal."
    )
    assert box.tables()[0].rows[0][2:5] == ("shop", "ship order 8", "pay")
    assert box.sweep().startswith("The Pump delivers 1 signal and trims. The parent is dead")
    box.close()

    pump = PumpCrashLab(fresh, children="count, weigh")
    pump._queue.value = "warehouse"
    pump._signals.value = "weigh"
    assert pump.sentence.startswith("1 signal waits in the outbox of warehouse")
    assert pump.crash(3).startswith("The Pump crashes between flow_deliver of weigh and LTRIM.")
    pump.close()


def test_a_death_a_crash_and_a_lapse_leave_their_marks_on_the_stage(fresh: Server) -> None:
    def marked(lab: Any) -> list[tuple[str, str]]:
        return [(frame.event, frame.sentence) for frame in lab.player.film.frames if frame.event]

    counter, box = CounterLab(2, server=fresh), OutboxLab(fresh)
    counter.stale()
    assert marked(counter) == [("lapse", "The lease of item 1 in orders lapses: its worker is too slow.")]
    facts = [(dict(facts), marks) for facts, marks in counter.player.film.stages()]
    at = next(at for at, frame in enumerate(counter.player.film.frames) if frame.event)
    lapsed = [value for fact, value in facts[at][0].items() if fact[0] == "who" and fact[2] == "holds"]
    assert lapsed == ["lapsed"], "its holder is told that it may have lost it"
    assert [value for fact, value in facts[at][0].items() if fact[:3] == ("set", "orders", "active")] == [
        "token 1, lease lapsed"
    ]
    box.die(2)
    box.crash()
    assert [event for event, _ in marked(box)] == ["death", "death", "crash"], "the child's, its parent's, the Pump's"
    facts = [(dict(facts), marks) for facts, marks in box.player.film.stages()]
    crashed = box.player.film.actors.index("Pump of stock")
    assert facts[-1][0]["who", str(crashed), "state"] == "crashed"
    assert any(fact[:3] == ("set", "stock", "dead") for fact in facts[-1][0])
    counter.close()
    box.close()


# --- the bulk ledger --------------------------------------------------------------------------------------------------


def test_the_ledger_has_a_row_a_flow_in_input_order_with_what_landed(ledger: BulkLedger) -> None:
    assert ledger.sentence == "5 flows: 2 landed, 1 held, 2 absent."
    assert [row.outcome for row in ledger.rows] == ["landed", "absent", "landed", "held", "absent"]
    assert [len(row.landed_ids) for row in ledger.rows] == [3, 0, 2, 2, 0]
    assert [row.name for row in ledger.rows] == [f"order {n}" for n in range(1, 6)]
    assert [bool(row.reason) for row in ledger.rows] == [False, True, False, True, True]
    answer = ledger.tables()[1]
    assert [row[0] for row in answer.rows] == ["order 1", "order 3"], "the landed parents, in input order"


def test_choosing_a_row_takes_the_player_to_that_flows_own_round_trips(ledger: BulkLedger) -> None:
    said = {}
    for row in ledger.rows:
        assert click(ledger, f"Flow {row.number}: {row.name}").startswith(f"Flow {row.number}, {row.name}: ")
        said[row.number] = ledger.player.sentence
    assert said[1].startswith("enqueue_flow lands the flow of order 1")
    assert said[2].startswith("enqueue_flow is refused because of USR…GLuC")
    assert said[3].startswith("hold_parent lands order 3")
    assert said[4].startswith("hold_parent lands order 4")
    assert "refused" in said[5], "flow 5 sent nothing: the player stands where the batch stood"
    assert ledger.sentence.endswith("It has no round trip: it was refused before anything was sent.")
    trips = [row.trips for row in ledger.rows]
    assert trips[0][0] == 0 and all(one[1] == other[0] for one, other in itertools.pairwise(trips))
    assert trips[-1][1] == len(ledger.player.trace)


def test_a_retry_by_id_keeps_every_id_but_a_foreign_one_and_lands_what_was_held(ledger: BulkLedger) -> None:
    parent, landed = ledger.rows[3].landed_ids
    click(ledger, "Flow 4: order 4")
    assert click(ledger, "Retry by id").startswith("Flow 4, order 4: landed after 1 retry")
    row = ledger.rows[3]
    assert row.landed_ids[:2] == (parent, landed) and row.landed_ids[2].startswith("JOB")
    flows, jobs = Flows(ledger.server), Jobs(ledger.server)
    assert jobs.state("orders", parent) == "awaiting_children" and flows.dependencies("orders", parent) == 2
    assert jobs.state("payments", row.landed_ids[2]) == "pending"
    assert ledger.player.sentence.startswith("hold_parent finds order 4"), "the player is at the retry"
    assert ledger.player.frame.where.startswith("flows.add · round trip 1 of")
    assert click(ledger, "Retry by id") == "Flow 4, order 4, has landed: there is nothing to retry."


def test_a_retry_that_cannot_help_says_so_and_a_mended_flow_of_ones_own_can(ledger: BulkLedger) -> None:
    assert ledger.retry(5).startswith("Flow 5, order 5: absent after 1 retry; nothing of it is there. Why: no_children")
    with pytest.raises(BadArgument, match="another parent"):
        ledger.retry(5, Flow("order 5", [Child("pick")]))
    mended = Flow("order 5", [Child("pick")], id=ledger.rows[4].parent_id)
    assert ledger.retry(5, mended).startswith("Flow 5, order 5: landed after 2 retries")
    assert ledger.whole() == "5 flows: 3 landed, 1 held, 1 absent."
    assert ledger.player.index == 0


def test_a_retry_refused_later_than_before_leaves_what_it_landed_in_the_row(ledger: BulkLedger) -> None:
    row = ledger.rows[1]
    worse = Flow(
        "order 2", [Child("pick", queue="labels"), Child("pack", queue="labels", id="ORD0KHTOWnGLuC")], id=row.parent_id
    )
    assert ledger.retry(2, worse).startswith("Flow 2, order 2: held after 1 retry; parent and 1 of 2 children")


def test_a_retry_with_no_row_chosen_asks_for_one(ledger: BulkLedger) -> None:
    before = len(ledger.player.trace)
    assert click(ledger, "Retry by id").startswith("Choose a flow first")
    assert len(ledger.player.trace) == before


def test_a_batch_with_a_flow_twice_shows_the_second_as_absent_without_a_round_trip(fresh: Server) -> None:
    flow, other = (Flow(name, [Child("pick")]).with_ids(fresh.minter) for name in ("order", "other"))
    ledger = BulkLedger(Trace.of(Flows(fresh).add_bulk.program("orders", [flow, flow, other]), fresh))
    assert [row.outcome for row in ledger.rows] == ["landed", "absent", "landed"]
    assert [row.trips for row in ledger.rows] == [(0, 2), (2, 2), (2, 4)]


def test_a_flow_whose_reply_was_lost_is_unknown_and_a_retry_by_id_settles_it(
    fresh: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    through = fresh.round_trip
    landings: list[str] = []

    def losing(flush: Flush[Any]) -> tuple[Reply, ...]:
        replies = through(flush)
        landings.extend(call.verb for call in flush.calls if call.verb == "enqueue_flow")
        if len(landings) == 2 and flush.calls[0].verb == "enqueue_flow":
            raise ReplyLost(fresh.url, "enqueue_flow")
        return replies

    monkeypatch.setattr(fresh, "round_trip", losing)
    three = [Flow(f"order {n}", [Child("pick")]) for n in (1, 2, 3)]
    ledger = BulkLedger(Trace.of(Flows(fresh).add_bulk.program("orders", three), fresh))
    assert ledger.sentence == "3 flows: 2 landed, 1 unknown."
    assert [row.trips for row in ledger.rows] == [(0, 2), (2, 3), (3, 5)]
    ids = [str(child.id) for child in ledger.rows[1].flow.children]
    assert ledger.retry(2).startswith("Flow 2, order 2: landed after 1 retry")
    assert [str(child.id) for child in ledger.rows[1].flow.children] == ids
    assert Flows(ledger.server).dependencies("orders", ledger.rows[1].parent_id) == 1


def test_a_ledger_of_trees_finds_each_trees_round_trips(fresh: Server) -> None:
    tree = Flow("root", [Child("branch", children=[Child("leaf"), Child("alien", id=FOREIGN)])])
    plain = Flow("plain", [Child("pick")])
    ledger = BulkLedger(Trace.of(Flows(fresh).add_bulk.program("trees", [plain, tree, plain]), fresh))
    assert [row.outcome for row in ledger.rows] == ["landed", "held", "landed"]
    assert ledger.rows[1].landed == "parent and 2 of 3 children"
    ledger.choose(2)
    assert ledger.player.sentence.startswith("hold_parent lands")
    assert ledger.retry(2).startswith("Flow 2, root: landed after 1 retry")


def test_a_ledger_is_of_a_finished_add_bulk_only(fresh: Server) -> None:
    other = Trace.of(Flows(fresh).add.program("orders", Flow("order", [Child("pick")])), fresh)
    stopped = Trace.of(Flows(fresh).add_bulk.program("orders", batch()), fresh, stop_after=1)
    for wrong in (other, stopped):
        with pytest.raises(BadArgument, match="add_bulk"):
            BulkLedger(wrong)


@pytest.mark.parametrize("number", [0, 6, -1, True, "1"])
def test_a_flow_that_is_not_in_the_batch_is_refused_in_words(ledger: BulkLedger, number: Any) -> None:
    with pytest.raises(BadArgument, match="flows 1 to 5"):
        ledger.choose(number)


def test_an_empty_batch_is_an_empty_ledger(fresh: Server) -> None:
    ledger = BulkLedger(Trace.of(Flows(fresh).add_bulk.program("orders", []), fresh))
    assert ledger.sentence == "0 flows: none."
    assert "None landed." in ledger.twin()


# --- the counter ------------------------------------------------------------------------------------------------------


@pytest.fixture
def counter(fresh: Server) -> Iterator[CounterLab]:
    lab = CounterLab(3, server=fresh)
    yield lab
    lab.close()


def test_three_completions_take_the_counter_to_zero_and_release_the_parent(counter: CounterLab) -> None:
    for left in (2, 1, 0):
        said = click(counter, "Complete the next child")
        assert f"the counter goes {left + 1} → {left}. The counter stands at {left} of 3" in said
        assert counter.player.sentence.startswith("complete retires item"), "the player is at the completion itself"
    assert said.endswith("the parent is released, in pending.")
    assert click(counter, "Complete the next child").startswith("No child is left to complete.")
    assert click(counter, "Complete with a stale token").startswith("No child is left whose lease could lapse.")


def test_the_same_completion_again_and_a_stale_one_change_nothing(counter: CounterLab) -> None:
    assert click(counter, "Complete the same again").startswith("Nothing was completed yet")
    counter.complete()
    assert click(counter, "Complete the same again").startswith(
        "Completing item 1 once more is refused (JobGone): nothing changes, the counter does not move."
    )
    assert click(counter, "Complete with a stale token").startswith(
        "Completing item 2 with the stale token 1 is refused (StaleToken): nothing changes"
    )
    assert "EMQSTALE complete token mismatch" in counter.player.sentence
    for _ in range(2):
        counter.complete()
    assert counter.sentence.endswith("The counter stands at 0 of 3; the parent is released, in pending.")
    assert [row[3:] for row in counter.tables()[0].rows] == [
        ("done", "3 → 2"),
        ("JobGone", "2 → 2"),
        ("StaleToken", "2 → 2"),
        ("done", "2 → 1"),
        ("done", "1 → 0"),
    ]


def test_the_stair_falls_where_a_completion_counted_and_has_a_cross_where_not(counter: CounterLab) -> None:
    counter.complete()
    counter.again()
    counter.complete()
    counter.complete()
    drawn = counter.picture()
    assert (drawn.count('class="d-dot"'), drawn.count('class="d-cross"'), drawn.count('class="d-done"')) == (2, 1, 1)
    assert 'role="img" aria-label="The counter over 4 completions. The counter stands at 0 of 3' in drawn
    assert drawn in counter._panel.value and drawn in counter.twin()


def test_back_at_the_start_the_same_flow_is_there_anew(counter: CounterLab) -> None:
    start, twin = counter.sentence, counter.twin()
    counter.stale()
    assert counter.twin() != twin
    assert click(counter, "Back to the start") == start
    assert counter.twin() == twin


def test_the_counter_takes_a_flow_of_ones_own_and_refuses_one_it_cannot_show(fresh: Server) -> None:
    lab = CounterLab(Flow("mail", [Child("write"), Child("send")]), queue="mails", server=fresh)
    assert "2 of 2" in lab.sentence and "mails" in lab.complete() + lab.player.sentence
    lab.close()
    for wrong in (
        Flow("x", [Child("y", queue="elsewhere")]),
        Flow("x", [Child("y", children=[Child("z")])]),
        0,
        9,
        True,
    ):
        with pytest.raises(BadArgument):
            CounterLab(wrong, server=fresh)
    with pytest.raises(IllFormedQueue):
        CounterLab(2, queue="a{b", server=fresh)


def test_the_counter_lab_says_what_a_script_without_a_fence_did() -> None:
    with open_server("fake://", scripts="zoo/no-fence") as mistaken:
        lab = CounterLab(2, server=mistaken)
        assert lab.stale() == (
            "Completing item 1 with the stale token 1 is taken: something changes, the counter goes 2 → 1. "
            "The counter stands at 1 of 2; the parent is held, in no set."
        )
        lab.close()


def test_a_completion_that_is_refused_is_not_told_as_made(counter: CounterLab) -> None:
    claim = counter._take()
    assert claim is not None
    counter.server.client.hset(keys.job("orders", claim.id), "attempts", "7")
    assert counter.complete().startswith("Completing item 1 with token 1 is refused (StaleToken): nothing changes,")


# --- outbox and policy ------------------------------------------------------------------------------------------------


@pytest.fixture
def box(fresh: Server) -> Iterator[OutboxLab]:
    lab = OutboxLab(fresh)
    yield lab
    lab.close()


@pytest.mark.parametrize("queue", ["orders", "stock"])
@pytest.mark.parametrize(("on_failure", "fate"), [("fail", "dead"), ("ignore", "held and waits for 2")])
def test_a_death_takes_effect_at_once_or_with_the_pump_as_its_policy_says(
    box: OutboxLab, queue: str, on_failure: Any, fate: str
) -> None:
    box.set_child(2, queue=queue, on_failure=on_failure)
    said = click(box, "Let child 2 die")
    if queue == "stock":
        assert "The parent is held and waits for 3; the outbox holds 1 signal." in said
        said = click(box, "Let the Pump sweep once")
        assert said.startswith("The Pump delivers 1 signal and trims.")
    assert f"The parent is {fate}; the outbox is empty." in said


def test_the_outbox_is_shown_field_by_field(box: OutboxLab) -> None:
    assert box.tables()[0].rows == () and "Empty." in box._panel.value
    click(box, "Complete child 3")
    click(box, "Let child 2 die")
    assert box.tables()[0].rows == (
        ("1", "completion", "orders", "ship order 7", "gift-wrap", "–", "gift-wrap: done"),
        ("2", "failure", "orders", "ship order 7", "take from shelf", "fp", "take from shelf: failed"),
    )
    box.server.client.rpush(keys.queue_key("stock", "flow:outbox"), b"nonsense")
    box.complete(1)
    assert box.tables()[0].rows[-1] == ("3", "cannot be read", "", "", "", "", "nonsense")


def test_another_choice_in_a_dropdown_lands_the_flow_anew(box: OutboxLab) -> None:
    box.complete(3)
    box._places[0].value = "stock"
    assert box.sentence.startswith("The flow has landed: check address in stock, whose death fails its parent;")
    box._policies[0].value = "ignore"
    assert box.sentence.startswith("The flow has landed: check address in stock, whose death is ignored;")
    assert box.set_child(1, queue="orders", on_failure="fail").startswith(
        "The flow has landed: check address in orders"
    )
    assert (box._places[0].value, box._policies[0].value) == ("orders", "fail")
    assert box._claims == {} and "the outbox is empty" in box.sentence


def test_a_child_settles_once_and_what_is_no_child_is_refused(box: OutboxLab) -> None:
    box.complete(1)
    steps = len(box.trace)
    assert click(box, "Complete child 1").startswith("Child 1 is settled already.")
    assert click(box, "Let child 1 die").startswith("Child 1 is settled already.")
    assert len(box.trace) == steps
    for wrong in (0, 4, "1", True):
        with pytest.raises(BadArgument, match="children 1 to 3"):
            box.complete(wrong)
    with pytest.raises(BadArgument, match="neither orders nor stock"):
        box.set_child(1, queue="elsewhere")
    with pytest.raises(BadArgument):
        box.set_child(1, on_failure="perhaps")  # type: ignore[arg-type]
    assert "check address in orders" in box.start_over()


def test_all_three_done_and_swept_release_the_parent(box: OutboxLab) -> None:
    for number in (3, 1, 2):
        box.complete(number)
    assert "waits for 2; the outbox holds 2 signals" in box.sentence
    assert box.sweep() == "The Pump delivers 2 signals and trims. The parent is released; the outbox is empty."
    assert box.sweep() == "The Pump finds nothing to deliver. The parent is released; the outbox is empty."


def test_the_lab_says_what_a_mistaken_script_did_and_not_what_it_should_have_done() -> None:
    with open_server("fake://", scripts="zoo/no-signal") as mistaken:
        box = OutboxLab(mistaken)
        assert box.complete(1) == (
            "Child 1, check address, is completed in orders: its parent is told at once. "
            "The parent is held and waits for 2; the outbox is empty."
        )
        assert box.complete(2) == (
            "Child 2, take from shelf, is completed in stock: its parent hears nothing. "
            "The parent is held and waits for 2; the outbox is empty."
        )
        box.close()
    with open_server("fake://") as proper:
        box = OutboxLab(proper)
        assert box.die(2) == (
            "Child 2, take from shelf, dies in stock: a signal waits in the outbox of stock. "
            "The parent is held and waits for 3; the outbox holds 1 signal."
        )
        box.close()


@pytest.mark.usefixtures("wheel")
def test_a_settlement_or_a_pass_that_is_refused_is_not_told_as_made(box: OutboxLab) -> None:
    source = box.server.scripts["complete"].source.replace("if attempts ~= token then", "if id == ARGV[4] or base then")
    refusing = ScriptSet("mine", {"complete": Script.parse(source, "mine/complete.lua")})
    with open_server("fake://", scripts=box.server.scripts.overlay(refusing)) as mistaken:
        strict = OutboxLab(mistaken)
        assert strict.complete(1) == (
            "Child 1, check address, is refused (StaleToken) in orders: its parent hears nothing. "
            "The parent is held and waits for 3; the outbox is empty."
        )
        strict.close()
    box.complete(2)
    box.server.client.set(keys.subkey("orders", box._added.parent_id, "processed"), "not a hash")
    assert box.sweep() == "The Pump delivers nothing. The parent is held and waits for 3; the outbox holds 1 signal."
    box.server.client.set(keys.queue_key("stock", "schedule"), "not a set")
    assert box.sweep().startswith("The Pump ends with Refused. The parent is held and waits for 3;")


def test_a_crashed_pump_leaves_the_signals_and_the_next_pass_counts_none_twice(box: OutboxLab) -> None:
    box.complete(3)
    box.complete(2)
    assert box.gap.value == "between flow_deliver of take from shelf and LTRIM", "the telling gap is offered first"
    said = click(box, "Crash the Pump there")
    assert said.startswith(
        "The Pump crashes between flow_deliver of take from shelf and LTRIM. The parent is held and waits"
    )
    assert "waits for 1; the outbox holds 2 signals" in said
    assert box.player.sentence.endswith("what it had read is gone.")
    assert box.sweep().endswith("The parent is held and waits for 1; the outbox is empty.")


# --- the Pump's crashes -----------------------------------------------------------------------------------------------


@pytest.fixture
def pump(fresh: Server) -> Iterator[PumpCrashLab]:
    lab = PumpCrashLab(fresh)
    yield lab
    lab.close()


def test_the_gaps_are_those_of_the_pass_the_pump_would_make_now(pump: PumpCrashLab) -> None:
    assert pump.gaps == (
        "before promote",
        "between promote and LRANGE",
        "between LRANGE and flow_deliver of pick item 1",
        "between flow_deliver of pick item 1 and flow_deliver of pick item 2",
        "between flow_deliver of pick item 2 and LTRIM",
        "after LTRIM",
    )
    assert tuple(pump.gap.options) == pump.gaps
    pump.finish()
    assert pump.gaps == ("before promote", "between promote and LRANGE", "after LRANGE")
    assert tuple(pump.gap.options) == pump.gaps


@pytest.mark.parametrize("gap", range(6))
@pytest.mark.parametrize("times", [1, 3])
def test_wherever_it_crashes_and_however_often_each_signal_counts_once(
    pump: PumpCrashLab, gap: int, times: int
) -> None:
    for _ in range(times):
        pump.crash(min(gap, len(pump.gaps) - 1))
    said = pump.finish()
    assert " 2 counted; the outbox is empty. The parent is released: its counter is at 0." in said
    assert all(row[3] == "1 time" for row in pump.tables()[0].rows)
    state = Jobs(pump.server).state("orders", pump._added.parent_id)
    values = Flows(pump.server).children_values("orders", pump._added.parent_id)
    assert state == "pending" and list(values) == list(pump._added.child_ids)


def test_a_crash_before_the_trim_is_counted_as_deliveries_that_do_not_count(pump: PumpCrashLab) -> None:
    assert "2 deliveries so far, 2 counted; 2 signals still in the outbox." in click(pump, "Crash the Pump there")
    assert "4 deliveries so far, 2 counted; 2 signals still in the outbox." in click(pump, "Crash the Pump there")
    assert "6 deliveries so far, 2 counted; the outbox is empty." in click(pump, "Let a pass finish")
    assert [row[2:] for row in pump.tables()[0].rows] == [("3 times", "1 time")] * 2
    assert pump.tables()[0].caption.startswith("After 2 crashes")


def test_a_pump_that_trims_first_loses_what_it_had_not_delivered(pump: PumpCrashLab) -> None:
    pump.order.value = pump.order.options[1]
    assert pump.sentence.startswith("From now on the Pump trims before it delivers")
    assert "between LTRIM and flow_deliver of pick item 1" in pump.gaps
    said = pump.crash("between flow_deliver of pick item 1 and flow_deliver of pick item 2")
    assert "1 delivery so far, 1 counted; the outbox is empty. LOST: pick item 2" in said
    assert said.endswith("The parent waits for 1, for ever.")
    assert pump.finish().endswith("The parent waits for 1, for ever.")
    assert [row[1] for row in pump.tables()[0].rows] == ["trimmed", "lost"]
    assert pump.trim_first(False).startswith("From now on the Pump delivers before it trims")
    assert pump.finish().endswith("for ever."), "the proper order cannot bring back what is lost"


def test_without_a_crash_the_mistaken_order_loses_nothing(pump: PumpCrashLab) -> None:
    pump.trim_first()
    assert "LOST" not in pump.finish()
    assert "trimming first" in pump.player.frame.where


def test_the_order_stays_and_the_tally_starts_anew_at_the_start(pump: PumpCrashLab) -> None:
    start = pump.sentence
    pump.trim_first()
    pump.crash()
    assert click(pump, "Back to the start") == start
    assert "between LTRIM and flow_deliver of pick item 1" in pump.gaps
    assert pump.crashes == 0 and len(pump.player) == 1


def test_a_chosen_gap_stays_chosen_while_there_is_one(pump: PumpCrashLab) -> None:
    pump.gap.value = "between LRANGE and flow_deliver of pick item 1"
    click(pump, "Crash the Pump there")
    assert pump.gap.value == "between LRANGE and flow_deliver of pick item 1"
    pump.finish()
    assert pump.gap.value == "between promote and LRANGE"


def test_a_gap_that_is_not_there_is_refused_in_words(pump: PumpCrashLab) -> None:
    for wrong in (6, -1, "between this and that", True):
        with pytest.raises(BadArgument, match=r"0 to 5: 0 before promote; 1 between"):
            pump.crash(wrong)
    assert pump.crashes == 0
    for children in (0, 9, True, "2"):
        with pytest.raises(BadArgument, match="from 1 to 8"):
            PumpCrashLab(children=children)  # type: ignore[arg-type]


def test_the_lab_of_a_chosen_script_set_shows_that_sets_mistake(fresh: Server) -> None:
    with open_server("fake://", scripts="zoo/no-first-record") as mistaken:
        lab = PumpCrashLab(mistaken)
        lab.crash()
        assert lab.finish().startswith("A pass runs to its end. 4 deliveries so far, 4 counted")
        assert lab.sentence.endswith("its counter is at -2.")
        lab.close()


# --- the tape ---------------------------------------------------------------------------------------------------------


def test_a_tape_keeps_only_what_was_sent_of_a_flush_that_was_cut_short(fresh: Server) -> None:
    tape = Tape(fresh)
    tape.run(Pump(fresh, "stock").sweep.program(), stop_after=1)
    (step,) = tape.trace.steps
    assert [call.verb for call in step.flush.calls] == ["promote"] and step.lost is None
    tape.mark("the Pump", "It crashes.")
    assert tape.trace.steps[1].mark == "It crashes." and tape.trace.steps[1].run == 1


def test_a_tapes_frames_are_the_players(fresh: Server) -> None:
    tape = Tape(fresh)
    tape.run(Flows(fresh).add.program("orders", Flow("order", [Child("pick"), Child("pack")])))
    tape.mark("time", "An hour passes.")
    tape.run(Pump(fresh, "orders").sweep.program())
    from emqkit.viz.film import Film

    film = Film.of(tape.trace)
    assert tape.frame(len(tape)) == len(film.frames) - 1
    ends = [n for n, frame in enumerate(film.frames) if frame.depth == 0]
    assert ends == [tape.frame(n) for n in range(len(tape) + 1)]
    assert film.frames[tape.last("enqueue_flow")].sentence.startswith("enqueue_flow lands")


def test_finding_the_gaps_changes_nothing_where_the_lab_runs(fresh: Server) -> None:
    flows, jobs = Flows(fresh), Jobs(fresh)
    flows.add("orders", Flow("order", [Child("pick", queue="stock")]))
    claim = jobs.claim("stock")
    assert claim is not None
    jobs.complete("stock", claim)
    tape = Tape(fresh)
    crashes = Crashes.of(Pump(fresh, "stock").sweep.program(), tape)
    assert len(crashes.calls) == 4
    assert Tape(fresh).now == tape.now
    nothing = Crashes(())
    assert nothing.gaps == ("before it sends anything",) and nothing.telling == 0


def test_a_table_escapes_what_it_shows() -> None:
    table = Table("<caption>", ("a", "b"), (("<b>", "&"),), current=0)
    assert "&lt;b&gt;" in table.html() and "&amp;" in table.html() and "<b>" not in table.html()
    assert 'aria-current="true"' in table.html()
    assert table.text() == "<caption>\n  <b> · &"
    assert "Nothing." in Table("empty", ("a",), ()).html()


def test_a_payload_that_is_markup_stays_text_in_every_lab(fresh: Server) -> None:
    evil = "<img src=x onerror=alert(1)>"
    trace = Trace.of(Flows(fresh).add_bulk.program("orders", [Flow(evil, []), Flow(evil, [Child(evil)])]), fresh)
    ledger = BulkLedger(trace)
    ledger.choose(1)
    shown = ledger.twin() + ledger._line.value + "".join(cell.value for cell in ledger._cells)
    assert "<img" not in shown
    lab = CounterLab(Flow(evil, [Child(evil)]), server=fresh)
    lab.complete()
    assert "<img" not in lab.twin() + lab._line.value + lab._panel.value
    lab.close()
