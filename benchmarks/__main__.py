"""`python -m benchmarks [NAME …]` runs the named benchmarks, or all of them; options after `--` go to each."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import benchmarks


def main(argv: list[str]) -> int:
    """Run them one after the other."""
    names, _, options = (
        (argv, "", []) if "--" not in argv else (argv[: argv.index("--")], "", argv[argv.index("--") + 1 :])
    )
    known = sorted(
        module.name
        for module in pkgutil.iter_modules(benchmarks.__path__)
        if not module.ispkg and module.name != "__main__"
    )
    for name in names or known:
        if name not in known:
            print(f"There is no benchmark {name}; there are {', '.join(known)}.", file=sys.stderr)
            return 2
        status: int = importlib.import_module(f"benchmarks.{name}").main(options)
        if status:
            return status
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
