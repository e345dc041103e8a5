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
    return {str(it.relative_to(FOLDER)): it.read_text() for it in sorted(FOLDER.rglob("*")) if it.is_file()}


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
    changed = [it for it in sorted(files.keys() | before.keys()) if files.get(it) != before.get(it)]
    if "--write" in words:
        write(files)
    for name in changed:
        print(difference(name, before.get(name, ""), files.get(name, "")))
    return 1 if changed and "--write" not in words else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
