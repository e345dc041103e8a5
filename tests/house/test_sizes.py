"""Small files, smaller functions."""

import ast

from tests.house.rooms import name, sources

LINES_OF_A_FILE = 300
LINES_OF_A_FUNCTION = 40


def lengths_of_functions(source):
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{name(source)}:{node.lineno} {node.name}", node.end_lineno - node.lineno + 1


def test_every_file_is_under_300_lines():
    lengths = {name(source): len(source.read_text().splitlines()) for source in sources()}

    assert {it: length for it, length in lengths.items() if length >= LINES_OF_A_FILE} == {}


def test_every_function_is_under_40_lines():
    lengths = dict(it for source in sources() for it in lengths_of_functions(source))

    assert {it: length for it, length in lengths.items() if length >= LINES_OF_A_FUNCTION} == {}
