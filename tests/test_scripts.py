"""The header is a contract: what is read from it, what is refused in it, and which calls it lets through."""

from __future__ import annotations

import hashlib
import pickle
import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from emqkit.__main__ import main
from emqkit.errors import BadHeader, NotInCall, ScriptArity, ScriptMissing
from emqkit.scripts import Argument, Group, Layout, Move, Patch, Script, ScriptSet, lua_folder, patches, shipped
from emqkit.scripts.header import sections

TRANSITIONS = [
    *("claim", "complete", "enqueue", "enqueue_flow", "enqueue_flow_child", "extend_lock", "extend_locks"),
    *("flow_deliver", "flow_fail_deliver", "hold_parent", "native_complete", "native_fail", "promote", "reap"),
    *("remove_job", "reprocess", "retry", "schedule"),
]


def script(*lines: str, name: str = "sum") -> Script:
    """A script of this header, with what every header needs where the test does not care."""
    given = list(lines)
    for word, line in (("keys", "-- keys     row"), ("argv", "-- argv     id"), ("replies", "-- replies  1 done")):
        if not any(given_line.startswith(f"-- {word}") for given_line in given):
            given.append(line)
    return Script.parse("\n".join([f"-- {name}: add things up", *given, "", "return 1", ""]), f"lua/{name}.lua")


def words(*names: str) -> tuple[Argument, ...]:
    return tuple(map(Argument, names))


def values(count: int) -> list[bytes]:
    return [b"%d" % place for place in range(1, count + 1)]


# --- reading a header -------------------------------------------------------------------------------------------------


def test_a_header_gives_name_sentence_keys_arguments_derived_keys_replies_and_moves() -> None:
    source = """\
-- sum: add things up, and answer
-- keys     row total
-- argv     id base
-- derives  base..pending  row..:logs
-- replies  1 done · 0 gone
-- replies  EMQSTALE sum token mismatch

-- A comment about the whole; it is no header line any more.
-- move: gate
local row = KEYS[1]
if row then
  -- move: add up
  redis.call('INCR', KEYS[2])
end
return 1
"""
    read = Script.parse(source, "lua/sum.lua")
    assert read == Script(
        name="sum",
        summary="add things up, and answer",
        layouts=(Layout("", words("row", "total"), words("id", "base")),),
        derives=("base..pending", "row..:logs"),
        replies=("1 done", "0 gone", "EMQSTALE sum token mismatch"),
        moves=(Move("gate", 9), Move("add up", 12)),
        source=source,
        path="lua/sum.lua",
    )


def test_a_layout_has_a_name_one_space_after_the_word_and_two_before_the_rest() -> None:
    read = script("-- keys     row", "-- keys up  row parent", "-- argv     id", "-- argv up  id 'up' parent")
    assert read.layouts == (
        Layout("", words("row"), words("id")),
        Layout("up", words("row", "parent"), (Argument("id"), Argument("up", literal=True), Argument("parent"))),
    )


def test_single_spaces_make_no_layout_name() -> None:
    assert script("-- keys up row").layouts == (Layout("", words("up", "row"), words("id")),)


def test_a_layout_shares_what_it_does_not_say_with_the_layout_without_a_name() -> None:
    by_keys = script("-- keys     row", "-- keys up  row parent", "-- argv     id")
    assert [(layout.name, layout.argv) for layout in by_keys.layouts] == [("", words("id")), ("up", words("id"))]
    by_argv = script("-- keys     row", "-- argv in  id 'in' ms", "-- argv at  id 'at' ms")
    assert [(layout.name, layout.keys) for layout in by_argv.layouts] == [("in", words("row")), ("at", words("row"))]


def test_repetitions_and_optional_tails_are_groups() -> None:
    read = script(
        "-- keys     parent (child)*n",
        "-- argv     id n (child payload)*n [(policy)*n]",
        "-- argv up  id n [above queue policy]",
        "-- argv on  id n 'on' (id token)*",
    )
    assert read.layouts[0].keys == (Argument("parent"), Group(words("child"), "n"))
    assert read.layouts[0].argv[2:] == (
        Group(words("child", "payload"), "n"),
        Group(words("policy"), "n", optional=True),
    )
    assert read.layouts[1].argv[2:] == (Group(words("above", "queue", "policy"), optional=True),)
    assert read.layouts[2].argv[3:] == (Group(words("id", "token"), "*"),)


def test_a_layout_reads_as_its_header_line() -> None:
    line = "id n 'on' (child payload)*n [(policy)*n]"
    assert str(script("-- keys     row (child)*n", f"-- argv     {line}").layouts[0]) == (
        f"keys row (child)*n, arguments {line}"
    )
    assert str(script("-- keys", "-- argv     (id token)*").layouts[0]) == "no keys, arguments (id token)*"
    assert str(script("-- argv     id [a b]").layouts[0]) == "keys row, arguments id [a b]"


