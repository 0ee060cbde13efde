"""The table of liars: things that are broken for real, each with what a search says of it, which is never `holds`.

    python tests/liars.py        prints each: what is broken, and what the explorer says

A row is what is broken, a run on a real Valkey in which it is seen broken, a pattern of what the explorer says, and the
scripts or the world it is broken in. The run is neither watched nor closed in (`Stage`); the search goes the usual way.
To add a row, put it under its kind.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from hands import Falling, Finisher, Hands, Hoarder, Once, Pauser, Taker

from emqkit import keys
from emqkit.errors import EmqError
from emqkit.flows import Child, Flow, Flows
from emqkit.jobs import Claim, Jobs
from emqkit.pump import Pump
from emqkit.scripts import Script, ScriptSet
from emqkit.servers import Server
from emqkit.servers.embedded import EmbeddedServer, open_embedded, start_process
from emqkit.sim import Faults, PumpActor, Reaper, Repeating, Worker, World, explore, scenario
from emqkit.sim.worlds.actors import Actor, Choice, Kit
from emqkit.sim.worlds.world import planned
from emqkit.wire import Done, Program, Steps, command, operation

__all__ = ["LIARS", "Liar", "Stage"]

PUBLISHED = ScriptSet.load("published")
CREW: tuple[Actor, ...] = (Worker("orders"), Reaper("orders"))
SMALL = World("small", CREW, planned("orders", Flow("order", [Child("pick"), Child("pack")])))
CROSSING = World(
    "crossing",
    (Worker("stock"), Worker("orders"), PumpActor("stock"), Reaper("stock"), Reaper("orders")),
    planned("orders", Flow("order", [Child("pick", "stock")])),
)
ORDER = str(SMALL.flows[0].flow.id)
PICK = str(SMALL.flows[0].flow.children[0].id)
COUNTER = keys.subkey("orders", ORDER, "dependencies")
PENDING = keys.queue_key("orders", "pending")
ROW = keys.job("orders", PICK)
TICKS = itertools.count()


class Stage(EmbeddedServer):
    """A database of a real Valkey, on which any Lua runs as it does anywhere: nothing is watched, or closed in."""

    confined = True

    def land(self, *worlds: World) -> Stage:
        """Empty it, and land the flows of these worlds; of the small one if none is named."""
        self.client.flushdb()
        for world in worlds or (SMALL,):
            for plan in world.flows:
                Flows(self).add(plan.queue, plan.flow)
        return self

    def wait(self, seconds: float = 0.03) -> Stage:
        """Let time pass, as any lifetime in this table but that of a field."""
        time.sleep(seconds)
        return self

    def claim(self, lease_ms: int = 30_000) -> Claim | None:
        return Jobs(self).claim("orders", lease_ms)

    @property
    def claims(self) -> list[str | None]:
        """What can be claimed now, one after the other."""
        return [claim.payload for claim in iter(self.claim, None)]

    def settle(self, queue: str = "orders") -> Stage:
        """Claim a job and complete it."""
        claim = Jobs(self).claim(queue)
        assert claim is not None
        Jobs(self).complete(queue, claim, result="done")
        return self


Shown = Callable[[Stage], object]


@dataclass(frozen=True)
class Liar:
    """One row.

    Attributes:
        broken: what is broken, as a clause.
        shown: a run of it on a stage: true when it was seen broken.
        says: a pattern of what the explorer says.
        scripts: the script set it is broken in.
        world: what is explored.
        most: how many states of it.
    """

    broken: str
    shown: Shown
    says: str
    scripts: ScriptSet = PUBLISHED
    world: World | Callable[[], World] = field(default=SMALL)
    most: int = 5_000

    def said(self, server: Server) -> str:
        """What the explorer says, in a line."""
        try:
            world = self.world if isinstance(self.world, World) else self.world()
            result = explore(world, scripts=self.scripts, server=server, max_states=self.most)
        except EmqError as error:
            return f"{type(error).__name__}: {error}".replace("\n", " ")
        if result.word == "broken":
            return f"broken: {' '.join(v.promise for v in result.violations)}"
        reasons = dict.fromkeys(v.reason for v in result.verdicts.values() if v.concerns and v.word == "unknown")
        return f"{result.word}: {' '.join(reasons)}"


# --- scripts that are broken ------------------------------------------------------------------------------------------


def lua(script: str, old: str, new: str) -> ScriptSet:
    """The published set with one script edited."""
    source = PUBLISHED[script].source
    assert old in source, f"{script} has no {old!r}"
    edited = Script.parse(source.replace(old, new), f"mine/{script}.lua")
    return PUBLISHED.overlay(ScriptSet("mine", {script: edited}))


def lands(more: str) -> ScriptSet:
    """The published set, with this done once a flow of one queue has landed."""
    return lua("enqueue_flow", "return n\n", f"{more}\nreturn n\n")


def takes(more: str) -> ScriptSet:
    """The published set, with this done before a claim takes anything."""
    return lua("claim", "-- move: take\n", f"-- move: take\n{more}\n")


def took(more: str) -> ScriptSet:
    """The published set, with this done once a claim has taken a job."""
    return lua("claim", "-- move: lease\n", f"-- move: lease\n{more}\n")


def ends(more: str) -> ScriptSet:
    """The published set, with this done once a completion has been told to the parent."""
    return lua("complete", "-- move: retire\n", f"-- move: retire\n{more}\n")


def idle(when: str) -> ScriptSet:
    """The published set, in which a claim finds nothing when this is so."""
    return takes(f"if {when} then return {{}} end")


def luck(drawn: str) -> ScriptSet:
    """The published set, in which a claim writes into the job's row what is drawn here."""
    members = "redis.call('SADD', row .. ':s', 1, 2, 3, 4)"
    return took(f"{members} redis.call('HSET', row, 'luck', {drawn}) redis.call('DEL', row .. ':s')")


