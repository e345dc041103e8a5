"""Rules of this repository that no linter has."""

import ast
import re

import pytest

from tests.house.rooms import ROOT, name, sources, tree

# Closing a database file that SQLite has open releases its locks: another process then deletes the WAL in use.
BESIDE_SQLITE = re.compile(r"(?<!def )\bopen\((?!.*# not the database)|\bshutil\b|\.(read|write)_(bytes|text)\(")
BLIND = re.compile(r"\bexcept\s*(:|[^\n]*Exception\b)")
BLIND_WITH_REASON = re.compile(r"# noqa: BLE001 - \w+")
A_DEVELOPERS_MACHINE = re.compile(rf"(?<![\w./-])/wor[k]/|{re.escape(str(ROOT))}/")
# These modules open other files than those of the database.
FILES = {"log_files.py", "checkpoint_files.py", "checkpoint_marks.py", "checkpoint_removal.py"}
TEXT = {".py", ".md", ".toml", ".txt", ".sql", ".html", ".js", ".css", ".json", ""}


def found(pattern, sources):
    """The places of the lines of these files in which the pattern is found."""
    places = []
    for source in sources:
        text = source.read_text()
        if pattern.search(text):  # takes a tenth of the time of a search of each line
            lines = enumerate(text.splitlines(), start=1)
            places += [f"{name(source)}:{number}" for number, line in lines if pattern.search(line)]
    return places


def written_files():
    rooms = ["batchq", "compute", "api", "tests", "docs", ".ci"]
    inside = [path for room in rooms for path in (ROOT / room).rglob("*") if "__pycache__" not in path.parts]
    return [
        path for path in [*ROOT.iterdir(), *inside] if path.is_file() and path.suffix in TEXT and path.name != ".git"
    ]


@pytest.mark.fault("DB15")
def test_the_store_touches_its_files_through_sqlite_alone():
    store = [source for source in sources() if name(source).startswith("batchq/store/") and source.name not in FILES]

    assert found(BESIDE_SQLITE, store) == []


def blind_excepts(source):
    """Handlers of every error that do not raise it again."""
    if not BLIND.search(source.read_text()):  # the search takes a hundredth of the time of a parse
        return []
    handlers = (node for node in ast.walk(tree(source)) if isinstance(node, ast.ExceptHandler))
    every = (
        handler
        for handler in handlers
        if handler.type is None or getattr(handler.type, "id", "") in {"Exception", "BaseException"}
    )
    return [
        handler
        for handler in every
        if not any(isinstance(line, ast.Raise) and not line.exc for line in ast.walk(handler))
    ]


def test_a_blind_except_is_in_the_loop_or_has_a_reason():
    blind = [
        (name(source), source_line)
        for source in sources()
        for handler in blind_excepts(source)
        for source_line in [source.read_text().splitlines()[handler.lineno - 1]]
    ]

    in_the_loop = [where for where, _ in blind if where == "batchq/engine/loop.py"]
    silent = [pair for pair in blind if pair[0] not in in_the_loop and not BLIND_WITH_REASON.search(pair[1])]

    assert silent == []
    assert len(in_the_loop) <= 1


PART_OF_UNIT = re.compile(r"\bunit(\.\w+)+(\[.*\])? [-+|]?= |\bunit(\.\w+){2,}\.(append|extend|add|update|pop|clear)\(")


def test_a_unit_of_work_is_changed_by_the_methods_of_its_parts():
    engine = [source for source in sources() if name(source).startswith("batchq/engine/")]

    assert found(PART_OF_UNIT, engine) == []


def test_no_file_names_a_path_of_a_developers_machine():
    assert found(A_DEVELOPERS_MACHINE, written_files()) == []


def test_tests_make_clients_of_docker_by_docker_api_alone():
    """Other clients ignore DOCKER_HOST, or use an API version that the engine no longer supports."""
    tests = [path for path in (ROOT / "tests").rglob("*.py") if path.name != "docker_api.py"]

    assert found(re.compile(r"\bAPIClient[(]"), tests) == []