@pytest.mark.parametrize("end", ["", "local x = 1", "-- move: gate"], ids=["blank line", "code", "move"])
def test_the_header_ends_where_the_body_begins(end: str) -> None:
    source = f"-- sum: add\n-- keys     row\n-- argv     id\n-- replies  1\n{end}\n-- not a header line\nreturn 1"
    assert Script.parse(source, "sum.lua").replies == ("1",)


def test_windows_line_ends_read_the_same() -> None:
    lines = (
        "-- sum: add",
        "-- keys     row",
        "-- argv     id 'x'",
        "-- replies  1 done",
        "",
        "-- move: gate",
        "return 1",
    )
    source = "\r\n".join(lines)
    read = Script.parse(source, "sum.lua")
    assert (read.summary, read.replies, read.moves) == ("add", ("1 done",), (Move("gate", 6),))
    assert read.source == source


@pytest.mark.parametrize(
    ("lines", "line", "why"),
    [
        (["-- keyz     row"], 2, "not 'keyz'"),
        (["-- keys     row", "-- note  see below"], 3, "not 'note'"),
        (["-- keys     row", "-- keys     row"], 3, "two lines of keys"),
        (["-- keys sq row", "-- keys xq row"], 3, "two lines of keys; a layout's name goes one space after"),
        (["-- argv a  id", "-- argv a  id b"], 3, "layout a has two lines of argv"),
        (["-- keys a  row", "-- argv b  id"], 2, "layout a has no argv line"),
        (["-- argv b  id", "-- keys a  row"], 3, "layout a has no argv line"),
        (["-- argv     id", "-- keys a  row", "-- argv b  id x"], 4, "layout b has no keys line"),
        (["-- keys     row", "--", "-- argv     id"], 3, "a blank line ends the header"),
        (["-- keys     row", "-- A sentence, too soon."], 3, "'A'"),
        (["-- keys     row", "--argv     id"], 3, "is not '-- word  rest'"),
        (["-- derives"], 2, "is not '-- word  rest'"),
        (["-- keys     row 'word'"], 2, "only an argument can be literal"),
        (["-- argv     id, token"], 2, "', token' is not a word"),
        (["-- argv     id …"], 2, "'…' is not a word"),
        (["-- argv     id 'open"], 2, "is not a word"),
        (["-- argv     id (token"], 2, ") is missing"),
        (["-- argv     id [token"], 2, "] is missing"),
        (["-- argv     id token)*n"], 2, ")*n closes nothing"),
        (["-- argv     id token]"], 2, "] closes nothing"),
        (["-- argv     n (token)"], 2, "(…) must be followed by *n"),
        (["-- argv     n (a]"], 2, "] closes nothing"),
        (["-- argv     n ()*n"], 2, "(…) holds one or more words"),
        (["-- argv     n []"], 2, "[…] holds one or more words or one (…)"),
        (["-- argv     n ((a)*n b)*n"], 2, "(…) holds one or more words"),
        (["-- argv     n [a (b)*n]"], 2, "[…] holds one or more words or one (…)"),
        (["-- argv     n [[a]]"], 2, "[…] holds one or more words or one (…)"),
        (["-- argv     id [a] b"], 2, "nothing can follow [a]"),
        (["-- argv     id (a)* b"], 2, "nothing can follow (a)*"),
        (["-- argv     n [a] [b]"], 2, "nothing can follow [a]"),
        (["-- argv     id (a)*n"], 2, "(a)*n is counted by n, which is not an argument before it"),
        (["-- argv     id (a)*2"], 2, "(a)*2 is counted by 2, which is not an argument before it"),
        (["-- argv     id 'n' (a)*n"], 2, "(a)*n is counted by n, which is not an argument before it"),
        (["-- keys     row (child)*n"], 2, "(child)*n is counted by n, which is not an argument before it"),
        (["-- argv     (a)*n n"], 2, "(a)*n is counted by n, which is not an argument before it"),
        (["-- argv     id id"], 2, "the name id appears twice"),
        (["-- keys     row row"], 2, "the name row appears twice"),
        (["-- argv     n (a a)*n"], 2, "the name a appears twice"),
        (["-- argv     n (a)*n [(a)*n]"], 2, "the name a appears twice"),
        (["-- argv     id [id]"], 2, "the name id appears twice"),
        (["-- argv     id", "-- argv a  token"], 3, "no call could tell layout a from the unnamed one"),
        (["-- argv a  id 'x'", "-- argv b  no 'x'"], 3, "no call could tell layout b from a"),
        (["-- derives  base..pending"], 2, "derives base..pending does not start with a key or an argument"),
        (["-- derives  row"], 2, "derives row does not start with a key or an argument and two dots"),
    ],
)
def test_a_header_that_is_no_contract_is_refused_with_its_line(lines: list[str], line: int, why: str) -> None:
    with pytest.raises(BadHeader) as caught:
        script(*lines)
    assert why in caught.value.why
    assert (caught.value.path, caught.value.line) == ("lua/sum.lua", line)
    assert f"lua/sum.lua, line {line}: " in str(caught.value)