# --- hosts that are broken --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Own:
    """Operations of one's own."""

    server: Any

    @operation
    def send(self, verb: str, named: tuple[bytes, ...], args: tuple[bytes, ...]) -> Steps[Any]:
        return (yield from command(verb, named, args, lambda reply: reply))

    @operation
    def stumble(self) -> Steps[None]:
        if not (yield from command("EXISTS", [ROW], [], lambda reply: reply)):
            raise AttributeError("nothing has no fields")

    @operation
    def dither(self) -> Steps[None]:
        yield from command("EXISTS", [keys.queue_key("orders", f"x{next(TICKS)}")], [], lambda reply: reply)


class Unequal:
    """An owner that equals none but itself."""

    def __init__(self, server: Any) -> None:
        self.server = server

    send = Own.__dict__["send"]


@dataclass(frozen=True)
class Forgetful(Worker):
    """A worker that forgets what it claimed, every other time."""

    def after(self, kit: Kit, memory: Any, ended: Any, done: Any) -> tuple[Choice, ...]:
        return self.begin(kit) if next(TICKS) % 2 else super().after(kit, memory, ended, done)


@dataclass(frozen=True)
class Clumsy(Worker):
    """A worker that stumbles over what it claimed."""

    def after(self, kit: Kit, memory: Any, ended: Any, done: Any) -> tuple[Choice, ...]:
        if isinstance(done.value, Claim):
            raise KeyError(done.value.id)
        return super().after(kit, memory, ended, done)


def beside(program: Callable[[Kit], Program[Any]]) -> World:
    """The small world with somebody in it who runs this for ever."""
    return World("beside", (*CREW, Repeating("janitor", program)), SMALL.flows)


def sends(verb: str, *words: bytes, keys: int = 1) -> World:
    """The small world with somebody in it who sends this command for ever."""
    return beside(lambda kit: Own(kit.server).send.program(verb, words[:keys], words[keys:]))


def two_plans() -> World:
    other = planned("orders", Flow("parcel", [Child("wrap"), Child("ship")]))
    return World("two", CREW, (*SMALL.flows, *other))


# --- what is seen on a stage ------------------------------------------------------------------------------------------


def early(stage: Stage) -> bool:
    """The parent can be claimed while a child of it has not been."""
    return "order" in stage.land().wait().settle().claims[:1]


def gone(stage: Stage) -> bool:
    """The children that landed cannot all be claimed."""
    return stage.land().wait().claims != ["pick", "pack"]


def rowless(stage: Stage) -> bool:
    """What is pending has no row."""
    return not stage.land().wait().client.exists(ROW) and stage.client.zscore(PENDING, PICK) is not None


def left(stage: Stage) -> bool:
    """A job whose worker went away is found by no reaper."""
    assert stage.land().claim(1) is not None
    return Jobs(stage.wait()).reap("orders") == 0


def resultless(stage: Stage) -> bool:
    """A child that is done has left no result."""
    return not Flows(stage.land().settle().wait()).children_values("orders", ORDER)


