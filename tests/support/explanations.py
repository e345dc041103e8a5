"""Comparing explanations: sentences with times that differ between runs."""

from fnmatch import fnmatchcase

from batchq.domain.explanation.codes import Code, Explanation
from batchq.domain.explanation.words import ROWS


def check(why: Explanation, code: Code, sentence: str) -> Explanation:
    """Check the code and the sentence, in which `*` stands for any text, and that the facts are those of the row."""
    assert why.code is code, why
    assert fnmatchcase(why.sentence, sentence), why.sentence
    assert why.facts.keys() <= set(ROWS[code].facts), why
    return why