@pytest.mark.parametrize("word", ["keys", "argv", "replies"])
def test_a_header_without_one_of_its_lines_is_refused(word: str) -> None:
    lines = ["-- sum: add", "-- keys     row", "-- argv     id", "-- replies  1", "", "return 1"]
    with pytest.raises(BadHeader, match=f"line 1: the header has no {word} line"):
        Script.parse("\n".join(line for line in lines if not line.startswith(f"-- {word}")), "sum.lua")


@pytest.mark.parametrize("first", ["", "return 1", "-- sum", "-- sum:", "--sum: add", "\ufeff-- sum: add"])
def test_a_file_opens_with_its_name_and_a_sentence(first: str) -> None:
    with pytest.raises(BadHeader, match="line 1: the first line is not '-- sum: one sentence'"):
        Script.parse(f"{first}\n-- keys     row", "lua/sum.lua")


def test_a_header_belongs_to_the_file_of_its_name() -> None:
    with pytest.raises(BadHeader, match=r"the header is that of sum, and the file is called add\.lua"):
        Script.parse("-- sum: add", "lua/add.lua")


def test_a_move_opens_once() -> None:
    source = "-- sum: add\n-- keys     row\n-- argv     id\n-- replies  1\n\n-- move: gate\n  -- move: gate\nreturn 1"
    with pytest.raises(BadHeader, match="line 7: the move 'gate' already opens in line 6"):
        Script.parse(source, "sum.lua")


def test_a_file_that_is_no_utf_8_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "sum.lua").write_bytes(b"-- sum: add\n-- keys     row\xff\n")
    with pytest.raises(BadHeader, match="line 2: the file is not UTF-8 text"):
        Script.read(tmp_path / "sum.lua")


def test_the_sha_is_that_of_the_bytes_that_are_sent() -> None:
    read = script("-- argv     id", "-- replies  1 done · 0 gone")
    assert read.sha == hashlib.sha1(read.source.encode()).hexdigest()


# --- which calls fit --------------------------------------------------------------------------------------------------


def layout(read: Script, keys: int, args: list[bytes]) -> str:
    return read.layout_for(values(keys), args).name


def test_layouts_are_told_by_their_counts_and_literals() -> None:
    complete = ScriptSet.load("published")["complete"]
    assert layout(complete, 2, values(3)) == ""
    assert layout(complete, 5, values(5)) == "sq"
    assert layout(complete, 3, [*values(5), b"xq", b"orders"]) == "xq"
    schedule = ScriptSet.load("published")["schedule"]
    assert layout(schedule, 2, [b"id", b"payload", b"in", b"5"]) == "in"
    assert layout(schedule, 2, [b"id", b"payload", b"at", b"5"]) == "at"


@pytest.mark.parametrize(
    ("name", "keys", "args", "why"),
    [
        ("claim", 2, values(1), "2 keys and 1 argument came; it takes keys pending active, arguments prefix lease: "),
        ("claim", 2, values(1), "argument 2 (lease) is missing"),
        ("claim", 1, values(2), "key 2 (active) is missing"),
        ("claim", 3, values(2), "1 key too many"),
        ("claim", 2, values(4), "2 arguments too many"),
        ("complete", 4, values(3), "4 keys and 3 arguments came; the plain layout takes keys active row"),
        ("complete", 4, values(3), "sq takes keys active row dependencies processed parent"),
        ("complete", 3, [*values(5), b"sq", b"q"], "argument 6 is 'sq', not 'xq'"),
        ("schedule", 2, [b"id", b"payload", b"later", b"5"], "argument 3 is 'later', not 'in'"),
        ("schedule", 2, [b"id", b"payload", b"\xff", b"5"], r"argument 3 is '\\xff', not 'at'"),
        ("schedule", 2, [b"id", b"payload", b"x" * 50, b"5"], f"argument 3 is '{'x' * 39}…', not 'at'"),
        (
            "enqueue_flow",
            5,
            [b"P", b"p", b"2", *values(3)],
            "n says 2 × 2, and 3 arguments came for (child_id payload)*n",
        ),
        ("enqueue_flow", 5, [b"P", b"p", b"2", *values(5)], "1 argument too many"),
        ("enqueue_flow", 4, [b"P", b"p", b"2", *values(4)], "n says 2, and 1 key came for (child)*n"),
        ("enqueue_flow", 6, [b"P", b"p", b"2", *values(4)], "1 key too many"),
        ("enqueue_flow", 4, [b"P", b"p", b"-1", *values(2)], "argument 3 (n) is '-1', not a count"),
        ("enqueue_flow", 4, [b"P", b"p", b"1.0", *values(2)], "argument 3 (n) is '1.0', not a count"),
        ("enqueue_flow", 4, [b"P", b"p", b"9" * 5000, *values(2)], "not a count"),
        ("enqueue_flow", 4, [b"P", b"p", b"999999999", *values(2)], "n says 999999999 × 2, and 2 arguments came"),
        ("extend_locks", 1, [b"base", b"5", *values(3)], "argument 6 (token 2) is missing"),
    ],
)
def test_a_call_that_fits_no_layout_says_what_was_expected_and_what_came(
    name: str, keys: int, args: list[bytes], why: str
) -> None:
    with pytest.raises(ScriptArity) as caught:
        ScriptSet.load("published")[name].layout_for(values(keys), args)
    assert why in caught.value.why
    assert caught.value.script == name
    assert str(caught.value).startswith(f"{name}: ")