def mute(stage: Stage) -> bool:
    """The child is done, the Pump came by, and the parent is not released."""
    stage.land(CROSSING).settle("stock").wait()
    Pump(stage, "stock").sweep()
    return stage.claims == []


def counted(stage: Stage) -> bool:
    """The counter has moved before the signal was delivered."""
    order = str(CROSSING.flows[0].flow.id)
    return Flows(stage.land(CROSSING).settle("stock")).dependencies("orders", order) == 0


def both(stage: Stage) -> bool:
    """The same claim of the same keys does now one thing and then another."""
    met = set()
    for _ in range(1000):
        claim = stage.land().claim()
        met.add((claim and claim.payload, stage.client.hget(ROW, "luck")))
        if len(met) > 1:
            return True
    return False


def reordered(stage: Stage) -> bool:
    """The same row written in another order is claimed in another way."""
    stage.land().claim()
    before = stage.client.hget(ROW, "luck")
    fields = list(stage.land().client.hgetall(ROW).items())
    stage.client.delete(ROW)
    for name, value in reversed(fields):
        stage.client.hset(ROW, name, value)
    stage.claim()
    return bool(stage.client.hget(ROW, "luck") != before)


def drawn(stage: Stage) -> bool:
    """Equal flows land with their children in another order."""
    return len({tuple(stage.land().claims) for _ in range(100)}) > 1


def stamped(stage: Stage) -> bool:
    """Equal flows land as unequal rows."""
    return len({stage.land().client.hget(ROW, "at") for _ in range(100)}) > 1


def fails(stage: Stage) -> bool:
    """A job that is there can neither be claimed nor completed."""
    try:
        return stage.land().settle() is None
    except EmqError:
        return True


def once(*words: str | bytes | int) -> Shown:
    """A claim finds nothing once somebody has done this, and finds something before."""

    def shown(stage: Stage) -> bool:
        assert stage.land().claim() is not None
        stage.land().client.execute_command(*words)
        return stage.claim() is None

    return shown


def run(world: World, seen: Shown) -> Shown:
    """What is seen once the janitor of this world has done its work."""

    def shown(stage: Stage) -> object:
        Kit(stage.land())
        janitor = world.actors[-1]
        (choice,) = janitor.begin(Kit(stage))
        assert choice.program is not None
        choice.program.run(stage)
        return seen(stage)

    return shown


def answers(world: World) -> Shown:
    """What the janitor of this world is answered is not the same twice, with the same keys."""

    def shown(stage: Stage) -> bool:
        met = set()
        for _ in range(200):
            (choice,) = world.actors[-1].begin(Kit(stage.land()))
            assert choice.program is not None
            met.add(repr(choice.program.run(stage)))
        return len(met) > 1

    return shown


def raises(error: type[Exception], doing: Shown) -> Shown:
    def shown(stage: Stage) -> bool:
        try:
            doing(stage)
        except error:
            return True
        return False

    return shown


def stumbles(stage: Stage) -> None:
    stage.client.flushdb()
    Own(stage).stumble()


def claims_clumsily(stage: Stage) -> None:
    kit = Kit(stage.land())
    (choice,) = Clumsy("orders").begin(kit)
    assert choice.program is not None
    Clumsy("orders").after(kit, None, choice.program, Done(choice.program.run(stage)))


def differ(program: Callable[[Any], Program[Any]]) -> Shown:
    """Asked twice, it is not, or does not do, the same."""
    return lambda stage: program(stage) != program(stage) or program(stage).after(()) != program(stage).after(())


def overwritten(stage: Stage) -> bool:
    """Two flows with two children each leave less than four jobs to be claimed."""
    other = World("other", CREW, planned("orders", Flow("parcel", [Child("wrap"), Child("ship")])))
    return bool(stage.land(SMALL, other).client.zcard(PENDING) < 4)


def unclaimed(stage: Stage) -> bool:
    """There are jobs, and none can be claimed."""
    return stage.claims == []


def runs_early(stage: Stage) -> bool:
    """The parent can be claimed while a child of it has not been, once what was done there is over."""
    return "order" in stage.wait().settle().claims[:1]


# --- the rows ---------------------------------------------------------------------------------------------------------

