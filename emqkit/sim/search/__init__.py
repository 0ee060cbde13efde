"""The search: states as numbers, every order of calls, and the verdicts."""