def test_an_optional_tail_is_there_as_a_whole_or_not_at_all() -> None:
    tail = script("-- argv     id [parent queue policy]")
    assert [count for count in range(8) if _fits(tail, 1, values(count))] == [1, 4]
    counted = script("-- argv     n (child)*n [(policy)*n]")
    assert [count for count in range(10) if _fits(counted, 1, [b"3", *values(count)])] == [3, 6]
    assert _fits(counted, 1, [b"0"])


def _fits(read: Script, keys: int, args: list[bytes]) -> bool:
    try:
        read.layout_for(values(keys), args)
    except ScriptArity:
        return False
    return True


def test_of_several_layouts_that_fit_the_one_with_most_literals_wins() -> None:
    read = script("-- argv     id mode", "-- argv up  id 'up'", "-- argv on  (word)*")
    assert layout(read, 1, [b"a", b"up"]) == "up"
    assert layout(read, 1, [b"a", b"down"]) == ""
    assert layout(read, 1, [b"a"]) == "on"


def test_the_native_models_let_the_refused_flow_layouts_through() -> None:
    # EMQ.COMPLETE and EMQ.FAIL refuse them straight after numkeys, so what follows the keys must not be checked before.
    published = ScriptSet.load("published")
    for name, flat, flows in (("native_complete", (2, 3), (3, 5)), ("native_fail", (4, 6), (5, 8))):
        assert [layout(published[name], keys, values(n)) for keys in flows for n in (0, 9)] == ["xq", "xq", "sq", "sq"]
        assert [
            (k, a) for k in range(10) for a in range(10) if k not in flows and _fits(published[name], k, values(a))
        ] == [flat]


# --- a call by its names ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    verb: str
    keys: tuple[bytes, ...]
    args: tuple[bytes, ...]


FLOW = Asked("enqueue_flow", (b"row", b"counter", b"set", b"one", b"two"), (b"P", b"p", b"2", b"A", b"a", b"B", b"b"))


def test_a_view_gives_keys_and_arguments_by_their_names() -> None:
    view = ScriptSet.load("published").view(FLOW)
    assert (view.script, view.layout) == ("enqueue_flow", "")
    assert view.keys["pending"] == b"set"
    assert view.keys.all("child") == (b"one", b"two")
    assert (view.args["parent_id"], view.args.text("n")) == (b"P", "2")
    assert view.args["payload"] == b"p", "the parent's, beside those of the rounds"
    assert view.args.all("payload") == (b"a", b"b")
    assert view.args.all("child_id") == (b"A", b"B")
    assert "child_id" in view.args and "payload" in view.args and "child" not in view.args


def test_the_pairs_are_all_positions_in_order() -> None:
    published = ScriptSet.load("published")
    view = published.view(FLOW)
    assert view.keys.pairs == (
        ("parent", b"row"),
        ("dependencies", b"counter"),
        ("pending", b"set"),
        ("child 1", b"one"),
        ("child 2", b"two"),
    )
    assert [name for name, _ in view.args.pairs] == [
        *("parent_id", "payload", "n", "child_id 1", "payload 1", "child_id 2", "payload 2")
    ]
    args = published["complete"].view(values(3), [b"A", b"1", b"base", b"P", b"r", b"xq", b"orders"]).args
    assert args.pairs[-2:] == (("xq", b"xq"), ("parent_queue", b"orders"))
    assert "xq" not in args, "a literal is a word, not a name"
    args = published["extend_locks"].view(values(1), [b"base", b"5", b"A", b"1", b"B", b"2"]).args
    assert args.pairs[2:] == (("id 1", b"A"), ("token 1", b"1"), ("id 2", b"B"), ("token 2", b"2"))
    assert "id 1" not in args, "a number is for the eye; the name is id"


def test_a_view_follows_a_learners_header_with_other_positions_and_more() -> None:
    mine = script("-- keys     pending row", "-- argv     trace token id [why]", name="extend_lock")
    view = ScriptSet("mine", {"extend_lock": mine}).view(Asked("extend_lock", (b"set", b"hash"), (b"t", b"7", b"A")))
    assert (view.keys["row"], view.args["id"], view.args["token"]) == (b"hash", b"A", b"7")
    assert view.args.get("lease") is None


def test_a_call_by_its_names_is_a_value() -> None:
    read = script("-- keys     row (child)*", "-- argv     id 'x'")
    view, other = (read.view([b"r", b"c", child], [b"1", b"x"]) for child in (b"d", b"e"))
    assert view == read.view([b"r", b"c", b"d"], [b"1", b"x"]) != other
    assert len({view, other, replace(view)}) == 2
    assert repr(view.keys) == (
        "Named(script='sum', what='key', pairs=(('row', b'r'), ('child 1', b'c'), ('child 2', b'd')))"
    )


