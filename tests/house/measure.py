"""Print the size and the shape of the code: `python -m tests.house.measure`.

Files, lines, functions, names defined more than once, imports from a lower layer to a higher one, and the first
import cycle between modules. The layers are those of import-linter's contract in pyproject.toml, top first.
"""

import ast
import graphlib
import re
import statistics
import tomllib
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.house.rooms import ROOT, imports, module, sources, tree

KINDS = {ast.ClassDef: "class", ast.FunctionDef: "function", ast.AsyncFunctionDef: "function"}
#: The members of syntax nodes that have statements, or clauses that have them.
BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


class Definition(NamedTuple):
    """A class or a function of the product."""

    kind: str  # "class" or "function"
    source: Path
    name: str
    line: int
    lines: int
    is_top_level: bool


@cache
def definitions():
    """All definitions, from one parse of each source. The trees are not kept: together they have 100 MiB."""
    found = []
    for source in sources():
        module_tree = tree(source)
        top = set(module_tree.body)
        found += [
            Definition(
                KINDS[type(node)], source, node.name, node.lineno, node.end_lineno - node.lineno + 1, node in top
            )
            for node in statements(module_tree)
            if type(node) in KINDS
        ]
    return found


def statements(block):
    """All statements of a block, also nested ones. `ast.walk` visits ten times as many nodes: those of expressions."""
    for field in BLOCKS:
        for inner in getattr(block, field, ()):
            yield inner
            yield from statements(inner)


def functions():
    return [definition for definition in definitions() if definition.kind == "function"]


def names_defined_twice(kind):
    """Public top-level names of this kind, with the modules that define them, for names with several."""
    places = defaultdict(list)
    for each in definitions():
        if each.kind == kind and each.is_top_level and not each.name.startswith("_"):
            places[each.name].append(module(each.source))
    return {name: found for name, found in places.items() if len(found) > 1}


def layers():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    listed = next(contract["layers"] for contract in contracts if contract["id"] == "layers")
    return {name: depth for depth, layer in enumerate(listed) for name in re.findall(r"[\w.]+", layer)}


def depth_of(where, depths):
    """The depth of the layer that holds a module; None for the package itself, which is on no layer."""
    holders = [name for name in depths if where == name or where.startswith(f"{name}.")]
    return depths[max(holders, key=len)] if holders else None


def upward(pairs):
    depths = layers()
    placed = ((source, target, depth_of(source, depths), depth_of(target, depths)) for source, target in pairs)
    return sorted((source, target) for source, target, one, two in placed if None not in (one, two) and one > two)


def first_cycle(pairs):
    """Modules that import each other in a ring; empty when no module imports itself through others."""
    imported = defaultdict(set)
    for source, target in pairs:
        imported[source].add(target)
    try:
        graphlib.TopologicalSorter(imported).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return ()


def main():
    pairs = imports()
    lines = [len(source.read_text().splitlines()) for source in sources()]
    tests = [len(path.read_text().splitlines()) for path in (ROOT / "tests").rglob("*.py")]
    lengths = sorted(function.lines for function in functions())
    middle, tenth = statistics.median(lengths), lengths[int(len(lengths) * 0.9)]
    print(f"product: {len(lines)} files, {sum(lines)} lines; median {statistics.median(lines):g}, longest {max(lines)}")
    print(f"tests: {len(tests)} files, {sum(tests)} lines")
    print(f"functions: {len(lengths)}; lines: median {middle:g}, p90 {tenth}, longest {lengths[-1]}")
    for title, kind in (("classes", "class"), ("functions", "function")):
        twice = names_defined_twice(kind)
        print(f"public {title} defined in several modules: {len(twice)}")
        for name, places in sorted(twice.items(), key=lambda pair: -len(pair[1]))[:10]:
            print(f"  {name} x{len(places)}: {', '.join(places[:5])}")
    cycle = " -> ".join(first_cycle(pairs)) or "none"
    print(f"imports: {len(pairs)}; upward: {len(upward(pairs))}; first cycle: {cycle}")


if __name__ == "__main__":
    main()
