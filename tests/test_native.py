"""The native commands settle a flat job and refuse flows before any write; the lines they are sent as."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from watch import EVERY_BYTE, ILL_FORMED, A, B, P, Q, everything, metric, refused_unsent, row, unchanged, wire

import emqkit
from emqkit.errors import BadArgument, FlowNotNative, IllFormedId, IllFormedQueue, JobGone, StaleToken
from emqkit.flows import Child, Flow, Flows
from emqkit.jobs import Claim, Jobs
from emqkit.keyspace import digest
from emqkit.native import Native
from emqkit.servers import Server
from emqkit.transitions import ParentLink


@pytest.fixture
def native(server: Server) -> Native:
    return Native(server)


def claimed(server: Server, queue: str, flow: bool = False) -> Claim:
    jobs = Jobs(server)
    if flow:
        Flows(server).add(queue, Flow("p", [Child("x", id=A)], id=P))
    else:
        jobs.enqueue(queue, "x", id=A)
    claim = jobs.claim(queue)
    assert claim is not None
    return claim


# --- the flat forms ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["claim", "id and token"])
def test_complete_retires_a_flat_job_as_the_script_does(native: Native, queue: str, by: str) -> None:
    claim = claimed(native.server, queue)
    assert (native.complete(queue, claim) if by == "claim" else native.complete(queue, A, 1)) is True
    assert list(everything(native.server).keys) == [f"emq:{{{queue}}}:metrics:completed".encode()]
    assert metric(native.server, queue, "completed") == 1


def test_fail_schedules_and_then_kills_as_the_script_does(native: Native, queue: str) -> None:
    claim = claimed(native.server, queue)
    assert native.fail(queue, claim, error=EVERY_BYTE, max_attempts=2, delay_ms=0) == "scheduled"
    assert row(native.server, queue, A)[b"last_error"] == EVERY_BYTE
    jobs = Jobs(native.server)
    jobs.promote(queue)
    again = jobs.claim(queue)
    assert again is not None
    assert native.fail(queue, again, error="boom", max_attempts=2) == "dead"
    assert metric(native.server, queue, "failed") == 1


@pytest.mark.parametrize("settle", ["complete", "fail"])
@pytest.mark.parametrize("max_attempts", [1, 2])
def test_a_flat_job_settled_natively_ends_as_one_settled_by_script(
    native: Native, queue: str, settle: str, max_attempts: int
) -> None:
    claim = claimed(native.server, queue)
    if settle == "complete":
        native.complete(queue, claim)
    else:
        native.fail(queue, claim, error="boom", max_attempts=max_attempts)
    with native.server.scratch() as scripted:
        claim = claimed(scripted, queue)
        if settle == "complete":
            Jobs(scripted).complete(queue, claim)
        else:
            Jobs(scripted).retry(queue, claim, error="boom", max_attempts=max_attempts)
        assert digest(everything(scripted)) == digest(everything(native.server))


def test_a_native_command_is_one_round_trip(native: Native, queue: str) -> None:
    native.complete(queue, claimed(native.server, queue))
    claim = claimed(native.server, queue)
    with wire(native.server) as sent:
        native.complete(queue, claim)
    assert len(sent) == 1


def test_a_job_that_is_gone_and_a_stale_token_are_said_as_by_the_scripts(native: Native, queue: str) -> None:
    with unchanged(native.server, JobGone, match=A):
        native.complete(queue, A, 1)
    with unchanged(native.server, JobGone, match=A):
        native.fail(queue, A, 1, error="boom")
    claimed(native.server, queue)
    with unchanged(native.server, StaleToken, match="token 7"):
        native.complete(queue, A, 7)
    with unchanged(native.server, StaleToken, match="token 7"):
        native.fail(queue, A, 7, error="boom")


# --- flows are refused ------------------------------------------------------------------------------------------------

LINKS = [ParentLink(P), ParentLink(P, "elsewhere"), ParentLink(P, None, "id"), ParentLink(P, "elsewhere", "id")]


@pytest.mark.parametrize("there", ["flow child", "flat job", "nothing", "another token"])
@pytest.mark.parametrize("link", LINKS, ids=repr)
def test_a_flow_layout_is_refused_for_its_number_of_keys_alone(
    native: Native, queue: str, link: ParentLink, there: str
) -> None:
    if there != "nothing":
        claimed(native.server, queue, flow=there == "flow child")
    token = 7 if there == "another token" else 1
    with unchanged(native.server, FlowNotNative, match="EMQ.COMPLETE refused: EMQSTATE complete flow not native"):
        native.complete(queue, A, token, parent=link, result="r")
    with unchanged(native.server, FlowNotNative, match="EMQ.FAIL refused: EMQSTATE fail flow not native"):
        native.fail(queue, A, token, error="boom", parent=link)


@pytest.mark.parametrize("max_attempts", [1, 3])
def test_the_flat_form_is_refused_on_a_row_that_carries_parent(native: Native, queue: str, max_attempts: int) -> None:
    claim = claimed(native.server, queue, flow=True)
    with unchanged(native.server, FlowNotNative, match="use the jobs verb instead"):
        native.complete(queue, claim)
    with unchanged(native.server, FlowNotNative):
        native.fail(queue, claim, error="boom", max_attempts=max_attempts)
    with unchanged(native.server, StaleToken):  # the fence comes before the refusal
        native.complete(queue, A, 7)
    with unchanged(native.server, StaleToken):
        native.fail(queue, A, 7, error="boom")
    assert Jobs(native.server).complete(queue, claim)  # the scripted path is the one that does it


# --- the lines --------------------------------------------------------------------------------------------------------


def test_the_lines_read_as_the_dive_prints_them(native: Native) -> None:
    assert native.line(native.complete.program("q", A, 1)) == (
        f"EMQ.COMPLETE 2 emq:{{q}}:active emq:{{q}}:job:{A} {A} 1 emq:{{q}}:"
    )
    assert native.line(native.complete.program("q", A, 1, parent=ParentLink(P), result="ok")) == (
        f"EMQ.COMPLETE 5 emq:{{q}}:active emq:{{q}}:job:{A} emq:{{q}}:job:{P}:dependencies emq:{{q}}:job:{P}:processed "
        f"emq:{{q}}:job:{P} {A} 1 emq:{{q}}: {P} ok"
    )
    assert native.line(native.complete.program("q", A, 1, parent=ParentLink(P, "orders"))) == (
        f"EMQ.COMPLETE 3 emq:{{q}}:active emq:{{q}}:job:{A} emq:{{q}}:flow:outbox {A} 1 emq:{{q}}: {P} {A} xq orders"
    )
    assert native.line(native.fail.program("q", A, 1, error="boom")) == (
        f"EMQ.FAIL 4 emq:{{q}}:active emq:{{q}}:schedule emq:{{q}}:dead emq:{{q}}:job:{A} {A} 1 1000 3 boom emq:{{q}}:"
    )
    assert native.line(native.fail.program("q", A, 1, error="boom", parent=ParentLink(P, None, "id"))) == (
        f"EMQ.FAIL 8 emq:{{q}}:active emq:{{q}}:schedule emq:{{q}}:dead emq:{{q}}:job:{A} emq:{{q}}:job:{P}:failed "
        f"emq:{{q}}:job:{P}:unsuccessful emq:{{q}}:job:{P}:dependencies emq:{{q}}:job:{P} "
        f"{A} 1 1000 3 boom emq:{{q}}: sq:id {P}"
    )
    assert native.line(native.fail.program("q", A, 1, error="boom", parent=ParentLink(P, "orders"))) == (
        f"EMQ.FAIL 5 emq:{{q}}:active emq:{{q}}:schedule emq:{{q}}:dead emq:{{q}}:job:{A} emq:{{q}}:flow:outbox "
        f"{A} 1 1000 3 boom emq:{{q}}: xq:fp orders {P}"
    )


@pytest.mark.parametrize("parent, elsewhere", [(ParentLink(P), None), (ParentLink(P, "orders"), "orders")])
def test_a_flow_line_is_word_for_word_what_the_script_is_called_with(
    native: Native, queue: str, parent: ParentLink, elsewhere: str | None
) -> None:
    server = native.server
    fields = {"parent": P, **({"parent_queue": elsewhere} if elsewhere else {})}
    calls: list[tuple[bytes, ...]] = []
    for settle in ("complete", "retry"):
        claimed(server, queue)
        server.client.hset(f"emq:{{{queue}}}:job:{A}", mapping=dict(fields.items()))
        with wire(server) as sent:
            if settle == "complete":
                Jobs(server).complete(queue, A, 1, result="r")
            else:
                Jobs(server).retry(queue, A, 1, error="boom")
        calls.append(next(command for commands in sent for command in commands if command[0] == b"EVALSHA"))
    for (_, _, *words), program in zip(
        calls,
        (
            native.complete.program(queue, A, 1, parent=parent, result="r"),
            native.fail.program(queue, A, 1, error="boom", parent=parent),
        ),
        strict=True,
    ):
        assert native.line(program).split(" ")[1:] == [word.decode() for word in words]


def test_what_has_spaces_or_no_letters_is_quoted_in_a_line(native: Native) -> None:
    program = native.fail.program("two words", A, 1, error=b'say "no"\\\xff\0')
    line = native.line(program)
    assert '"emq:{two words}:active"' in line
    assert '"say \\"no\\"\\\\\\xff\\x00"' in line


def test_an_empty_word_is_quoted_so_that_it_is_seen(native: Native) -> None:
    assert native.line(native.complete.program("q", A, 1, parent=ParentLink(P), result="")).endswith(' ""')


def test_a_line_sends_nothing(native: Native) -> None:
    with wire(native.server) as sent:
        native.line(native.complete.program("q", A, 1))
    assert sent == []


def test_a_line_of_something_else_is_refused(native: Native) -> None:
    for program in (Jobs(native.server).claim.program("q"), Jobs(native.server).enqueue_many.program("q", [])):
        with pytest.raises(BadArgument, match="jobs"):
            native.line(program)
    with pytest.raises(IllFormedId):
        native.line(native.complete.program("q", "JOB", 1))


def test_a_parent_in_the_own_queue_counts_as_beside(native: Native) -> None:
    beside, named = (native.complete.program("q", A, 1, parent=ParentLink(P, queue)) for queue in (None, "q"))
    assert native.line(beside) == native.line(named)


# --- refused before anything is sent ----------------------------------------------------------------------------------

Refusal = Callable[[Native], object]


@pytest.mark.parametrize(
    "refusal",
    [
        *(lambda n, x=x: n.complete("q", A, x) for x in (None, -1, 1.5, True, "1")),
        *(lambda n, x=x: n.fail("q", A, x, error="e") for x in (None, -1, 1.5, True, "1")),
        *(lambda n, x=x: n.fail("q", A, 1, error=x) for x in (None, 7, True, ["e"])),
        *(lambda n, x=x: n.fail("q", A, 1, error="e", max_attempts=x) for x in (0, -1, 1.5, True, None)),
        *(lambda n, x=x: n.fail("q", A, 1, error="e", delay_ms=x) for x in (-1, 1.5, True, None)),
        *(lambda n, x=x: n.complete("q", A, 1, parent=ParentLink(P), result=x) for x in (7, True, ["r"])),
        *(lambda n, x=x: n.complete("q", A, 1, parent=x) for x in (P, 7, (P, None))),
        *(lambda n, x=x: n.complete("q", A, 1, parent=ParentLink(P, None, x)) for x in ("else",)),
        lambda n: n.complete("q", A, 1, result="no parent to give it to"),
        lambda n: n.complete("q", Claim("orders", A, b"", 1)),
        lambda n: n.fail("q", Claim("orders", A, b"", 1), error="e"),
    ],
)
def test_an_argument_that_cannot_be_used_is_refused(native: Native, refusal: Refusal) -> None:
    with refused_unsent(native.server, BadArgument, match="Nothing was sent"):
        refusal(native)


@pytest.mark.parametrize("id", ILL_FORMED, ids=repr)
def test_an_ill_formed_id_is_refused(native: Native, id: Any) -> None:
    for refusal in (
        lambda: native.complete("q", id, 1),
        lambda: native.fail("q", id, 1, error="e"),
        lambda: native.complete("q", A, 1, parent=ParentLink(id)),
        lambda: native.fail("q", A, 1, error="e", parent=ParentLink(id, "orders")),
    ):
        with refused_unsent(native.server, IllFormedId):
            refusal()


@pytest.mark.parametrize("queue", ["", "a{b", b"q", 7])
def test_an_ill_formed_queue_is_refused(native: Native, queue: Any) -> None:
    for refusal in (
        lambda: native.complete(queue, A, 1),
        lambda: native.fail(queue, A, 1, error="e"),
        lambda: native.complete("q", A, 1, parent=ParentLink(P, queue)),
    ):
        with refused_unsent(native.server, IllFormedQueue):
            refusal()


def test_the_public_names() -> None:
    assert emqkit.Native is Native
    assert emqkit.ParentLink is ParentLink
    assert hash(ParentLink(P)) == hash(ParentLink(P))
    assert ParentLink(P) != ParentLink(Q)
    assert A != B