def test_what_a_call_leaves_out_is_none_and_what_it_must_have_is_refused_by_name() -> None:
    read = script("-- argv     id [parent policy]", "-- argv up  id 'up' (child)*")
    full, short = read.view([b"row"], [b"A", b"P", b"fp"]).args, read.view([b"row"], [b"A"]).args
    assert full.pairs == (("id", b"A"), ("parent", b"P"), ("policy", b"fp")), "an optional tail bears no number"
    assert (full.get("policy"), short.get("policy"), short.get("child")) == (b"fp", None, None)
    assert "policy" in full and "policy" not in short
    assert short.all("child") == ()
    with pytest.raises(NotInCall, match=r"sum: there is no argument 'policy': this call leaves it out") as left_out:
        short["policy"]
    assert left_out.value.declared
    for name in ("polcy", "up"):
        with pytest.raises(
            NotInCall, match=f"no argument '{name}': its header declares no argument of that name"
        ) as typo:
            short[name]
        assert not typo.value.declared
    with pytest.raises(NotInCall, match="no key 'id'"):
        read.view([b"row"], [b"A"]).keys.text("id")


def test_a_call_that_fits_no_layout_or_no_script_has_no_view() -> None:
    published = ScriptSet.load("published")
    with pytest.raises(ScriptArity, match="complete: 9 keys"):
        published.view(Asked("complete", tuple(values(9)), ()))
    with pytest.raises(ScriptMissing, match="HSET"):
        published.view(Asked("HSET", (b"row",), (b"state", b"dead")))


def test_a_view_is_made_once_and_another_text_has_another() -> None:
    one, again = (script("-- argv     id token") for _ in range(2))
    other = script("-- argv     token id")
    call = ([b"row"], [b"A", b"1"])
    assert one.view(*call) is again.view(*call)
    assert (one.view(*call).args["token"], other.view(*call).args["token"]) == (b"1", b"A")
    assert pickle.loads(pickle.dumps(one.view(*call))) == one.view(*call)


def test_a_script_takes_an_argument_if_some_layout_declares_it() -> None:
    read = script("-- argv     id", "-- argv up  id 'up' [(policy)*id]", "-- keys     row child")
    assert read.takes("id")
    assert read.takes("policy")
    assert not read.takes("up"), "a literal is a word, not an argument"
    assert not read.takes("child"), "a key is no argument"


def test_the_published_set_takes_no_policy_where_flows_land() -> None:
    published = ScriptSet.load("published")
    assert not any(published[name].takes("policy") for name in ("enqueue_flow", "hold_parent", "enqueue_flow_child"))


# --- sets -------------------------------------------------------------------------------------------------------------

OVERLAY = """\
-- claim: hand out nothing
-- keys     pending active
-- argv     prefix lease
-- replies  empty list

return {}
"""


def test_the_published_set_is_what_lies_in_lua_itself() -> None:
    published = ScriptSet.load("published")
    assert [read.name for read in published] == TRANSITIONS
    assert len(published) == len(TRANSITIONS)
    assert published.name == "published"
    assert published["claim"].path == "lua/claim.lua"
    assert published["claim"].source == (lua_folder() / "claim.lua").read_text(encoding="utf-8")


def test_the_tools_stand_alone() -> None:
    tools = ScriptSet.load("tools")
    assert "claim" not in tools
    assert [read.path for read in tools] == [f"lua/tools/{read.name}.lua" for read in tools]


def test_a_folder_is_laid_over_the_published_set(tmp_path: Path) -> None:
    folder = tmp_path / "idle"
    folder.mkdir()
    (folder / "claim.lua").write_text(OVERLAY, encoding="utf-8")
    (folder / "notes.txt").write_text("no Lua", encoding="utf-8")
    published = ScriptSet.load("published")
    for idle in (ScriptSet.load(folder), ScriptSet.load(str(folder))):
        assert idle.name == "idle"
        assert idle["claim"].source == OVERLAY
        assert idle["claim"].path == str(folder / "claim.lua")
        assert [read.name for read in idle] == TRANSITIONS
        assert [read.name for read in idle if read != published[read.name]] == ["claim"]
    assert published["claim"].source != OVERLAY


def test_a_name_within_lua_wins_over_a_folder_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "lua"
    for folder in (root / "sets" / "idle", tmp_path / "sets" / "idle"):
        folder.mkdir(parents=True)
        (folder / "claim.lua").write_text(OVERLAY + f"-- {folder.parent.parent.name}\n", encoding="utf-8")
    (root / "claim.lua").write_text(OVERLAY, encoding="utf-8")
    monkeypatch.setattr("emqkit.scripts.sets.lua_folder", lambda: root)
    monkeypatch.chdir(tmp_path)
    named, here = ScriptSet.load("sets/idle"), ScriptSet.load(Path("sets/idle"))
    assert (named.name, named["claim"].path) == ("sets/idle", "lua/sets/idle/claim.lua")
    assert named["claim"].source.endswith("-- lua\n")
    assert here.name == "idle"
    assert not here["claim"].source.endswith("-- lua\n")


