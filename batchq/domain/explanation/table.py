"""The table of explanations: a row for each code, with its sentences. docs/why.md is generated from it. Pure.

A sentence is a template whose words are the figures of a job. Of the alternatives of a row the first is used whose
words are all known; then each further sentence follows whose words are all known. So a figure that is not known, or
that the reader may not see, leaves out its sentence and nothing else.
"""

from collections.abc import Mapping
from datetime import datetime
from string import Formatter

from batchq.domain.explanation.codes import Code, Explanation, Facts, Row
from batchq.domain.explanation.queued_rows import QUEUED_ROWS
from batchq.domain.explanation.started_rows import STARTED_ROWS

#: A row for each code, in the order of a job's life.
ROWS: Mapping[Code, Row] = {**QUEUED_ROWS, **STARTED_ROWS}


def explanation(code: Code, *, since: datetime | None, facts: Facts, words: Mapping[str, str]) -> Explanation:
    """The explanation of a row. `words`: the rendered figures; a word that is absent is not known.

    Facts that the row does not name are left out.
    """
    row = ROWS[code]
    first = next((it for it in row.sentences if _words_of(it) <= words.keys()), row.sentences[-1])
    sentences = (first, *(it for it in row.more if _words_of(it) <= words.keys()))
    return Explanation(
        code=code,
        sentence=" ".join(it.format_map(words) for it in sentences),
        since=since,
        facts={it: facts[it] for it in row.facts if it in facts},
    )


def _words_of(template: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(template) if name is not None}
