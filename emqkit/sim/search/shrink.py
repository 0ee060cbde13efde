"""Shrinks a history: drops moves that the violation does not need, as long as it still breaks.

A history from the search is already the shortest; one from `wander` consists mostly of idle moves.
"""

from __future__ import annotations

from emqkit.servers import Server
from emqkit.sim.history import History
from emqkit.sim.search.walk import walk_along

__all__ = ["shrink"]


def shrink(history: History, server: Server) -> History:
    """The history with as many moves dropped as possible; every candidate is really made.

    Args:
        history: one that breaks a promise.
        server: its scratch place is used.

    Returns:
        A history none of whose moves can be dropped alone; the same one if it does not break again here.
    """
    best = history
    moves = list(history.as_json()["moves"])
    piece = max(len(moves) // 2, 1)
    while True:
        at, shorter = 0, False
        while at < len(moves):
            fewer = moves[:at] + moves[at + piece :]
            done = walk_along(history.world, fewer, history.promise, history.scripts, server)
            if done.confirmed:
                moves, best, shorter = fewer, done.history, True
            else:
                at += piece
        if piece == 1 and not shorter:
            return best
        piece = max(piece // 2, 1)