def test_an_overlay_may_bring_scripts_of_its_own() -> None:
    one = ScriptSet("one", {"sum": script()})
    two = ScriptSet("two", {"add": script(name="add"), "sum": script("-- argv     id more")})
    both = one.overlay(two)
    assert both.name == "two"
    assert [read.name for read in both] == ["add", "sum"]
    assert both["sum"].takes("more")
    assert not one["sum"].takes("more")


def test_a_script_that_a_set_does_not_have_is_missing_by_name() -> None:
    with pytest.raises(ScriptMissing, match="no Lua script claims in the set published") as caught:
        ScriptSet.load("published")["claims"]
    assert caught.value.script == "claims"


def test_a_set_that_does_not_exist_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ScriptMissing, match=r"no Lua script hardend/\*\.lua in "):
        ScriptSet.load("hardend")
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(ScriptMissing, match=r"no Lua script \*\.lua in ") as caught:
            ScriptSet.load(folder)
        assert caught.value.where == str(folder)
    with pytest.raises(ScriptMissing):
        Script.read(tmp_path / "claim.lua")


def test_one_bad_header_refuses_the_whole_set(tmp_path: Path) -> None:
    (tmp_path / "claim.lua").write_text("return {}", encoding="utf-8")
    with pytest.raises(BadHeader):
        ScriptSet.load(tmp_path)


def test_without_lua_beside_or_inside_the_package_the_error_names_both_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "emqkit").mkdir()
    monkeypatch.setattr("emqkit.scripts.sets.__file__", str(tmp_path / "emqkit" / "scripts" / "sets.py"))
    with pytest.raises(ScriptMissing) as caught:
        lua_folder()
    assert str(tmp_path / "emqkit" / "lua") in str(caught.value)
    assert str(tmp_path / "lua") in str(caught.value)
    (tmp_path / "lua").mkdir()
    assert lua_folder() == tmp_path / "lua"
    (tmp_path / "emqkit" / "lua").mkdir()
    assert lua_folder() == tmp_path / "emqkit" / "lua"


def test_a_set_is_a_value() -> None:
    published = ScriptSet.load("published")
    assert published == ScriptSet.load("published")
    assert hash(published) == hash(ScriptSet.load("published"))
    assert pickle.loads(pickle.dumps(published)) == published
    with pytest.raises(TypeError):
        published.scripts["claim"] = script()  # type: ignore[index]
    assert repr(published) == "ScriptSet(name='published')"


def test_scripts_are_equal_when_name_and_text_are() -> None:
    one, elsewhere, named, other = script(), replace(script(), path="x"), script(name="add"), script("-- argv     x")
    assert one == elsewhere
    assert hash(one) == hash(elsewhere)
    assert one not in (named, other, replace(one, name="add"), one.source)


def test_no_repr_shows_a_whole_text() -> None:
    assert "return 1" not in repr(script())
    for patch in patches():
        assert not any(text in repr(patch) or repr(text) in repr(patch) for text in patch.sections)


def test_sets_are_told_apart_by_what_they_hold_and_not_by_their_names() -> None:
    mine, same, other = (
        ScriptSet(name, {"sum": script(f"-- argv     {argv}")})
        for name, argv in (("mine", "id"), ("same", "id"), ("mine", "token"))
    )
    assert mine.sha == same.sha != other.sha
    assert mine != same, "it is called something else"
    assert mine != other, "one of its texts is another"
    assert len({ScriptSet("mine", {verb: script() for verb in verbs}).sha for verbs in ("", "a", "b", "ab")}) == 4


@pytest.mark.parametrize(
    ("header", "line", "why"),
    [
        (["-- keys     active row", "-- argv     token id lease"], 3, "argument 1 is token, and callers put id there"),
        (["-- keys     row active", "-- argv     id token lease"], 2, "key 1 is row, and callers put active there"),
        (["-- keys     active row", "-- argv odd  token id lease"], 3, "argument 1 is token"),
        (["-- keys     active row", "-- argv     id token", "-- argv at  id lease token"], 4, "argument 2 is lease"),
        (["-- keys     active row", "-- argv     id (token)*"], 3, "argument 2 is (token)*, and callers put token"),
    ],
)
def test_a_header_that_puts_a_value_elsewhere_than_its_callers_is_refused(
    tmp_path: Path, header: list[str], line: int, why: str
) -> None:
    read = script(*header, name="extend_lock")
    (tmp_path / "extend_lock.lua").write_text(read.source, encoding="utf-8")
    with pytest.raises(BadHeader, match=re.escape(why)) as caught:
        ScriptSet.load(tmp_path)
    assert (caught.value.path, caught.value.line) == (str(tmp_path / "extend_lock.lua"), line)
    assert "lua/extend_lock.lua" in caught.value.why


