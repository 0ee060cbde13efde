"""Every error is one of ours, is found in one place, and says what happened to which thing and what to do next."""

from __future__ import annotations

import copy
import linecache
import pickle

import pytest

import emqkit
from emqkit import Jobs, errors, ids, open_server
from emqkit.errors import (
    BadArgument,
    BadFlow,
    BadHeader,
    EmqError,
    FlowNotNative,
    ForeignLua,
    IllFormedId,
    IllFormedQueue,
    JobGone,
    JobLocked,
    LaneJob,
    NotDead,
    NotInCall,
    NotThisYet,
    Refused,
    ReplyLost,
    ScriptArity,
    ScriptBroken,
    ScriptMissing,
    ScriptStopped,
    StaleToken,
    Stopped,
    Unreachable,
    UnsuitableServer,
    WrongNamespace,
)

ID = "JOB0NgWEfAEJfs"

# One of each, the data it must carry, and what its message must hold: the thing, and what to do.
ONE_OF_EACH: list[tuple[EmqError, dict[str, object], list[str]]] = [
    (
        LaneJob("orders", ID, "acme"),
        {"queue": "orders", "id": ID, "group": "acme"},
        [ID, "the lane 'acme'", "Nothing was written"],
    ),
    (
        ScriptBroken("mine/claim.lua", 7, "'=' expected near 'x'"),
        {"path": "mine/claim.lua", "line": 7, "why": "'=' expected near 'x'"},
        ["mine/claim.lua, line 7: '=' expected", "Nothing was run"],
    ),
    (
        ForeignLua(["claim", "reap"], "a live server is not one"),
        {"scripts": ("claim", "reap"), "why": "a live server is not one"},
        ["claim, reap are not the kit's own Lua", "only run in a sandbox", "Nothing was sent"],
    ),
    (
        ScriptStopped("the sandbox", "claim", "it was still running after 3 seconds", True),
        {"what": "claim", "why": "it was still running after 3 seconds", "ended": True},
        ["claim was stopped: it was still running after 3 seconds", "open another"],
    ),
    (IllFormedId("JOB", "it is short"), {"id": "JOB", "why": "it is short"}, ["'JOB'", "it is short", "such as JOB"]),
    (IllFormedQueue("", "it is empty"), {"queue": "", "why": "it is empty"}, ["''", "it is empty", "non-empty"]),
    (
        BadArgument("lease_ms", 0, "is no lease"),
        {"name": "lease_ms", "value": 0, "why": "is no lease"},
        ["lease_ms 0 is no lease", "Nothing was sent"],
    ),
    (
        BadFlow("flow_cycle", f"{ID} stands twice.", [ID]),
        {"reason": "flow_cycle", "ids": (ID,)},
        ["flow_cycle", ID, "Nothing was sent"],
    ),
    (NotThisYet("Lanes are not here."), {"what": "Lanes are not here."}, ["Lanes", "Nothing was sent"]),
    (
        WrongNamespace(["USR0NgWEfAEJfs"], "job id must be JOB-namespaced"),
        {"ids": ("USR0NgWEfAEJfs",), "text": "job id must be JOB-namespaced"},
        ["USR0NgWEfAEJfs", "Nothing was written", "begin with JOB"],
    ),
    (JobGone("orders", ID), {"queue": "orders", "id": ID}, [ID, "orders", "drop the claim"]),
    (
        StaleToken("orders", ID, 3),
        {"queue": "orders", "id": ID, "token": 3},
        [ID, "orders", "token 3", "Drop this claim"],
    ),
    (NotDead("orders", ID), {"queue": "orders", "id": ID}, [ID, "orders", "not dead", "jobs.state"]),
    (JobLocked("orders", ID), {"queue": "orders", "id": ID}, [ID, "orders", "locked", "Try again"]),
    (
        FlowNotNative("EMQ.COMPLETE", "EMQSTATE complete flow not native"),
        {"command": "EMQ.COMPLETE", "text": "EMQSTATE complete flow not native"},
        ["EMQ.COMPLETE", "EMQSTATE complete flow not native", "use the jobs verb"],
    ),
    (
        Refused("HSET", "OOM", "no memory"),
        {"what": "HSET", "code": "OOM", "text": "no memory"},
        ["HSET", "OOM no memory"],
    ),
    (
        BadHeader("lua/x.lua", 3, "no keys"),
        {"path": "lua/x.lua", "line": 3, "why": "no keys"},
        ["lua/x.lua, line 3", "no keys", "see lua/claim.lua"],
    ),
    (
        ScriptArity("claim", "takes 2 keys"),
        {"script": "claim", "why": "takes 2 keys"},
        ["claim", "takes 2 keys", "Nothing was sent", "header"],
    ),
    (
        NotInCall("retry", "argument", "policy", False),
        {"script": "retry", "what": "argument", "name": "policy", "declared": False},
        ["retry", "policy", "declares no argument"],
    ),
    (
        ScriptMissing("clam", "published"),
        {"script": "clam", "where": "published"},
        ["clam", "published", "Check the name"],
    ),
    (
        Stopped("flows.add", 1),
        {"operation": "flows.add", "calls": 1},
        ["flows.add", "after 1 call;", "what was done stays done"],
    ),
    (
        Unreachable("valkey://here", "refused"),
        {"url": "valkey://here", "why": "refused"},
        ["valkey://here", "Nothing was sent", "start the server"],
    ),
    (
        ReplyLost("valkey://here", "complete"),
        {"url": "valkey://here", "what": "complete"},
        ["complete", "valkey://here", "may have taken effect", "same ids and token"],
    ),
    (
        UnsuitableServer("valkey://here", "it is too old"),
        {"url": "valkey://here", "why": "it is too old"},
        ["it is too old"],
    ),
]

