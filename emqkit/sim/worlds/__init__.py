"""Worlds: flows, the actors around them, what may go wrong, and the catalogue of those explored by name."""