def test_a_header_may_take_less_or_more_than_the_published_one_and_bring_layouts_of_its_own(tmp_path: Path) -> None:
    for name, header in (
        ("complete", ["-- keys     active row", "-- argv     id token base"]),
        ("hold_parent", ["-- keys     parent dependencies", "-- argv     parent_id payload n [above queue policy]"]),
        ("extend_lock", ["-- keys     active row", "-- argv     id token lease", "-- argv all  'all' lease token"]),
    ):
        (tmp_path / f"{name}.lua").write_text(script(*header, name=name).source, encoding="utf-8")
    assert ScriptSet.load(tmp_path)["hold_parent"].takes("policy")


# --- the zoo ----------------------------------------------------------------------------------------------------------

EACH_MISTAKE = pytest.mark.parametrize("patch", patches(), ids=lambda patch: patch.name)


@EACH_MISTAKE
def test_a_mistake_changes_the_moves_it_names_and_nothing_else(patch: Patch) -> None:
    published, mistaken = ScriptSet.load("published"), ScriptSet.load(f"zoo/{patch.name}")
    assert mistaken.name == f"zoo/{patch.name}"
    assert [read.name for read in mistaken if read != published[read.name]] == [patch.script]
    old, new = (sections(scripts[patch.script].source) for scripts in (published, mistaken))
    names = ["", *(move.name for move in published[patch.script].moves)]
    changed = [name for name, one, other in zip(names, old, new, strict=True) if one != other]
    assert sorted(changed) == sorted(move.name for move in patch.moves)
    assert mistaken[patch.script].path == f"lua/zoo/{patch.name}.lua"
    lines = (lua_folder() / "zoo" / f"{patch.name}.lua").read_text("utf-8").split("\n")
    for move, text in zip(patch.moves, patch.sections, strict=True):
        assert text in mistaken[patch.script].source
        assert lines[move.line - 1] == f"-- move: {move.name}"


@EACH_MISTAKE
def test_a_mistake_is_refused_when_the_published_script_has_its_moves_no_more(patch: Patch) -> None:
    published = ScriptSet.load("published")
    for move in patch.moves:
        source = published[patch.script].source.replace(f"-- move: {move.name}\n", f"-- move: {move.name} then\n")
        changed = Script.parse(source, published[patch.script].path)
        with pytest.raises(BadHeader, match=f"lua/{patch.script}.lua has no move '{move.name}': ") as caught:
            patch.over(published.overlay(ScriptSet("changed", {patch.script: changed})))
        assert (caught.value.path, caught.value.line) == (f"lua/zoo/{patch.name}.lua", move.line)
    with pytest.raises(BadHeader, match=f"line 1: there is no script {patch.script} in empty"):
        patch.over(ScriptSet("empty", {}))


MISTAKEN = """\
-- off, in sum: it adds one more

-- move: add
return 2
"""
SUM = """\
-- sum: add things up
-- keys     row
-- argv     id
-- replies  1 done

-- move: gate
local id = ARGV[1]

-- move: add
return 1

-- move: rest
return 0
"""


def mistaken(folder: Path, text: str) -> Script:
    (folder / "off.lua").write_bytes(text.encode("utf-8"))
    return Patch.read(folder / "off.lua").over(ScriptSet("mine", {"sum": Script.parse(SUM, "mine/sum.lua")}))


def test_a_replaced_move_keeps_the_blank_lines_around_it(tmp_path: Path) -> None:
    assert mistaken(tmp_path, MISTAKEN).source == SUM.replace("return 1", "return 2")
    assert mistaken(tmp_path, MISTAKEN.rstrip()).source == SUM.replace("return 1", "return 2")
    both = MISTAKEN.replace("-- move: add\n", "-- move: rest\nreturn 3\n-- move: add\n")
    assert mistaken(tmp_path, both).source == SUM.replace("return 1", "return 2").replace("return 0", "return 3")


@pytest.mark.parametrize(
    ("old", "new", "line", "why"),
    [
        ("-- off, in sum", "-- on, in sum", 1, "the first line is not '-- off, in SCRIPT: what is wrong'"),
        ("-- off, in sum: it adds one more", "-- off: it adds one more", 1, "the first line is not"),
        ("-- off, in sum", "-- off, in product", 1, "there is no script product in mine"),
        ("\n\n", "\n\n-- keys     row\n", 3, "only moves follow the first line"),
        ("-- move: add\nreturn 2\n", "", 1, "it replaces no move"),
        ("move: add", "move: ad", 3, "mine/sum.lua has no move 'ad': gate, add, rest"),
        ("return 2\n", "return 2\n\n-- move: add\nreturn 3\n", 6, "the move 'add' is replaced twice"),
        ("return 2", "return 1", 3, "the move 'add' is the same in mine/sum.lua"),
    ],
)
def test_a_mistake_that_does_not_fit_is_refused_with_its_line(
    tmp_path: Path, old: str, new: str, line: int, why: str
) -> None:
    assert old in MISTAKEN
    with pytest.raises(BadHeader, match=re.escape(why)) as caught:
        mistaken(tmp_path, MISTAKEN.replace(old, new))
    assert (caught.value.path, caught.value.line) == (str(tmp_path / "off.lua"), line)


