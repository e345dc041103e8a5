"""README's picture of a job's life, drawn from EDGES. `python -m tests.house.diagram` draws it anew."""

import re

from batchq.domain.job import FINISHED, Status
from batchq.domain.moves import EDGES
from tests.house.rooms import ROOT

README = ROOT / "README.md"
OPENING, CLOSING = "<!-- states -->", "<!-- /states -->"
BLOCK = re.compile(f"{OPENING}.*{CLOSING}", re.DOTALL)


def drawn():
    """The block with its marks."""
    born = [f"    [*] --> {Status.SUBMITTED}"]
    walks = [f"    {status} --> {after}" for status in Status for after in Status if after in EDGES[status]]
    ends = [f"    {status} --> [*]" for status in Status if status in FINISHED]
    return "\n".join([OPENING, "```mermaid", "stateDiagram-v2", *born, *walks, *ends, "```", CLOSING])


def current(text):
    """The text with the block as it should be."""
    if not BLOCK.search(text):
        raise ValueError(f"{README} has no place for the picture: {OPENING} {CLOSING}")
    return BLOCK.sub(lambda _: drawn(), text)


if __name__ == "__main__":
    README.write_text(current(README.read_text()))
