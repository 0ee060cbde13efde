"""A script is a Lua file that opens with its contract: what it takes, what it derives, what it answers.

The header is read once and used four times: it checks every call's shape before anything is sent, gives every key and
argument of a call its name, tells the host what a script set can do, and is the catalogue's text. Its grammar:

    -- NAME: one sentence
    -- keys     active row                  the layout without a name
    -- keys                                 a bare word: it takes none
    -- keys sq  active row dependencies     the layout `sq`: one space before its name, two or more after
    -- argv     id token (child payload)*n  `(…)*n` stands as often as the argument `n` says
    -- argv sq  id 'sq' (id token)*         a quoted word is literal; `(…)*` stands as often as there are values left
    -- argv up  id [parent policy]          `[…]` is a tail that is there as a whole or not at all
    -- derives  base..pending  row..:logs   keys the script builds itself, from a key or an argument
    -- replies  1 done · 0 gone             `derives` and `replies` may take several lines

The header ends at the first blank line, at the first line that is no comment, or at the first `-- move: NAME`. Such a
comment, anywhere in the body, opens a move: the unit a learner steps by.
"""

from emqkit.scripts.contract import Argument, CallView, Group, Item, Layout, Move, Named
from emqkit.scripts.header import moves_of
from emqkit.scripts.sets import Patch, Script, ScriptSet, lua_folder, patches, shipped

__all__ = [
    "Argument",
    "CallView",
    "Group",
    "Item",
    "Layout",
    "Move",
    "Named",
    "Patch",
    "Script",
    "ScriptSet",
    "lua_folder",
    "moves_of",
    "patches",
    "shipped",
]
