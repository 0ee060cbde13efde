"""A script is a Lua file that opens with its contract: what it takes, what keys it derives, what it replies.

The header has four uses: it checks every call's shape before anything is sent, names each key and argument of a call,
tells the host what a script set can do, and supplies the catalogue's text. Its grammar:

    -- NAME: one sentence
    -- keys     active row                  the layout without a name
    -- keys                                 nothing after the word: it takes none
    -- keys sq  active row dependencies     the layout `sq`: one space before its name, two or more after
    -- argv     id token (child payload)*n  `(…)*n` repeats as often as the argument `n` says
    -- argv sq  id 'sq' (id token)*         a quoted word is literal; `(…)*` repeats until no values are left
    -- argv up  id [parent policy]          `[…]` is an optional tail, present as a whole or not at all
    -- derives  base..pending  row..:logs   keys the script builds itself, from a key or an argument
    -- replies  1 done · 0 gone             `derives` and `replies` may take several lines

The header ends at the first blank line, at the first line that is not a comment, or at the first `-- move: NAME`. Such
a comment, anywhere in the body, opens a move: the unit by which a learner steps.
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
