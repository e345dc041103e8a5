"""Makes the tables of docs/why.md from the table of explanations. `python -m tests.docs.explanations` writes them."""

import re

from batchq.domain.explanation.codes import Row
from batchq.domain.explanation.words import ROWS
from tests.docs.monitoring import DOCS

PAGE = DOCS / "why.md"
BEGIN, END = "<!-- table of codes -->\n", "<!-- /table of codes -->"


def with_table(page: str) -> str:
    """The page with the present table."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}{table()}{END}{rest.partition(END)[2]}"


def table() -> str:
    rows = [
        f"| `{code}` | {_statuses(row)} | {row.applies} | {_sentence(row)} | {_facts(row)} |"
        for code, row in ROWS.items()
    ]
    return "\n".join(["| code | status | when | sentence | facts |", "|---|---|---|---|---|", *rows, ""])


def _statuses(row: Row) -> str:
    return ", ".join(row.statuses)


def _sentence(row: Row) -> str:
    """The first alternative and what may follow, with the figures in italics."""
    return re.sub(r"{(\w+)}", r"*\1*", " ".join((row.sentences[0], *row.more)))


def _facts(row: Row) -> str:
    return ", ".join(f"`{it}`" for it in row.facts)


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
