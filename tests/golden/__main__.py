"""Compare the golden files with what the product does, or write them anew: `python -m tests.golden [--write]`."""

import sys
from difflib import unified_diff
from pathlib import Path

from tests.golden import answers, docker, server, stored

FOLDER = Path(__file__).parent / "files"


def generated() -> dict[str, str]:
    """The text of every golden file, as the product makes it now."""
    return stored.files() | docker.files() | server.files() | answers.files()


def kept() -> dict[str, str]:
    return {str(path.relative_to(FOLDER)): path.read_text() for path in sorted(FOLDER.rglob("*")) if path.is_file()}


def write(files: dict[str, str]) -> None:
    for name in kept().keys() - files.keys():
        (FOLDER / name).unlink()
    for name, text in files.items():
        path = FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def difference(name: str, before: str, now: str) -> str:
    lines = unified_diff(before.splitlines(), now.splitlines(), f"golden/{name}", f"now/{name}", lineterm="", n=2)
    return "\n".join(lines)


def main(words: list[str]) -> int:
    files, before = generated(), kept()
    changed = [path for path in sorted(files.keys() | before.keys()) if files.get(path) != before.get(path)]
    if "--write" in words:
        write(files)
    for name in changed:
        print(difference(name, before.get(name, ""), files.get(name, "")))
    return 1 if changed and "--write" not in words else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
