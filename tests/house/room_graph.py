"""The picture of the rooms in docs/architecture.md, from the imports. `python -m tests.house.room_graph` writes it.

Arrows that follow from others are left out (transitive reduction).
"""

import re

from tests.house.rooms import ROOT, imports

PAGE = ROOT / "docs" / "architecture.md"
OPENING, CLOSING = "<!-- rooms -->", "<!-- /rooms -->"
PACKAGES = {"batchq", "batchq.compute", "batchq.api"}
BLOCK = re.compile(f"{OPENING}.*{CLOSING}", re.DOTALL)


def room(name):
    """The API is one room; elsewhere a room is a package or module directly below `batchq` or `batchq.compute`."""
    _, top, *rest = name.split(".")
    if top == "compute" and len(rest) > 1:
        return f"compute.{rest[0]}"
    return top


def edges():
    """Imports between rooms; those of the packages themselves do not count."""
    pairs = ((room(source), room(target)) for source, target in imports() if not {source, target} & PACKAGES)
    return {(start, end) for start, end in pairs if start != end}


def reduced(arrows):
    """The arrows without those that a longer path implies."""
    return {(start, end) for start, end in arrows if not reachable(arrows - {(start, end)}, start, end)}


def reachable(arrows, start, end):
    seen, ahead = set(), [start]
    while ahead:
        here = ahead.pop()
        if here == end:
            return True
        if here not in seen:
            seen.add(here)
            ahead += [after for before, after in arrows if before == here]
    return False


def picture():
    """The block between its marks, in Mermaid."""
    lines = [f"    {start} --> {end}" for start, end in sorted(reduced(edges()))]
    return "\n".join([OPENING, "```mermaid", "graph TD", *lines, "```", CLOSING])


def current(text):
    """The text with the current picture."""
    if not BLOCK.search(text):
        raise ValueError(f"{PAGE} has no {OPENING} {CLOSING}")
    return BLOCK.sub(lambda _: picture(), text)


if __name__ == "__main__":
    PAGE.write_text(current(PAGE.read_text()))
