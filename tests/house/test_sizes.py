"""Limits on the length of packages, files and functions, and one meaning for each public name."""

from collections import Counter

from tests.house.measure import functions, names_defined_twice
from tests.house.rooms import ROOT, name, sources

#: A change that needs more lines raises the limit, and its commit says what a user gains. Decision 0063.
MAX_PACKAGE_LINES = {
    "api": 100,
    "api/auth": 550,
    "api/batch": 4_300,
    "api/console": 8_900,
    "api/http": 1_300,
    "api/logs": 500,
    "api/metrics": 550,
    "api/native": 2_300,
    "api/operations": 1_500,
    "api/serving": 500,
    "api/training": 4_650,
    "batchq": 700,
    "batchq/accounts": 950,
    "batchq/cli": 9_700,
    "batchq/doctor": 900,
    "batchq/domain": 14_200,
    "batchq/engine": 8_400,
    "batchq/logs": 1_650,
    "batchq/ports": 3_300,
    "batchq/server": 1_400,
    "batchq/services": 4_950,
    "batchq/store": 6_600,
    "batchq/system": 850,
    "batchq/webhooks": 850,
    "compute": 700,
    "compute/docker": 5_850,
    "compute/kubernetes": 4_800,
    "compute/simulated": 1_050,
    "tests": 119_500,
}
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 40


def test_no_package_has_more_lines_than_its_limit():
    lines = Counter()
    for source in (*sources(), *(ROOT / "tests").rglob("*.py")):
        folders = source.relative_to(ROOT).parent.parts
        lines["tests" if folders[0] == "tests" else "/".join(folders[:2])] += len(source.read_text().splitlines())

    assert lines.keys() == MAX_PACKAGE_LINES.keys()
    assert {line: count for line, count in lines.items() if count > MAX_PACKAGE_LINES[line]} == {}


def test_every_file_has_at_most_400_lines():
    lengths = {name(source): len(source.read_text().splitlines()) for source in sources()}

    assert {key: length for key, length in lengths.items() if length > MAX_FILE_LINES} == {}


def test_every_function_has_at_most_40_lines():
    lengths = {f"{name(each.source)}:{each.line} {each.name}": each.lines for each in functions()}

    assert {key: length for key, length in lengths.items() if length > MAX_FUNCTION_LINES} == {}


def test_every_public_name_is_defined_in_one_module():
    classes, callables = names_defined_twice("class"), names_defined_twice("function")

    assert classes | callables == {}