UNTIL = "local t = redis.call('TIME') redis.call('PEXPIREAT', dependencies, t[1] * 1000 + math.floor(t[2] / 1000) + 20)"
THERE = "'emq:{' .. tostring(ARGV[7]) .. '}:job:' .. tostring(parent_id) .. ':dependencies'"
SEES = lua("complete", "if was_active and crosses then", f"if crosses and not redis.pcall('GET', {THERE}) then")
STOP = keys.queue_key("orders", "stop")
LONG = b"JOB" + b"x" * 100
FIELDS = "redis.call('HPEXPIRE', row, 900, 'FIELDS', 1, 'payload')"
RUNS_OUT = sends("PEXPIRE", COUNTER, b"20")
RUNS_OUT_SOON = sends("GETEX", COUNTER, b"PX", b"1")
FLUSHES, RENAMES = sends("FLUSHALL", keys=0), sends("RENAME", PENDING, keys.queue_key("orders", "held"))
TIMES, DRAWS, PICKS = sends("TIME", keys=0), sends("RANDOMKEY", keys=0), sends("ZRANDMEMBER", PENDING)

# --- what is owed, whoever does it ------------------------------------------------------------------------------------

EXTENDS = "redis.call('ZADD', active, now + tonumber(lease), id)"
ACTIVE = keys.queue_key("orders", "active")


def hands(*actors: Actor, lapses: int = 0) -> World:
    """The small flow among these, and a reaper."""
    return World("hands", (*actors, Reaper("orders")), SMALL.flows, Faults(lapses=lapses))


def half(*more: Actor) -> World:
    """A world whose flow is landed without its children."""
    flow = SMALL.flows[0].flow
    return World("half", (Once("add_half", ("orders", flow)), *CREW, *more), SMALL.flows, landed=False)


def beats(*more: Actor) -> World:
    return World("beating", (Worker("orders", heartbeats=True), *more, Reaper("orders")), SMALL.flows)


def _pause(kit: Kit) -> list[Program[Any]]:
    return [kit.jobs.pause.program("orders")]


HALF, BEATING = half(), beats()
PAUSED = World("paused", (Taker("orders"), Reaper("orders")), SMALL.flows, setup=_pause)
DELIVERED = World(
    "delivered",
    (Worker("stock"), Repeating("own pump", lambda kit: Hands(kit.server).deliver.program("stock")), Reaper("stock")),
    CROSSING.flows,
    Faults(crashes=1),
)
DYING = World("dying", (Worker("orders", "fail"), Reaper("orders")), SMALL.flows)
REVIVED = replace(DYING, actors=(*DYING.actors, Once("revive", ("orders", PICK))))
RENEWED = World(
    "renewed",
    (*CREW, Repeating("renewer", lambda kit: Hands(kit.server).renew.program("orders"))),
    planned("orders", Flow("order", [Child("pick")])),
    Faults(crashes=1),
)
POISONED = scenario("poison")
ASIDE = replace(
    POISONED,
    name="aside",
    witnesses=(),
    actors=tuple(
        Repeating("careful", lambda kit: Hands(kit.server).sweep.program("stock", "string"))
        if isinstance(actor, PumpActor)
        else actor
        for actor in POISONED.actors
    ),
)


def left_held(do: Shown) -> Shown:
    """Once that is done, nothing can be claimed, and the parent is held still."""

    def shown(stage: Stage) -> bool:
        do(stage.land())
        return not stage.claims and Jobs(stage).state("orders", ORDER) == "awaiting_children"

    return shown


def finish_all(stage: Stage) -> None:
    for claim in iter(stage.claim, None):
        Hands(stage).finish("orders", claim.id)


def bury(stage: Stage) -> None:
    for claim in iter(stage.claim, None):
        Hands(stage).bury("orders", claim.id)


def fail(stage: Stage) -> None:
    """Both children fail, to be tried again in a millisecond; nobody promotes."""
    for claim in iter(stage.claim, None):
        Jobs(stage).retry("orders", claim, error="no", max_attempts=2, delay_ms=1)
    stage.wait()


def finished_twice(stage: Stage) -> bool:
    """A job is finished by a claim that lapsed, under the hands of the next one."""
    late = stage.land().claim(1)
    assert late is not None and Jobs(stage.wait()).reap("orders") == 1
    now = stage.claim()
    assert now is not None and now.id == late.id
    Hands(stage).finish("orders", late.id)
    return not stage.client.exists(ROW)


def claims_paused(stage: Stage) -> bool:
    Jobs(stage.land()).pause("orders")
    return Hands(stage).take_last("orders") is not None


