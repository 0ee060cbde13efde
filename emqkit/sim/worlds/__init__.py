"""Worlds: flows, the actors around them, what may go wrong, and the scenarios."""
