"""The state diagram in docs/concepts.md, generated from EDGES. `python -m tests.house.diagram` writes it."""

import re

from batchq.domain.enums import FINISHED, Status
from batchq.domain.lifecycle.status import EDGES
from tests.house.rooms import ROOT

PAGE = ROOT / "docs" / "concepts.md"
OPENING, CLOSING = "<!-- states -->", "<!-- /states -->"
BLOCK = re.compile(f"{OPENING}.*{CLOSING}", re.DOTALL)


def diagram():
    """The block between its marks, in Mermaid."""
    entry = [f"    [*] --> {Status.SUBMITTED}"]
    edges = [f"    {status} --> {after}" for status in Status for after in Status if after in EDGES[status]]
    ends = [f"    {status} --> [*]" for status in Status if status in FINISHED]
    return "\n".join([OPENING, "```mermaid", "stateDiagram-v2", *entry, *edges, *ends, "```", CLOSING])


def current(text):
    """The text with the current diagram."""
    if not BLOCK.search(text):
        raise ValueError(f"{PAGE} has no {OPENING} {CLOSING}")
    return BLOCK.sub(lambda _: diagram(), text)


if __name__ == "__main__":
    PAGE.write_text(current(PAGE.read_text()))
