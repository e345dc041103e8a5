"""`make bench ONLY=wire,stop` measures in pairs, A B A B, and prints medians with the least and the most.

Where something is measured against another, the pairs are compared, and the median of that must reach its goal.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

from batchq.cli.serve import tune_gc
from tests.bench.figures import HEAD
from tests.bench.groups import GROUPS
from tests.bench.scale import TINY, Scale


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    options.add_argument("--only", default="", help=f"of {','.join(GROUPS)}; all if it is empty")
    options.add_argument("--tiny", action="store_true", help="see whether it runs")
    for it in fields(Scale):
        options.add_argument(f"--{it.name.replace(chr(95), chr(45))}", type=type(it.default))
    given = vars(options.parse_args())
    chosen = [it for it in given.pop("only").split(",") if it] or list(GROUPS)
    scale = TINY if given.pop("tiny") else Scale()
    scale = replace(scale, **{name: it for name, it in given.items() if it is not None})
    unknown = set(chosen) - set(GROUPS)
    if unknown:
        sys.exit(f"no such group: {', '.join(sorted(unknown))}")
    tune_gc()  # as a server does, for what of it is measured in this process
    print(HEAD, flush=True)
    with tempfile.TemporaryDirectory(prefix="batchq-bench-code-") as folder:
        compile_into(Path(folder))
        tell(chosen, scale)


def compile_into(folder: Path) -> None:
    """Servers find their code compiled from the second start on, as installed ones do, whatever is set here."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(folder)


def tell(chosen: list[str], scale: Scale) -> None:
    for line in measured(chosen, scale):
        print(line, flush=True)


def measured(chosen: list[str], scale: Scale) -> Iterator[str]:
    """A line a figure, as they come; how long each group took goes to the error output."""
    for name in chosen:
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix=f"batchq-bench-{name}-") as folder:
            yield from map(str, GROUPS[name](scale, Path(folder)))
        print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
