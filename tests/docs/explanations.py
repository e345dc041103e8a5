"""Makes the tables of docs/why.md from the table of explanations. `python -m tests.docs.explanations` writes them."""

import re
from inspect import getdoc

from batchq.domain.explanation.explain import REASONS
from batchq.domain.explanation.explanation import Explanation
from tests.docs.monitoring import DOCS

PAGE = DOCS / "why.md"
BEGIN, END = "<!-- table of codes -->\n", "<!-- /table of codes -->"


def with_table(page: str) -> str:
    """The page with the present table."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}{table()}{END}{rest.partition(END)[2]}"


def table() -> str:
    columns = (
        (f"`{reason.code}`", ", ".join(reason.statuses), applies(reason), _sentence(reason), _facts(reason))
        for reason in REASONS
    )
    rows = [f"| {' | '.join(row)} |" for row in columns]
    return "\n".join(["| code | status | when | sentence | facts |", "|---|---|---|---|---|", *rows, ""])


def applies(reason: type[Explanation]) -> str:
    """When the reason applies, from the docstring of its class."""
    return getdoc(reason) or ""


def _sentence(reason: type[Explanation]) -> str:
    """The first alternative and what may follow, with the figures in italics."""
    return re.sub(r"{(\w+)}", r"*\1*", " ".join((reason.sentences[0], *reason.more)))


def _facts(reason: type[Explanation]) -> str:
    return ", ".join(f"`{name}`" for name in reason.fact_names)


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
