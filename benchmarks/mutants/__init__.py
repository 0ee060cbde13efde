"""Do the tests notice? A seeded sample of one-line faults in `emqkit/` and `lua/`, each run against its tests.

`sites` knows what can be changed in a line, `tests` which tests reach it, `running` what they say.
"""
