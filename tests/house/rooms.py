"""The source files of the product, their module names and syntax trees."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("batchq", "compute", "api")


def sources():
    return sorted(source for package in PACKAGES for source in (ROOT / package).rglob("*.py"))


@cache
def tree(source):
    """The syntax tree of a source, which no test changes."""
    return ast.parse(source.read_text())


def name(source):
    return str(source.relative_to(ROOT))


def module(source):
    """The dotted name; `api` and `compute` are packages of batchq through the links batchq/api and batchq/compute."""
    parts = source.relative_to(ROOT).with_suffix("").parts
    if parts[0] != "batchq":
        parts = ("batchq", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
