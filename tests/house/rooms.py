"""The source files of the product, their module names, syntax trees and imports."""

import ast
from functools import cache
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[2]
PACKAGES = ("batchq", "compute", "api")


def sources():
    return sorted(source for package in PACKAGES for source in (ROOT / package).rglob("*.py"))


def tree(source):
    """The syntax tree of a source. It is not cached: the trees of all sources have 100 MiB."""
    return ast.parse(source.read_text())


def name(source):
    return str(source.relative_to(ROOT))


def module(source):
    """The dotted name; `api` and `compute` are packages of batchq through the links batchq/api and batchq/compute."""
    parts = source.relative_to(ROOT).with_suffix("").parts
    if parts[0] != "batchq":
        parts = ("batchq", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imports():
    """Pairs (importing module, imported module), both of batchq."""
    graph = grimp.build_graph("batchq", cache_dir=None)
    return sorted(
        (other_module, target)
        for other_module in graph.modules
        for target in graph.find_modules_directly_imported_by(other_module)
    )