def counts_twice(stage: Stage) -> bool:
    """A Pump that crashed between its delivery and its trim delivers again, and counts again."""
    order = str(CROSSING.flows[0].flow.id)
    box = keys.queue_key("stock", "flow:outbox")
    entry = stage.land(CROSSING).settle("stock").client.lindex(box, 0)
    assert isinstance(entry, bytes)
    Hands(stage).deliver("stock")
    stage.client.rpush(box, entry)
    Hands(stage).deliver("stock")
    return Flows(stage).dependencies("orders", order) == -1


def half_landed(stage: Stage) -> bool:
    stage.client.flushdb()
    Hands(stage).add_half("orders", SMALL.flows[0].flow)
    Jobs(stage).pause("orders")
    Jobs(stage).resume("orders")
    return not stage.claims and Jobs(stage).state("orders", ORDER) == "awaiting_children"


def erased(stage: Stage) -> bool:
    Hands(stage.land()).erase("orders", PICK)
    return stage.claims == ["pack"]


def revived(stage: Stage) -> bool:
    """A child that died and failed its parent runs again."""
    claim = stage.land().claim()
    assert claim is not None
    Jobs(stage).retry("orders", claim, error="no", max_attempts=1)
    Hands(stage).revive("orders", PICK)
    return "pick" in stage.claims and Jobs(stage).state("orders", ORDER) == "dead"


def mute_without_pump(stage: Stage) -> bool:
    stage.land(CROSSING).settle("stock").wait()
    return stage.claims == []


def renewed(stage: Stage) -> bool:
    """A lease that would have lapsed by now was renewed, and nobody gets the job back."""
    stage.land().claim(1)
    Hands(stage).renew("orders")
    return Jobs(stage.wait()).reap("orders") == 0


def length_only(stage: Stage) -> bool:
    """A poison entry is nowhere any more."""
    stage.client.flushdb()
    stage.client.rpush(keys.queue_key("stock", "flow:outbox"), b"poison")
    Hands(stage).sweep("stock", "string")
    return all(b"poison" not in (stage.client.get(key) or b"") for key in stage.client.keys())


def deadline(stage: Stage, claim: Claim) -> float:
    score = stage.client.zscore(ACTIVE, claim.id)
    assert isinstance(score, float)
    return score


def not_extended(stage: Stage) -> bool:
    """A lease of a second, extended by half a minute, has lapsed two seconds later."""
    claim = stage.land().claim(1_000)
    assert claim is not None
    before = deadline(stage, claim)
    Jobs(stage).extend_lock("orders", claim, lease_ms=30_000)
    return deadline(stage, claim) - before < 2_000


def all_extended(stage: Stage) -> bool:
    """The lease of another job moves as well."""
    claim, other = stage.land().claim(), stage.claim(1_000)
    assert claim is not None and other is not None
    before = deadline(stage, other)
    Jobs(stage).extend_lock("orders", claim)
    return deadline(stage, other) > before


# fmt: off
# ruff: noqa: E501
EXPIRY = (
    Liar("the counter lives 20 ms", early, "broken: P2", lands("redis.call('PEXPIRE', dependencies, 20)")),
    Liar("the counter lives 1 ms", early, "broken: P2", lands("redis.call('SET', dependencies, n, 'PX', 1)")),
    Liar("the counter lives until a time", early, "broken: P2", lands(UNTIL)),
    Liar("pending lives 20 ms", gone, "broken: .*P[37]", lands("redis.call('PEXPIRE', pending, 20)")),
    Liar("the row of a child lives 20 ms", rowless, "broken: .*P7", lands("redis.call('PEXPIRE', KEYS[4], 20)")),
    Liar("active lives 20 ms", left, "broken: .*P[367]", lua("claim", "return {id", "redis.call('PEXPIRE', active, 20)\nreturn {id")),
    Liar("results live 20 ms", resultless, "broken: .*P5", ends("if KEYS[4] then redis.call('PEXPIRE', KEYS[4], 20) end")),
    Liar("the outbox lives 20 ms", mute, "broken: .*P3", ends("if crosses then redis.call('PEXPIRE', KEYS[3], 20) end"), CROSSING),
    Liar("a field of a row lives 900 ms", lambda s: s.land().claim() and s.wait(1).client.hget(ROW, "payload") is None, "unknown: .*fields of a hash", took(FIELDS)),
    Liar("somebody lets the counter run out", run(RUNS_OUT, runs_early), "broken: P2", world=RUNS_OUT),
    Liar("somebody lets the counter run out at once", run(RUNS_OUT_SOON, runs_early), "broken: P2", world=RUNS_OUT_SOON),
)

