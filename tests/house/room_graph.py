"""The picture of the rooms in docs/architecture.md, from the imports. `python -m tests.house.room_graph` writes it.

Arrows that follow from others are left out (transitive reduction).
"""

import ast
import re

from tests.house.rooms import ROOT, module, sources, tree

PAGE = ROOT / "docs" / "architecture.md"
OPENING, CLOSING = "<!-- rooms -->", "<!-- /rooms -->"
TOP_PACKAGES = {"batchq.compute", "batchq.api"}
BLOCK = re.compile(f"{OPENING}.*{CLOSING}", re.DOTALL)


def modules():
    """All but the packages themselves."""
    return {name: source for source in sources() if "." in (name := module(source)) and name not in TOP_PACKAGES}


def imports(source, known):
    """The modules of this repository that a source imports, at any level of it."""
    for node in ast.walk(tree(source)):
        if isinstance(node, ast.Import):
            yield from (it.name for it in node.names if it.name in known)
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [f"{node.module}.{it.name}" for it in node.names]
            yield from (it if it in known else node.module for it in names if it in known or node.module in known)


def room(name):
    """The API is one room; elsewhere a room is a package or module directly below `batchq` or `batchq.compute`."""
    _, top, *rest = name.split(".")
    if top == "compute" and len(rest) > 1:
        return f"compute.{rest[0]}"
    return top


def edges():
    known = modules()
    pairs = ((room(name), room(it)) for name, source in known.items() for it in imports(source, known))
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
