"""The lowest version of everything pyproject.toml declares a range for, as a constraints file for pip.

python tests/lowest.py > constraints.txt && pip install -e '.[embedded,test]' -c constraints.txt
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path


def lowest() -> list[str]:
    """`name==version; marker` for each dependency, extras included, at the bottom of its range."""
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    declared = [*project["dependencies"], *(line for extra in extras for line in extra)]
    pinned = []
    for line in declared:
        found = re.fullmatch(r"([\w.-]+)(?:\[[\w,]+\])?>=([\w.]+),<[\w.]+(;.*)?", line.replace("; ", ";"))
        if found is None:
            raise SystemExit(f"pyproject.toml declares {line!r}: write name>=lowest,<next; marker")
        pinned.append(f"{found[1]}=={found[2]}{found[3] or ''}")
    return sorted(set(pinned))


if __name__ == "__main__":
    print("\n".join(lowest()))