EVERY_CLASS = [getattr(errors, name) for name in errors.__all__]


@pytest.mark.parametrize("kind", EVERY_CLASS, ids=lambda kind: kind.__name__)
def test_every_error_is_imported_from_emqkit_and_is_an_emq_error(kind: type[EmqError]) -> None:
    assert getattr(emqkit, kind.__name__) is kind
    assert kind.__name__ in emqkit.__all__
    assert issubclass(kind, EmqError)
    assert kind.__doc__


def test_no_error_class_is_left_out_of_all_or_of_these_tests() -> None:
    defined = {thing for thing in vars(errors).values() if isinstance(thing, type) and issubclass(thing, Exception)}
    assert set(EVERY_CLASS) == defined
    assert {type(error) for error, _, _ in ONE_OF_EACH} == defined - {EmqError}


@pytest.mark.parametrize("error, data, says", ONE_OF_EACH, ids=lambda value: type(value).__name__)
def test_an_error_names_the_thing_and_the_remedy_and_carries_its_data(
    error: EmqError, data: dict[str, object], says: list[str]
) -> None:
    for words in says:
        assert words in str(error)
    for name, value in data.items():
        assert getattr(error, name) == value
    assert str(error).endswith((".", "no memory"))  # a sentence; a server's own words stay as they came


@pytest.mark.parametrize("error, data, says", ONE_OF_EACH, ids=lambda value: type(value).__name__)
def test_an_error_survives_a_copy_and_a_pickle_with_its_data(
    error: EmqError, data: dict[str, object], says: list[str]
) -> None:
    for again in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert vars(again) == vars(error)


def test_what_the_caller_got_wrong_is_a_value_error_too() -> None:
    for kind in (BadArgument, BadFlow, IllFormedId, IllFormedQueue):
        assert issubclass(kind, ValueError)


def test_a_missing_script_is_a_key_error_whose_message_is_not_quoted() -> None:
    assert issubclass(ScriptMissing, KeyError)
    assert str(ScriptMissing("clam", "published")).startswith("no Lua script clam")


def test_a_notebook_shows_the_message_and_the_line_of_the_cell_and_no_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    name, cell = "/tmp/ipykernel_7/1.py", "id = 'order 7'\ncheck(id)\n"
    monkeypatch.setitem(linecache.cache, name, (len(cell), None, cell.splitlines(True), name))
    with pytest.raises(IllFormedId) as caught:
        exec(compile(cell, name, "exec"), {"check": ids.check})
    line, says = caught.value._render_traceback_()
    assert line == "in line 2 of the cell: check(id)"
    assert says == f"IllFormedId: {caught.value}"
    assert IllFormedId("7", "it is short")._render_traceback_() == [f"IllFormedId: {IllFormedId('7', 'it is short')}"]


def test_a_claim_of_nothing_is_refused_with_what_to_run() -> None:
    with open_server("fake://") as server:
        nothing = Jobs(server).claim("orders")
        with pytest.raises(
            BadArgument, match="None is no claim: there was nothing to hand out. Run the cell that lands"
        ):
            Jobs(server).complete("orders", nothing)  # type: ignore[arg-type]