ASKED = (
    Liar("a signal waits for a counter of another slot", mute, r"Unseen: complete of mine asks for emq:\{orders\}:job:", SEES, CROSSING),
    Liar("a counter of another slot is written", counted, r"Unseen: complete of mine asks for emq:\{orders\}:job:", ends(f"if crosses then redis.call('DECR', {THERE}) end"), CROSSING),
    Liar("one claim is enough for everybody", gone, "Unseen: claim of mine asks for baton", idle("not redis.call('SET', 'baton', 1, 'NX')")),
    Liar("claims end with a key nobody declares", once("SET", STOP, 1), r"Unseen: claim of mine asks for emq:\{orders\}:stop", idle("redis.pcall('EXISTS', 'emq:{orders}:stop') == 1")),
    Liar("claims end when there are many keys", once("MSET", "a", 1, "b", 1), "Unseen: claim of mine runs KEYS", idle("#redis.call('KEYS', '*') > 6")),
    Liar("claims end when a walk finds many keys", once("MSET", "a", 1, "b", 1), "Unseen: claim of mine runs SCAN", idle("#redis.call('SCAN', 0, 'COUNT', 1000)[2] > 6")),
    Liar("claims end when the database is large", once("MSET", "a", 1, "b", 1), "Unseen: claim of mine runs DBSIZE", idle("redis.call('DBSIZE') > 6")),
    Liar("claims end when the server tells of many keys", once("MSET", "a", 1, "b", 1), "Unseen: claim of mine runs INFO", idle("redis.call('INFO', 'keyspace'):find('keys=7', 1, true)")),
    Liar("claims look into another database", gone, "Unseen: claim of mine runs SELECT", takes("redis.call('SELECT', 200)")),
    Liar("the last claim empties the server", gone, "Unseen: claim of mine runs FLUSHALL", takes("if redis.call('ZCARD', pending) == 1 then redis.pcall('FLUSHALL') end")),
    Liar("claims end when pending is kept in another way", once("ZADD", PENDING, 1, LONG), "unknown: .*no content of a key", idle("redis.call('OBJECT', 'ENCODING', pending) == 'skiplist'")),
    Liar("claims end while pending may run out", once("PEXPIRE", PENDING, 9999), "unknown: .*how long a key has still to live", idle("redis.call('PTTL', pending) > 0")),
    Liar("each claim leaves a stream", lambda s: s.land().claim() and s.client.type(ROW + b":x") == b"stream", "Unseen: .* holds a stream", took("redis.call('XADD', row .. ':x', '*', 'a', 1)")),
    Liar("a landing counts the keys of others", lambda s: s.land().claims == [] and s.client.zcard(PENDING) == 0, "Unseen: enqueue_flow of mine runs DBSIZE", lands("if redis.call('DBSIZE') > 4 then redis.call('DEL', pending) end")),
    Liar("somebody empties the server", run(FLUSHES, unclaimed), "Unseen: FLUSHALL looks at, or changes, more", world=FLUSHES),
    Liar("somebody renames pending to a key not declared", run(RENAMES, unclaimed), r"Unseen: RENAME takes emq:\{orders\}:held", world=RENAMES),
)

