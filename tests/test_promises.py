"""What promises are made of: what a move did, what is remembered, what was witnessed, what a world can try."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest

from emqkit import keys, transitions
from emqkit.errors import BadArgument, EmqError, NotInCall, ReplyLost
from emqkit.flows import Child, Flow, Flows
from emqkit.ids import Minter
from emqkit.jobs import Jobs
from emqkit.keyspace import FAR_MS, Keyspace, parts_of
from emqkit.scripts import Script, ScriptSet
from emqkit.servers import Server, open_server
from emqkit.sim import Faults, Operator, Producer, PumpActor, Reaper, Worker, World, explore
from emqkit.sim.promises import PROMISES, Transition, at_start, names, remember, seen, trimmed
from emqkit.sim.promises.events import Answered, Delivery, Events, Extension, HandedOut, Row, Settle
from emqkit.sim.promises.facts import (
    Added,
    Delivered,
    Fact,
    Facts,
    Landed,
    Outcome,
    Released,
    Removed,
    Revived,
    Settled,
    Token,
    Trimmed,
    Unheard,
)
from emqkit.sim.worlds.actors import Deed
from emqkit.sim.worlds.witness import Witness, check, crash_between, met
from emqkit.sim.worlds.world import planned
from emqkit.snapshot import capture
from emqkit.transitions import ParentLink
from emqkit.wire import Call, Done, ErrorReply, Flush, command

SAME = planned("orders", Flow("order", [Child("pick"), Child("pack", on_failure="ignore")]))
CROSSING = planned("orders", Flow("order", [Child("pick", "stock"), Child("pack", "stock", "ignore")]))
PARENT = str(SAME[0].flow.id)
PICK, PACK = (str(child.id) for child in SAME[0].flow.children)
OF_ORDERS, OF_STOCK = ParentLink(PARENT), ParentLink(PARENT, "orders")
IGNORED = ParentLink(PARENT, policy="id")
LANDED = {Landed(PARENT), Landed(PICK), Landed(PACK)}


class Play:
    """Calls really made, one after the other, with what is known after each."""

    def __init__(self, server: Server, world: World, *, trims: bool = False) -> None:
        self.server = server
        self.world = world
        self.trims = trims
        for plan in world.flows if world.landed else ():
            Flows(server).add.program(plan.queue, plan.flow).run(server)
        self.keyspace, self.counts = self.look()
        self.facts: Facts = at_start(world)
        self.told: set[Witness] = set()

    def look(self) -> tuple[Keyspace, Any]:
        snapshot = capture(self.server)
        parts, metrics = parts_of(snapshot)
        return Keyspace(parts), [value for name, value in snapshot.entries if name in metrics]

    def __call__(self, *calls: Call[Any], **more: Any) -> set[Fact]:
        """Make calls as one move; `told` are its witnesses, and what comes back is what is known anew."""
        before, counts = self.keyspace, self.counts
        replies = tuple(zip(calls, (self.server.round_trip(Flush((call,)))[0] for call in calls), strict=True))
        self.keyspace, self.counts = self.look()
        moved = counts != self.counts
        self.move = Transition("call", None, replies, before, self.keyspace, self.server.scripts, moved)
        return self.note(dataclasses.replace(self.move, **more))

    def note(self, move: Transition) -> set[Fact]:
        known, self.move = self.facts, move
        self.told = set(seen(self.world, move, known))
        self.facts = remember(self.world, move, known, trims=self.trims)
        self.forgotten = set(known - self.facts)
        return set(self.facts - known)


@pytest.fixture
def fake() -> Iterator[Server]:
    with open_server("fake://") as server:
        yield server


@pytest.fixture
def same(fake: Server) -> Play:
    return Play(fake, World("same", (), SAME))


@pytest.fixture
def crossing(fake: Server) -> Play:
    return Play(fake, World("crossing", (), CROSSING), trims=True)


# --- what is remembered, and what is witnessed -----------------------------------------------------------------------


def test_the_flows_that_are_there_from_the_start_are_known(fake: Server) -> None:
    assert at_start(World("landed", (), SAME)) == LANDED | {Added(0)}
    assert at_start(World("later", (), SAME, landed=False)) == frozenset()


def test_a_claim_is_remembered_by_its_token_and_forgets_how_the_last_one_was_settled(same: Play) -> None:
    assert same(transitions.claim("orders", FAR_MS)) == {Token(PICK, 1)}
    assert same.told == {Witness.CLAIMED}
    assert same.move.did.claims == [HandedOut("orders", PICK, 1)]
    same(transitions.claim("orders", FAR_MS))
    assert same(transitions.retry("orders", PICK, 1, 0, 2, b"boom", OF_ORDERS)) == {Settled(PICK, 1, "retry")}
    assert same.told == {Witness.SETTLED}
    same(transitions.retry("orders", PACK, 1, FAR_MS, 2, b"boom", OF_ORDERS))
    assert same(transitions.promote("orders", 9)) == set() and same.told == set()
    assert same(transitions.claim("orders", FAR_MS)) == {Token(PICK, 2)}
    assert same.forgotten == {Token(PICK, 1), Settled(PICK, 1, "retry")}
    assert same.told == {Witness.CLAIMED, Witness.CLAIMED_AGAIN}
    assert same(transitions.claim("orders", FAR_MS)) == set() and same.told == set()  # there is none left


def test_a_completion_is_an_outcome_and_the_last_one_a_release(same: Play) -> None:
    same(transitions.claim("orders", FAR_MS))
    same(transitions.claim("orders", FAR_MS))
    done = same(transitions.complete("orders", PICK, 1, OF_ORDERS, b"done"))
    assert done == {Settled(PICK, 1, "complete"), Outcome(PICK, "completed")}
    assert same.told == {Witness.SETTLED, Witness.RECORDED}
    assert same.move.did.settles == [Settle("complete", "orders", PICK, 1, "done")]
    last = same(transitions.complete("orders", PACK, 1, OF_ORDERS, b"done"))
    assert last == {Settled(PACK, 1, "complete"), Outcome(PACK, "completed"), Released(PARENT)}
    assert same.told == {Witness.SETTLED, Witness.RECORDED, Witness.RELEASED}
    assert same(transitions.complete("orders", PACK, 1, OF_ORDERS, b"done")) == set()
    assert same.told == {Witness.REFUSED, Witness.SETTLED_AGAIN}
    assert same(transitions.claim("orders", FAR_MS)) == {Token(PARENT, 1)}
    assert same.told == {Witness.CLAIMED, Witness.PARENT_CLAIMED}
    assert same(transitions.complete("orders", PARENT, 1, None, b"")) == {Settled(PARENT, 1, "complete")}
    assert same.told == {Witness.SETTLED, Witness.FINISHED}
    assert same.forgotten == {Released(PARENT), Outcome(PICK, "completed"), Outcome(PACK, "completed")}


def test_a_death_is_an_outcome_until_the_child_is_completed(same: Play) -> None:
    same(transitions.claim("orders", FAR_MS))
    assert same(transitions.retry("orders", PICK, 1, 0, 1, b"boom", OF_ORDERS)) == {
        Settled(PICK, 1, "retry"),
        Outcome(PICK, "dead"),
    }
    assert same.told == {Witness.SETTLED, Witness.CHILD_DIED, Witness.PARENT_FAILED, Witness.RECORDED}
    assert same.move.did.fatal == [Row("orders", PARENT)]
    assert same(transitions.retry("orders", PICK, 1, 0, 1, b"boom", OF_ORDERS)) == set()
    assert same.told == {Witness.SETTLED, Witness.SETTLED_AGAIN, Witness.CHILD_DIED, Witness.PARENT_FAILED}
    assert same(transitions.reprocess("orders", PICK)) == {Revived(PICK)}
    assert same.told == {Witness.REPROCESSED}
    same(transitions.claim("orders", FAR_MS))
    assert same(transitions.complete("orders", PICK, 2, OF_ORDERS, b"done")) == {
        Settled(PICK, 2, "complete"),
        Outcome(PICK, "completed"),
    }
    assert Outcome(PICK, "dead") in same.forgotten
    assert same.told == {Witness.SETTLED, Witness.RAN_AGAIN}


def test_an_ignored_death_fails_nobody(same: Play) -> None:
    same(transitions.claim("orders", FAR_MS))
    same(transitions.claim("orders", FAR_MS))
    same(transitions.retry("orders", PACK, 1, 0, 1, b"boom", IGNORED))
    assert same.told == {Witness.SETTLED, Witness.CHILD_DIED, Witness.RECORDED}
    assert same.move.did.fatal == []


def test_a_child_of_a_parent_that_is_gone_has_no_outcome(same: Play) -> None:
    same(transitions.claim("orders", FAR_MS))
    assert same(transitions.remove_job("orders", PARENT)) == {Removed(PARENT)}
    assert same.told == {Witness.REMOVED, Witness.FINISHED}
    assert same(transitions.complete("orders", PICK, 1, OF_ORDERS, b"done")) == {Settled(PICK, 1, "complete")}
    assert same(transitions.remove_job("orders", PICK)) == set()
    assert same.told == {Witness.REFUSED}


def test_a_dead_job_that_nobody_recorded_is_not_revived(crossing: Play) -> None:
    crossing(transitions.claim("stock", FAR_MS))
    crossing(transitions.retry("stock", PICK, 1, 0, 1, b"boom", OF_STOCK))
    assert crossing.told == {Witness.SETTLED, Witness.CHILD_DIED}
    assert crossing(transitions.reprocess("stock", PICK)) == set()
    assert crossing.told == {Witness.REPROCESSED}
    assert crossing(transitions.reprocess("stock", PICK)) == set()
    assert crossing.told == {Witness.REFUSED}


def test_a_delivery_is_remembered_and_so_is_one_that_met_an_error(crossing: Play) -> None:
    deliver = transitions.flow_deliver("orders", PARENT, PICK, b"done")
    processed = keys.subkey("orders", PARENT, "processed")
    crossing(command("SET", [processed], [b"spoilt"], lambda reply: reply))
    assert crossing(deliver) == {Unheard(PICK, PARENT)}
    assert crossing.told == {Witness.UNHEARD}
    crossing(command("DEL", [processed], [], lambda reply: reply))
    assert crossing(deliver) == {Delivered("flow_deliver", PICK, PARENT)}
    assert crossing.forgotten == {Unheard(PICK, PARENT)}
    assert crossing.told == {Witness.DELIVERED, Witness.RECORDED}
    assert crossing.move.did.deliveries == [Delivery("flow_deliver", "orders", PARENT, PICK, 1)]
    assert crossing(deliver) == set()
    assert crossing.told == {Witness.DELIVERED, Witness.DELIVERED_AGAIN}
    fail = transitions.flow_fail_deliver("orders", PARENT, PACK, b"boom", "id")
    assert crossing(fail) == {Delivered("flow_fail_deliver", PACK, PARENT), Released(PARENT)}
    assert crossing.told == {Witness.DELIVERED, Witness.RECORDED, Witness.RELEASED}
    crossing(transitions.flow_fail_deliver("orders", PARENT, PICK, b"boom", "fp"))
    assert Witness.PARENT_FAILED in crossing.told
    assert crossing.move.did.fatal == [Row("orders", PARENT)]


def test_what_was_trimmed_is_remembered_where_it_may_come_again(crossing: Play) -> None:
    for id in (PICK, PACK):
        crossing(transitions.claim("stock", FAR_MS))
        crossing(transitions.complete("stock", id, 1, OF_STOCK, b"done"))
    first, second = crossing.keyspace["stock"].entries
    trim = command("LTRIM", [keys.queue_key("stock", "flow:outbox")], [b"1", b"-1"], lambda reply: reply)
    assert crossing(trim) == {Trimmed("stock", first)}
    assert crossing(trim) == {Trimmed("stock", second)}
    assert crossing(trim) == set()
    assert trimmed(crossing.facts) == sorted([first, second])
    crossing.trims, crossing.facts = False, frozenset()
    crossing.note(dataclasses.replace(crossing.move, before=crossing.move.after, after=crossing.move.before))
    assert crossing.facts == frozenset()


def test_what_lands_is_remembered_and_was_not_removed(fake: Server) -> None:
    play = Play(fake, World("later", (), SAME, landed=False))
    land = transitions.enqueue_flow("orders", PARENT, b"order", [(PICK, b"pick"), (PACK, b"pack")])
    assert play(land) == LANDED
    assert play.told == {Witness.LANDED}
    assert play.move.did.landed == [Row("orders", PARENT), Row("orders", PICK), Row("orders", PACK)]
    play(transitions.remove_job("orders", PACK))
    assert play(land) == set() and play.forgotten == {Removed(PACK)}
    assert play.told == {Witness.LANDED_AGAIN}
    foreign = transitions.enqueue_flow("orders", PARENT, b"order", [("ORD" + PICK[3:], b"pick")])
    assert play(foreign) == set()
    assert play.told == {Witness.REFUSED, Witness.LANDED_AGAIN}


@pytest.mark.parametrize(
    ("call", "ids"),
    [
        (transitions.enqueue("orders", PICK, b"pick"), [PICK]),
        (transitions.schedule("orders", PICK, b"pick", "in", FAR_MS), [PICK]),
        (transitions.hold_parent("orders", PARENT, b"order", 2), [PARENT]),
        (transitions.enqueue_flow_child("orders", PICK, b"pick", PARENT, None), [PICK]),
    ],
    ids=lambda value: getattr(value, "verb", ""),
)
def test_every_script_that_lands_a_job_says_which(call: Call[Any], ids: list[str], fake: Server) -> None:
    play = Play(fake, World("later", (), SAME, landed=False))
    assert play(call) == {Landed(id) for id in ids}
    assert play.move.did.lands and play.move.did.landed == [Row("orders", id) for id in ids]


def test_the_commands_of_an_operation_that_adds_land_too_and_those_of_another_do_not(fake: Server) -> None:
    play = Play(fake, World("later", (), SAME, landed=False))
    adding, claiming = Flows(fake).add.program("orders", SAME[0].flow), Jobs(fake).claim.program("orders", FAR_MS)
    policy = command("HSET", [keys.job("orders", PICK)], [b"parent_policy", b"id"], lambda reply: reply)
    assert play(policy, program=claiming) == set() and not play.move.did.lands and play.move.did.landed == []
    assert play(policy, program=adding) == {Landed(PICK)} and play.move.did.lands
    together = play(policy, transitions.enqueue("orders", PACK, b"pack"), program=claiming)
    assert together == {Landed(PACK)} and play.move.did.landed == [Row("orders", PACK), Row("orders", PICK)]


def test_what_a_producer_was_answered_is_remembered(fake: Server) -> None:
    flows = planned("orders", Flow("early", [Child("pick")]), Flow("late", [Child("pack")]))
    play = Play(fake, World("later", (), flows, landed=False))
    alone = Flows(fake).add.program("orders", flows[1].flow)
    bulk = Flows(fake).add_bulk.program("orders", [flows[0].flow, flows[0].flow])
    ping = command("PING", [], [], lambda reply: reply)
    assert play(ping, ended=((alone, Done(alone.run(fake))),)) == {Added(1)} and play.told == set()
    assert play(ping, ended=((bulk, Done(bulk.run(fake))),)) == {Added(0)}
    assert play.told == {Witness.NOT_LANDED}
    assert play(ping, ended=((alone, Done(error=ReplyLost("sim://", "add"))),)) == set() and play.told == set()
    land = transitions.enqueue("orders", PICK, b"pick")
    play(land, ended=((alone, Done(error=ReplyLost("sim://", "add"))),))
    assert Witness.NOT_LANDED in play.told
    unsent: Done[Any] = Done(error=BadArgument("queue", "", "is empty"))
    play(ping, program=alone, ended=((alone, unsent),))
    assert play.told == set()
    play(ping, program=bulk, ended=((alone, unsent),))
    assert play.told == {Witness.NOT_SENT}


def test_operators_reapers_and_pauses_are_witnessed(same: Play) -> None:
    asks = command("HEXISTS", [keys.queue_key("orders", "meta")], [b"paused"], lambda reply: reply)
    claiming = Jobs(same.server).claim.program("orders", FAR_MS)
    same(asks, program=claiming)
    assert same.told == set()
    same(command("HSET", [keys.queue_key("orders", "meta")], [b"paused", b"1"], lambda reply: reply))
    same(asks)
    assert same.told == set()
    same(asks, program=claiming)
    assert same.told == {Witness.PAUSED}
    same(transitions.claim("orders", FAR_MS))
    assert same.told == {Witness.CLAIMED}
    same(transitions.claim("orders", FAR_MS), began_paused=True)
    assert same.told == {Witness.CLAIMED, Witness.PAUSED}
    same(command("HDEL", [keys.queue_key("orders", "meta")], [b"paused"], lambda reply: reply))
    same(transitions.claim("orders", FAR_MS), began_paused=True)
    assert same.told == set()
    same(transitions.reap("orders"))
    assert same.told == set()
    same(command("ZADD", [keys.queue_key("orders", "active")], [b"1", PICK.encode()], lambda reply: reply))
    same(transitions.reap("orders"))
    assert same.told == {Witness.REAPED}


def test_an_extension_is_one_of_what_was_really_extended(same: Play) -> None:
    same(transitions.claim("orders", FAR_MS))
    same(transitions.extend_lock("orders", PICK, 1, FAR_MS))
    assert same.told == {Witness.EXTENDED}
    assert same.move.did.extensions == [Extension("orders", frozenset({PICK}), FAR_MS)]
    same(transitions.extend_locks("orders", FAR_MS, [(PICK, 1), (PACK, 7)]))
    assert same.told == {Witness.EXTENDED}
    assert same.move.did.extensions == [Extension("orders", frozenset({PICK}), FAR_MS)]
    same(transitions.extend_locks("orders", FAR_MS, [(PACK, 7)]))
    assert same.told == set()
    same(transitions.extend_lock("orders", PACK, 7, FAR_MS))
    assert same.told == {Witness.REFUSED} and same.move.did.extensions == []


def test_an_answer_refuses_when_it_says_that_nothing_was_done(same: Play) -> None:
    args = same.server.scripts.view(transitions.reap("orders")).args

    def refused(verb: str, reply: Any) -> bool:
        return Answered(verb, "orders", args, reply, same.server.scripts[verb].replies).refused

    assert [refused("complete", reply) for reply in (0, -1, 1, b"dead", (), None)] == [True, True, *[False] * 4]
    assert [refused(verb, 0) for verb in ("reap", "promote")] == [False, False]
    assert refused("retry", ErrorReply("EMQSTALE", "job gone"))
    assert not refused("retry", ErrorReply("WRONGTYPE", "of a key"))


def test_a_move_changed_something_when_a_key_or_a_metric_did(same: Play) -> None:
    same(transitions.reap("orders"))
    assert not same.move.did.changed and same.move.name == "reap"
    assert dataclasses.replace(same.move, metrics=True).did.changed
    same(transitions.claim("orders", FAR_MS))
    assert same.move.did.changed
    assert dataclasses.replace(same.move, kind="poison", calls=()).name == "poison"


# --- scripts whose arguments stand elsewhere -------------------------------------------------------------------------


def rewritten(name: str, **lines: str) -> ScriptSet:
    """The published set with one script under another header, its body left as it is."""
    published = ScriptSet.load("published")
    header, _, body = published[name].source.partition("\n\n")
    kept = [line for line in header.splitlines() if not line.startswith(("-- keys", "-- argv", "-- derives"))]
    head = [kept[0], f"-- keys     {lines['keys']}", f"-- argv     {lines['argv']}", *kept[1:]]
    script = Script.parse("\n".join(head) + "\n\n" + body, f"{name}.lua")
    return published.overlay(ScriptSet("rewritten", {name: script}))


def made(scripts: ScriptSet, verb: str, keys: list[bytes], args: list[bytes], reply: Any) -> Events:
    call: Call[Any] = Call(verb, tuple(keys), tuple(args), lambda reply: reply, lambda error: EmqError(), "script")
    empty = Keyspace(())
    return Transition("call", None, ((call, reply),), empty, empty, scripts).did


ACTIVE, ROW = keys.queue_key("orders", "active"), keys.job("orders", PICK)
ID, TOKEN, BASE = PICK.encode(), b"7", b"emq:{orders}:"


def test_a_call_is_read_by_the_names_of_its_header_wherever_they_stand() -> None:
    settling = rewritten("complete", keys="row active", argv="base token reason id")
    did = made(settling, "complete", [ROW, ACTIVE], [BASE, TOKEN, b"because", ID], 1)
    assert did.settles == [Settle("complete", "orders", PICK, 7, "done")]
    landing = rewritten("enqueue_flow", keys="pending parent (child)*n", argv="n payload parent_id (child_id)*n")
    named = [keys.queue_key("orders", "pending"), keys.job("orders", PARENT), ROW]
    did = made(landing, "enqueue_flow", named, [b"1", b"order", PARENT.encode(), ID], 1)
    assert did.landed == [Row("orders", PARENT), Row("orders", PICK)]
    delivering = rewritten("flow_fail_deliver", keys="parent failed", argv="parent_id policy child_id base")
    parent = [keys.job("orders", PARENT), keys.subkey("orders", PARENT, "failed")]
    did = made(delivering, "flow_fail_deliver", parent, [PARENT.encode(), b"fp", ID, BASE], 1)
    assert did.deliveries == [Delivery("flow_fail_deliver", "orders", PARENT, PICK, 1)]
    assert did.fatal == [Row("orders", PARENT)]


@pytest.mark.parametrize(
    ("verb", "argv", "reply", "missing"),
    [
        ("enqueue", "job payload", 1, "id"),
        ("enqueue_flow", "parent_id payload (child)*", 1, "child_id"),
        ("hold_parent", "id payload", 1, "parent_id"),
        ("complete", "id base", 1, "token"),
        ("complete", "job token", 1, "id"),
        ("retry", "job token", b"dead", "id"),
        ("flow_deliver", "parent_id child", 1, "child_id"),
        ("flow_deliver", "child_id parent", 1, "parent_id"),
        ("flow_fail_deliver", "child_id parent_id", 1, "policy"),
        ("extend_lock", "job token", 1, "id"),
        ("extend_locks", "base (job)*", (), "id"),
    ],
)
def test_a_script_whose_header_lacks_what_it_is_judged_by_is_refused_by_name(
    verb: str, argv: str, reply: Any, missing: str
) -> None:
    scripts = rewritten(verb, keys="row", argv=argv)
    with pytest.raises(NotInCall) as refused:
        made(scripts, verb, [ROW], [ID, TOKEN], reply)
    assert str(refused.value) == (
        f"{verb}: there is no argument {missing!r}: its header declares no argument of that name."
    )


def test_exploring_a_script_that_cannot_be_judged_says_so() -> None:
    source = ScriptSet.load("published")["complete"].source
    changed = Script.parse(source.replace("id token base", "id fence base"), "complete.lua")
    scripts = ScriptSet.load("published").overlay(ScriptSet("own", {"complete": changed}))
    with pytest.raises(NotInCall, match="complete: there is no argument 'token': its header declares no argument"):
        explore("same-queue", scripts=scripts)


def test_replies_that_say_nothing_of_the_kind_are_no_event() -> None:
    published = ScriptSet.load("published")
    pending = [keys.queue_key("orders", "pending"), ACTIVE]
    for reply in ((), (ID, b"pick"), (None, b"", b"1"), (ID, b"", None), None, ErrorReply("ERR", "no")):
        assert made(published, "claim", pending, [b"emq:{orders}:job:", b"1"], reply).claims == []
    assert made(published, "claim", pending, [b"x", b"1"], (ID, b"pick", 3, b"more")).claims == [
        HandedOut("orders", PICK, 3)
    ]
    for answer in (0, 2, b"done", b"gone", ErrorReply("EMQSTALE", "job gone"), ()):
        assert made(published, "complete", [ACTIVE, ROW], [ID, TOKEN, BASE], answer).settles == []
    assert made(published, "complete", [ACTIVE, ROW], [ID, b"x", BASE], 1).settles[0].token == -1
    retry = [ACTIVE, keys.queue_key("orders", "schedule"), keys.queue_key("orders", "dead"), ROW]
    for said in (b"scheduled", b"dead"):
        did = made(published, "retry", retry, [ID, TOKEN, b"0", b"1", b"boom", BASE], said)
        assert did.settles == [Settle("retry", "orders", PICK, 7, said.decode())] and did.fatal == []
    subkeys = [keys.subkey("orders", PARENT, name) for name in ("dependencies", "failed", "unsuccessful")]
    for refusal in (0, ErrorReply("WRONGTYPE", "of a key")):
        did = made(
            published,
            "flow_fail_deliver",
            [*subkeys, keys.job("orders", PARENT)],
            [ID, b"boom", b"fp", BASE, PARENT.encode()],
            refusal,
        )
        assert did.fatal == [] and did.reported == [] and did.deliveries[0].reply == refusal


def test_a_call_without_a_key_of_the_protocol_is_of_no_queue() -> None:
    did = made(rewritten("reap", keys="lock", argv="base"), "reap", [b"mylock"], [BASE], 1)
    assert [one.queue for one in did.answers] == [""]
    did = made(rewritten("reap", keys="lock active", argv="base"), "reap", [b"mylock", ACTIVE], [BASE], 1)
    assert [one.queue for one in did.answers] == ["orders"]


# --- witnesses by name -----------------------------------------------------------------------------------------------


def test_a_world_names_its_witnesses_by_their_text() -> None:
    needs = ("a parent was released", Witness.CLAIMED, "a job was removed or a child died")
    world = World("named", (), SAME, witnesses=needs)
    assert world.witnesses[1] == "a job was claimed"
    assert repr(Witness.RELEASED) == "'a parent was released'"
    check(crash_between("pump.sweep", "start", "promote"))
    assert crash_between("pump.sweep", "start", "promote") == "a crash hit pump.sweep between start and promote"


@pytest.mark.parametrize(
    ("typo", "told"),
    [
        ("a parent was realeased", "did you mean 'a parent was released'?"),
        ("a parent was released or a child dyed", "did you mean 'a child died'?"),
        ("x", "emqkit.sim.worlds.witness lists them"),
        ("a crash hit pump.sweep somewhere", "emqkit.sim.worlds.witness lists them"),
        ("perhaps a crash hit pump.sweep between start and promote", "emqkit.sim.worlds.witness lists them"),
    ],
)
def test_a_witness_that_there_is_not_is_refused(typo: str, told: str) -> None:
    with pytest.raises(BadArgument, match="witnesses .* is not a witness; ") as refused:
        World("misspelt", (), SAME, witnesses=(Witness.CLAIMED, typo))
    assert told in str(refused.value)


def test_a_need_is_met_by_any_of_its_witnesses() -> None:
    happened = {"a child died"}
    assert met("a child died", happened) and met("a job was removed or a child died", happened)
    assert not met("a job was removed", happened) and not met("a job was removed or a parent finished", happened)


# --- what a world can try --------------------------------------------------------------------------------------------

BUSY = World(
    "busy",
    (
        Worker("orders", "either", heartbeats=True),
        Reaper("orders"),
        PumpActor("orders"),
        Producer("orders", (SAME[0].flow,)),
        Operator((Deed("pause", "orders"), Deed("remove", "orders", PICK), Deed("reprocess", "orders", PACK))),
    ),
    (*SAME, *planned("orders", Flow("later", [Child("last")]), minter=Minter.fixed(node=1))),
    Faults(crashes=1, lost_replies=1, lapses=1, redeliveries=1, poisons=1),
)
CALM = World("calm", (Worker("orders"), Worker("stock")), CROSSING)
NEEDS = {
    "P1": ("a flow landed",),
    "P2": ("a parent was claimed",),
    "P3": ("an outcome was recorded", "a parent was released"),
    "P4": ("a parent was released",),
    "P5": ("an outcome was recorded",),
    "P6": ("a job was claimed",),
    "P7": ("a job was claimed",),
    "P8": ("an outcome was recorded",),
    "P9": ("a claim was settled",),
    "P10": ("a flow failed to land or a poison appeared",),
    "P11": ("an add was repeated or a settle was repeated or a re-delivery really happened",),
    "P12": ("a transition refused",),
    "P13": ("a child died",),
    "P14": ("a job was claimed", "a claim found its queue paused", "a lapsed lease was reaped", "a lease was extended"),
    "P15": ("a job was removed or a child whose outcome was recorded ran again",),
    "P16": ("a parent finished",),
}
UNCONCERNED = {
    "P1": "no flow of this world is one level in one queue",
    "P10": "there is no poison here, and no second flow that lands",
    "P11": "nobody has a reason to repeat anything in this world",
    "P12": "nobody in this world asks for what was done or taken away before",
    "P13": "no child can die in this world",
    "P15": "nobody reprocesses or removes in this world",
}


def test_what_must_have_happened_before_a_promise_holds() -> None:
    assert {promise.name: promise.needed(BUSY) for promise in PROMISES} == NEEDS
    assert tuple(NEEDS) == names()
    assert all(promise.concerns(BUSY) is None and promise.untried(list(Witness)) == () for promise in PROMISES)
    assert all(clause.concerns(BUSY) is None for promise in PROMISES for clause in promise.clauses)


def test_what_a_calm_world_cannot_try() -> None:
    assert {p.name: p.concerns(CALM) for p in PROMISES if p.concerns(CALM) is not None} == UNCONCERNED
    turn = next(promise for promise in PROMISES if promise.name == "P14")
    assert turn.untried([Witness.CLAIMED]) == ("a pause", "reaping", "an extension")
    assert turn.untried([Witness.CLAIMED, Witness.REAPED, Witness.EXTENDED]) == ("a pause",)
    assert turn.needed(CALM) == ("a job was claimed",)


def test_a_world_without_flows_can_try_what_is_about_jobs() -> None:
    empty = dataclasses.replace(BUSY, flows=())
    without = {p.name for p in PROMISES if p.concerns(empty) == "no flow is declared in this world"}
    assert without == {"P2", "P3", "P4", "P5", "P8", "P16"}
    assert {p.name for p in PROMISES if p.concerns(empty) is None} >= {"P6", "P7", "P9", "P14"}


def clause(promise: str, name: str) -> Any:
    return next(one for p in PROMISES for one in p.clauses if (p.name, one.name) == (promise, name))


def calm(*actors: Any, **faults: Any) -> World:
    return dataclasses.replace(CALM, actors=(*CALM.actors, *actors), faults=Faults(**faults))


PRODUCER = Producer("orders", (SAME[0].flow,))
AN_ADD = "nobody adds anything again in this world"
A_SETTLE = "nobody settles anything again in this world"
A_DELIVERY = "nobody delivers anything again in this world"
NO_OTHER = "no second flow lands in this world"
NO_DEATH = "no child can die in this world"
NO_REMOVAL = "nobody removes a job in this world"
NO_REVIVAL = "nobody reprocesses a job in this world"
FAILING = Worker("orders", "fail")
REVIVING = Operator((Deed("reprocess", "orders", PICK),))
REMOVING = Operator((Deed("remove", "orders", PICK),))
IN_VAIN = "nobody in this world asks for what was done or taken away before"
NO_PAUSE = "nobody pauses a queue that is worked on in this world"
NO_REAP = "no lease lapses and is reaped in this world"


@pytest.mark.parametrize(
    ("promise", "name", "world", "why"),
    [
        ("P1", "a flow lands whole", dataclasses.replace(CALM, flows=SAME), "no flow lands while this world runs"),
        ("P1", "a flow lands whole", dataclasses.replace(calm(PRODUCER), flows=SAME), None),
        ("P10", "another flow is left alone", calm(PRODUCER), NO_OTHER),
        (
            "P10",
            "another flow is left alone",
            dataclasses.replace(BUSY, actors=()),
            NO_OTHER,
        ),
        ("P10", "poison is kept", calm(redeliveries=1), "there is no poison in this world"),
        ("P10", "what met an error is kept", calm(poisons=1), None),
        ("P11", "an add changes no row", calm(PRODUCER), AN_ADD),
        ("P11", "an add changes no row", calm(lost_replies=1, crashes=1), AN_ADD),
        ("P11", "an add changes no row", calm(PRODUCER, lost_replies=1), None),
        ("P11", "an add changes no row", calm(PRODUCER, crashes=1), None),
        ("P11", "an add changes no row", calm(dataclasses.replace(PRODUCER, repeats=1)), None),
        ("P11", "a settle again", calm(crashes=1), A_SETTLE),
        ("P11", "a settle again", calm(lost_replies=1), None),
        ("P11", "a delivery again", calm(PumpActor("stock")), A_DELIVERY),
        ("P11", "a delivery again", calm(crashes=1), A_DELIVERY),
        ("P11", "a delivery again", calm(PumpActor("stock"), crashes=1), None),
        ("P11", "a delivery again", calm(redeliveries=1), None),
        ("P12", "a refusal changes nothing", calm(PRODUCER), IN_VAIN),
        ("P12", "a refusal changes nothing", calm(crashes=1), IN_VAIN),
        ("P12", "a refusal changes nothing", calm(Operator((Deed("pause", "orders"),)), crashes=1), IN_VAIN),
        ("P12", "a refusal changes nothing", dataclasses.replace(CALM, flows=BUSY.flows), IN_VAIN),
        ("P12", "a refusal changes nothing", calm(lost_replies=1), None),
        ("P12", "a refusal changes nothing", calm(lapses=1), None),
        ("P12", "a refusal changes nothing", calm(REVIVING), None),
        ("P12", "a refusal changes nothing", calm(REMOVING), None),
        ("P12", "a refusal changes nothing", calm(PRODUCER, crashes=1), None),
        ("P12", "a refusal changes nothing", calm(dataclasses.replace(PRODUCER, repeats=1)), None),
        ("P12", "a refusal changes nothing", dataclasses.replace(calm(PRODUCER), flows=BUSY.flows), None),
        ("P13", "a death is signalled", calm(FAILING), None),
        (
            "P13",
            "a death is signalled",
            dataclasses.replace(calm(FAILING), flows=()),
            NO_DEATH,
        ),
        ("P14", "a pause", calm(Operator((Deed("resume", "orders"),))), NO_PAUSE),
        ("P14", "a pause", calm(Operator((Deed("pause", "elsewhere"),))), NO_PAUSE),
        ("P14", "a pause", calm(Operator((Deed("pause", "stock"),))), None),
        ("P14", "reaping", calm(Reaper("orders")), NO_REAP),
        ("P14", "reaping", calm(Reaper("elsewhere"), crashes=1), NO_REAP),
        ("P14", "reaping", calm(crashes=1), NO_REAP),
        ("P14", "reaping", calm(Reaper("orders"), crashes=1), None),
        ("P14", "reaping", calm(Reaper("orders"), lapses=1), None),
        ("P14", "reaping", calm(Reaper("orders"), lost_replies=1), None),
        ("P14", "an extension", CALM, "nobody extends a lease in this world"),
        (
            "P15",
            "what is removed is gone",
            calm(REVIVING),
            NO_REMOVAL,
        ),
        ("P15", "what is removed stays away", calm(REMOVING), None),
        (
            "P15",
            "a child run again is not counted",
            calm(REMOVING),
            NO_REVIVAL,
        ),
        ("P15", "a child run again moves no parent", calm(REVIVING), None),
    ],
)
def test_a_clause_says_why_a_world_cannot_try_it(promise: str, name: str, world: World, why: str | None) -> None:
    assert clause(promise, name).concerns(world) == why


def test_ends_are_judged_where_everybody_works_for_ever() -> None:
    kept = next(promise for promise in PROMISES if promise.name == "P3")
    isolated = next(promise for promise in PROMISES if promise.name == "P10")
    assert kept.ends(CALM, {}) is None
    assert kept.ends(CALM, {"orders": ("worker",)}) == "queue orders has no worker that settles"
    assert kept.ends(CALM, {"stock": ("reaper", "pump")}) == "queue stock has no reaper and no pump"
    assert isolated.ends(calm(), {"stock": ("pump",)}) is None
    assert isolated.ends(calm(poisons=1), {"orders": ("worker",), "stock": ("reaper", "pump")}) == (
        "queue stock has no pump"
    )
    assert isolated.ends(calm(poisons=1), {"orders": ("reaper",)}) is None
    assert [promise.name for promise in PROMISES if promise.looks_at("end")] == ["P3", "P10", "P16"]


def test_only_leftovers_asks_for_what_no_set_states() -> None:
    asked = {promise.name: promise.lacks(CALM, ScriptSet.load("zoo/no-fence")) for promise in PROMISES}
    assert {name: says for name, says in asked.items() if says is not None} == {
        "P16": "The script set zoo/no-fence states neither for how long anything stays nor what removes it; only the "
        "names of what stays were checked"
    }