def test_the_zoo_names_its_mistakes_when_it_has_not_the_one_asked_for() -> None:
    for name in ("zoo/no-fences", "zoo"):
        with pytest.raises(ScriptMissing, match=f"no Lua script {name} in the zoo, which has .*, no-fence, "):
            ScriptSet.load(name)


def test_everything_the_kit_comes_with_is_shipped_and_what_a_learner_changed_is_not() -> None:
    shas = {read.sha for read in shipped()}
    for name in ("published", "tools", *(f"zoo/{patch.name}" for patch in patches())):
        assert {read.sha for read in ScriptSet.load(name)} <= shas
    assert script().sha not in shas


def test_a_set_is_shown_as_its_difference_from_the_published_one(tmp_path: Path) -> None:
    published = ScriptSet.load("published")
    assert published.differences() == ""
    assert ScriptSet.load("zoo/half-removed").differences() == (
        "--- lua/remove_job.lua\n"
        "+++ lua/zoo/half-removed.lua\n"
        "@@ -18,7 +18,8 @@\n"
        " \n"
        " -- move: sets\n"
        " -- KEYS 2 to 5 are pending, active, schedule and dead. The row names one of them, but only looking in all is"
        " sure.\n"
        "-for i = 2, 5 do\n"
        "+-- MISTAKE: pending is left out, and the next claim hands out a job that has no row.\n"
        "+for i = 3, 5 do\n"
        "   redis.call('ZREM', KEYS[i], id)\n"
        " end\n"
        " \n"
    )
    scripts = {read.name: read for read in published if read.name != "reap"} | {"sum": script()}
    shown = ScriptSet("mine", scripts).differences()
    assert shown.startswith("--- lua/reap.lua\n+++ /dev/null\n")
    assert "--- /dev/null\n+++ lua/sum.lua\n@@ -0,0 +1,6 @@\n+-- sum: add things up\n" in shown


def test_the_command_line_lists_the_mistakes_and_shows_a_set_as_a_diff(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["scripts"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert len(listed) == len(patches())
    assert "zoo/no-fence            complete: a completion does not look at its token" in listed
    assert main(["scripts", "zoo/no-fence"]) == 0
    assert capsys.readouterr().out == ScriptSet.load("zoo/no-fence").differences()
    (tmp_path / "claim.lua").write_text(OVERLAY, encoding="utf-8")
    assert main(["scripts", str(tmp_path)]) == 0
    assert "+-- claim: hand out nothing\n" in capsys.readouterr().out
    assert main(["scripts", "published"]) == 0
    assert capsys.readouterr().out == "published: no difference from the published scripts.\n"
    assert main(["scripts", "zoo/no-fences"]) == 1
    assert "no-fence, " in capsys.readouterr().err


# --- what every Lua file owes its reader ------------------------------------------------------------------------------

FILES = sorted(path for path in lua_folder().rglob("*.lua") if path.parent.name != "zoo")
EACH_FILE = pytest.mark.parametrize("path", FILES, ids=[path.relative_to(lua_folder()).as_posix() for path in FILES])


@EACH_FILE
def test_every_line_of_code_stands_in_a_move(path: Path) -> None:
    read = Script.read(path)
    assert read.moves, "a learner steps by moves"
    before = read.source.split("\n")[: read.moves[0].line - 1]
    assert [line for line in before if line and not line.startswith("--")] == []


@EACH_FILE
def test_a_script_reads_the_clock_at_most_once(path: Path) -> None:
    code = re.sub(r"--.*", "", path.read_text(encoding="utf-8"))
    assert code.count("'TIME'") <= 1


def test_all_transitions_read_the_clock_by_the_same_lines() -> None:
    for read in ScriptSet.load("published"):
        lines = [line.strip() for line in read.source.split("\n") if "TIME" in line or "time[" in line]
        assert lines in (
            [],
            ["local time = redis.call('TIME')", "local now = time[1] * 1000 + math.floor(time[2] / 1000)"],
        ), read.name


def test_no_transition_uses_cjson_or_draws_lots() -> None:
    for read in ScriptSet.load("published"):
        code = re.sub(r"--.*", "", read.source)
        assert not re.search(r"cjson|cmsgpack|math\.random|RANDOMKEY|pcall", code), read.name


def test_every_error_a_transition_can_answer_stands_in_its_header() -> None:
    for read in ScriptSet.load("published"):
        answered = set(re.findall(r"redis\.error_reply\('([^']*)'\)", read.source))
        assert answered == {reply for reply in read.replies if reply.startswith("EMQ")}, read.name


def test_every_key_a_transition_builds_stands_in_its_header() -> None:
    for read in ScriptSet.load("published"):
        code = re.sub(r"--.*", "", read.source)
        built = {f"{root}..{rest}" for root, rest in re.findall(r"\b(base|row) \.\. '([^']*)'", code)}
        built |= {f"{root}..<id>" for root in re.findall(r"\b(prefix) \.\. id", code)}
        assert built == {pattern.replace("job:<id>", "job:") for pattern in read.derives}, read.name