UNREPEATABLE = (
    Liar("half of all claims find nothing", both, r"unknown: .*draws chance \(math.random\)", idle("math.random() < 0.5")),
    Liar("half of all claims find nothing, by another way", both, r"unknown: .*draws chance", idle("_G['math']['random']() < 0.5")),
    Liar("half of all claims find nothing, by built Lua", both, "unknown: .*builds Lua", idle("loadstring('return math.random()')() < 0.5")),
    Liar("half of all claims find nothing, by server", both, "unknown: .*RANDOMKEY|Unseen: claim of mine runs RANDOMKEY", idle("server.call('RANDOMKEY') == pending")),
    Liar("a field is drawn", both, r"unknown: .*draws chance \(HRANDFIELD\)", luck("redis.call('HRANDFIELD', row)")),
    Liar("a member is drawn", both, r"unknown: .*draws chance \(SRANDMEMBER\)", luck("redis.call('SRANDMEMBER', row .. ':s')")),
    Liar("a member is popped", both, r"unknown: .*draws chance \(SPOP\)", luck("redis.call('SPOP', row .. ':s')")),
    Liar("a ranked member is drawn", both, r"unknown: .*draws chance \(ZRANDMEMBER\)", luck("redis.call('ZADD', row .. ':z', 1, 'a', 1, 'b') and redis.call('ZRANDMEMBER', row .. ':z') .. (redis.call('DEL', row .. ':z') - 1)")),
    Liar("a row says where a table lies", both, "unknown: .*does not do the same twice", luck("tostring({})")),
    Liar("a row says how much memory there is", both, r"unknown: .*draws chance \(collectgarbage\)", luck("collectgarbage('count')")),
    Liar("a row says how long the processor worked", both, r"unknown: .*draws chance \(os.clock\)", luck("os.clock()")),
    Liar("a row says when it was claimed", both, "unknown: .*at another time", luck("time[2]")),
    Liar("claims find nothing in every other millisecond", both, "unknown: .*at another time", idle("math.floor(time[2] / 1000) % 2 == 1")),
    Liar("a row says which field came first", reordered, "unknown: .*in another order", luck("redis.call('HKEYS', row)[1]")),
    Liar("a landing draws the order of its children", drawn, r"unknown: .*enqueue_flow draws chance \(math.random\)", lands("redis.call('ZADD', pending, math.random(0, 1), ARGV[4])")),
    Liar("a landing says when it was", stamped, "unknown: .*enqueue_flow does otherwise at another time", lands("redis.call('HSET', KEYS[4], 'at', redis.call('TIME')[2])")),
    Liar("an operation reads the clock", answers(TIMES), "unknown: .*operation's TIME reads the clock", world=TIMES),
    Liar("an operation draws a key", answers(DRAWS), "Unseen: RANDOMKEY", world=DRAWS),
    Liar("an operation draws a member", answers(PICKS), "unknown: .*operation's ZRANDMEMBER draws chance", world=PICKS),
    Liar("an operation goes on by a count of its own", differ(lambda s: Own(s).dither.program()), "Unrepeatable: .*own.dither goes on differently", world=beside(lambda kit: Own(kit.server).dither.program())),
    Liar("an operation's owner equals none", differ(lambda s: Unequal(s).send.program("PING", (), ())), "Unrepeatable: .*the owner of unequal.send", world=beside(lambda kit: Unequal(kit.server).send.program("PING", (), ()))),
    Liar("a worker forgets every other claim", lambda _: next(TICKS) % 2 != next(TICKS) % 2, "Unrepeatable: worker of orders", world=World("forgetful", (Forgetful("orders"), Reaper("orders")), SMALL.flows)),
)

ERRORS = (
    Liar("an operation stumbles over a key that is gone", raises(AttributeError, stumbles), "ActorFailed: janitor, own.stumble raised AttributeError", world=beside(lambda kit: Own(kit.server).stumble.program())),
    Liar("a worker stumbles over what it claimed", raises(KeyError, claims_clumsily), "ActorFailed: worker of orders raised KeyError", world=World("clumsy", (Clumsy("orders"), Reaper("orders")), SMALL.flows)),
    Liar("two flows have one id", overwritten, "BadArgument: id .* is in flows 1 and 2 of two", world=two_plans),
    Liar("a word is misspelt", fails, r"ScriptBroken: mine/complete.lua, line \d+: .*near '1'", lua("complete", "return 1", "retrun 1")),
    Liar("a condition does not end", fails, r"ScriptBroken: mine/complete.lua, line \d+: 'end' expected", lua("complete", "-- move: retire", "-- move: retire\nif true then")),
    Liar("a name is misspelt", fails, "Unrunnable: mine/claim.lua, line 16: .*nonexistent global variable 'pendnig'", takes("local held = redis.call('ZCARD', pendnig)")),
    Liar("a name is not local", fails, "Unrunnable: mine/claim.lua, line 16: .*readonly table", takes("count = 1")),
    Liar("a command is misspelt", fails, "Unrunnable: mine/claim.lua, line 16: Unknown command", takes("redis.call('ZCRAD', pending)")),
    Liar("a command lacks its key", fails, "Unrunnable: mine/claim.lua, line 16: Wrong number of args", takes("redis.call('ZCARD')")),
    Liar("a landing has a name misspelt", fails, r"Unrunnable: mine/enqueue_flow.lua, line \d+: .*'dependancies'", lands("redis.call('GET', dependancies)")),
    Liar("a script stumbles over nothing", fails, "unknown: .*no worker that settles", takes("local length = #redis.call('GET', active)")),
)

