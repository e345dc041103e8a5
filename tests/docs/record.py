"""Records the output in `console` examples: `python -m tests.docs.record [PAGE ...]`; by default simulated pages."""

import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

from tests.clients.client import BIN
from tests.docs.engine import example_engine
from tests.docs.pages import CLIENTS, EXAMPLE, ROOT, SIMULATED, Example, examples, name, needs, pages_with_examples
from tests.docs.session import BINARIES, Session, comparable


def played(page: Path, folder: Path) -> list[tuple[Example, str]]:
    """Each example of a page with the text that its block should have."""
    programs = BIN if needs(page) == CLIENTS else BINARIES
    session = Session(folder, docker=needs(page) != SIMULATED, programs=programs)
    try:
        found = []
        for example in examples(page.read_text()):
            lines = session.play(example)
            recorded = example.language == "console"
            found.append((example, "".join(f"{line}\n" for line in lines) if recorded else example.text))
        return found
    finally:
        session.close()


def current(text: str, plays: list[tuple[Example, str]]) -> str:
    """The page with the outputs of `plays`. An output that differs in ids and times only is left as it is."""
    shown = iter(plays)

    def block(found):
        example, seen = next(shown)
        same = comparable(example.text) == comparable(seen)
        return found[0] if same else found[0].replace(example.text, seen)

    return EXAMPLE.sub(block, text)


def main(names: list[str]) -> None:
    for page in [ROOT / other_name for other_name in names] or pages_with_examples(SIMULATED):
        with tempfile.TemporaryDirectory(prefix="batchq-docs-") as made:
            folder = Path(made)
            with nullcontext() if needs(page) == SIMULATED else example_engine(folder):
                page.write_text(current(page.read_text(), played(page, folder)))
        print(name(page))


if __name__ == "__main__":
    main(sys.argv[1:])
