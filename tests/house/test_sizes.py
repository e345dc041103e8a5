"""Limits on the length of files and functions, and one meaning for each public name."""

import ast

from tests.house.measure import names_defined_twice, trees
from tests.house.rooms import name, sources, tree

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 40


def lengths_of_functions(source):
    for node in ast.walk(tree(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{name(source)}:{node.lineno} {node.name}", node.end_lineno - node.lineno + 1


def test_every_file_has_at_most_400_lines():
    lengths = {name(source): len(source.read_text().splitlines()) for source in sources()}

    assert {it: length for it, length in lengths.items() if length > MAX_FILE_LINES} == {}


def test_every_function_has_at_most_40_lines():
    lengths = dict(it for source in sources() for it in lengths_of_functions(source))

    assert {it: length for it, length in lengths.items() if length > MAX_FUNCTION_LINES} == {}


def test_every_public_name_is_defined_in_one_module():
    modules = trees()

    classes = names_defined_twice(modules, ast.ClassDef)
    functions = names_defined_twice(modules, ast.FunctionDef | ast.AsyncFunctionDef)

    # Each dialect of the API has a function `dialect`, which mounts it.
    assert classes | {name: places for name, places in functions.items() if name != "dialect"} == {}
