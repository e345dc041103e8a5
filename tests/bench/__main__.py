"""`make bench ONLY=wire,stop` measures in pairs, A B A B, and prints medians with minimum and maximum.

Where batchq is compared with a baseline, each pair is compared, and the median of the comparisons must reach the goal.
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
from tests.bench.figures import HEAD, TINY, Scale
from tests.bench.groups import GROUPS


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    options.add_argument("--only", default="", help=f"groups of {','.join(GROUPS)}; empty: all")
    options.add_argument("--tiny", action="store_true", help="smallest numbers, to see that the groups run")
    for field in fields(Scale):
        options.add_argument(f"--{field.name.replace(chr(95), chr(45))}", type=type(field.default))
    given = vars(options.parse_args())
    chosen = [part for part in given.pop("only").split(",") if part] or list(GROUPS)
    scale = TINY if given.pop("tiny") else Scale()
    scale = replace(scale, **{name: value for name, value in given.items() if value is not None})
    unknown = set(chosen) - set(GROUPS)
    if unknown:
        sys.exit(f"no such group: {', '.join(sorted(unknown))}")
    tune_gc()  # as a server does: parts of it are measured in this process
    print(HEAD, flush=True)
    with tempfile.TemporaryDirectory(prefix="batchq-bench-code-") as folder:
        compile_into(Path(folder))
        for line in figure_lines(chosen, scale):
            print(line, flush=True)


def compile_into(folder: Path) -> None:
    """Let servers cache their bytecode in `folder`, as installed ones do, despite PYTHONDONTWRITEBYTECODE."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(folder)


def figure_lines(chosen: list[str], scale: Scale) -> Iterator[str]:
    """A line for each figure once it is measured; the duration of each group goes to the error output."""
    for name in chosen:
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix=f"batchq-bench-{name}-") as folder:
            yield from map(str, GROUPS[name](scale, Path(folder)))
        print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