OWED = (
    Liar("a completion of one's own tells no parent", left_held(finish_all), "broken: .*P3", world=hands(Finisher("orders"))),
    Liar("a completion of one's own looks at no token", finished_twice, "broken: .*P9", world=hands(Finisher("orders"), Worker("orders"), lapses=1)),
    Liar("a death of one's own tells no parent", left_held(lambda stage: bury(stage)), "broken: .*P13", world=hands(Finisher("orders", by="bury"))),
    Liar("a claim of one's own takes the largest id", lambda stage: getattr(Hands(stage.land()).take_last("orders"), "id", PICK) != PICK, "broken: .*P14", world=hands(Taker("orders"))),
    Liar("a claim of one's own asks for no pause", claims_paused, "broken: .*P14", world=PAUSED),
    Liar("a delivery of one's own counts twice", counts_twice, "broken: .*P11", world=DELIVERED),
    Liar("an add of one's own forgets the children", half_landed, "broken: .*P3", world=HALF),
    Liar("the same, while a queue is paused and resumed", half_landed, "broken: .*P3", world=half(Pauser("orders"))),
    Liar("an operation may have removed a job", erased, "unknown: .*hands.erase takes pick out, holds no claim of it and declares no removal", world=hands(Worker("orders"), Once("erase", ("orders", PICK)))),
    Liar("an operation may have reprocessed a job", revived, "unknown: .*hands.revive brings pick back from dead and declares no reprocessing", world=REVIVED),
    Liar("nobody promotes", left_held(fail), "unknown: .*queue orders has no promoter", world=hands(Worker("orders", "either", max_attempts=2))),
    Liar("nobody pumps", mute_without_pump, "unknown: .*queue stock has no pump", world=World("no pump", tuple(a for a in CROSSING.actors if not isinstance(a, PumpActor)), CROSSING.flows)),
    Liar("nobody reaps", left_held(lambda stage: stage.claim(1) and stage.claim(1) and stage.wait()), "unknown: .*queue orders has no reaper", world=World("no reaper", (Worker("orders"),), SMALL.flows, Faults(crashes=1))),
    Liar("nobody settles", left_held(lambda stage: stage.claims), "unknown: .*queue orders has no worker that settles", world=hands(Hoarder("orders"))),
    Liar("a reaper takes nothing back", left_held(lambda stage: stage.claim(1) and stage.claim(1) and Hands(stage.wait()).look("orders")), "unknown: .*queue orders has no reaper", world=World("idle reaper", (Worker("orders"), Repeating("idle", lambda kit: Hands(kit.server).look.program("orders"), ("orders",), "reaper")), SMALL.flows, Faults(crashes=1))),
    Liar("a lease is renewed for ever", renewed, "broken: .*P3", world=RENEWED),
    Liar("poison is put aside as its length", length_only, "broken: .*P10", world=ASIDE),
    Liar("an extension extends nothing", not_extended, "broken: .*P14", lua("extend_lock", EXTENDS, ""), BEATING),
    Liar("an extension takes seconds for milliseconds", not_extended, "broken: .*P14", lua("extend_lock", EXTENDS, EXTENDS.replace("tonumber(lease)", "tonumber(lease) / 1000")), BEATING),
    Liar("an extension extends everybody", all_extended, "broken: .*P14", lua("extend_lock", EXTENDS, f"for _, id in ipairs(redis.call('ZRANGE', active, 0, -1)) do {EXTENDS} end"), beats(Worker("orders"))),
    Liar("a worker goes down with each job it claims", left_held(lambda stage: stage.claims), "unknown: .*Still growing: the attempts of p", world=hands(Falling("orders")), most=1_500),
)
# fmt: on

LIARS: tuple[Liar, ...] = (*EXPIRY, *ASKED, *UNREPEATABLE, *ERRORS, *OWED)


def main() -> int:
    """Print the table; 1 if anything broken is said to hold, or was not seen broken."""
    wrong = 0
    with start_process() as process, open_embedded(PUBLISHED) as server:
        process.take_database()  # so that it does not end with the first row
        for liar in LIARS:
            with Stage(process, liar.scripts) as stage:
                seen, said = bool(liar.shown(stage)), liar.said(server)
            wrong += said.startswith("holds") or not seen
            print(f"{liar.broken:52} {'seen' if seen else 'NOT SEEN':9} {said[:150]}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
