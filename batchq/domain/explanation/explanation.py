"""What an explanation is: a class for each reason, with the figures of one job. Pure.

The docstring of a class says when the reason applies, and docs/why.md is generated from the classes. A sentence is a
template whose words are figures. Of the alternatives of `sentences` the first is used whose words are all known; then
each template of `more` follows whose words are all known. So a figure that is not known, or that the reader may not
see, leaves out its sentence and nothing else.
"""

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from string import Formatter
from typing import ClassVar

from msgspec import Struct

from batchq.domain import wording
from batchq.domain.enums import Status

#: What a program reads: a datetime or a number, text, or lists and objects of them.
Fact = str | int | float | bool | datetime | tuple["Fact", ...] | Mapping[str, "Fact"]


class Figure(Struct, frozen=True):
    """A figure of an explanation, for programs and for sentences."""

    #: None: programs do not get the figure, because the reader may not see it or only a sentence needs it.
    fact: Fact | None = None
    #: None: no sentence mentions the figure.
    words: str | None = None

    @classmethod
    def vcpus(cls, millicpus: int) -> "Figure":
        """A number of vCPUs, given in thousandths."""
        return cls(millicpus / 1000, wording.vcpus_words(millicpus))

    @classmethod
    def memory(cls, mib: int) -> "Figure":
        return cls(mib, wording.memory_words(mib))

    @classmethod
    def count(cls, number: int, one: str | None = None, many: str | None = None) -> "Figure":
        """A number; in sentences with its noun, as `wording.counted` renders the two."""
        return cls(number, wording.number(number) if one is None else wording.counted(number, one, many))

    @classmethod
    def text(cls, text: str) -> "Figure":
        """A name or a text that programs and sentences give alike."""
        return cls(text, text)


Figures = dict[str, Figure]
Texts = tuple[str, ...]


class Explanation:
    """Why a job is where it is, for one reader."""

    #: The name of the reason on the wire; empty for classes that only others inherit from.
    code: ClassVar[str] = ""
    #: The statuses of the jobs that the reason may explain.
    statuses: ClassVar[tuple[Status, ...]] = ()
    #: The alternatives of the first sentence. The last one needs no words that may be unknown.
    sentences: ClassVar[Texts] = ()
    #: Further sentences.
    more: ClassVar[Texts] = ()
    #: The alternatives of a few words, for lists, as those of the first sentence. Empty: the status says enough.
    labels: ClassVar[Texts] = ()
    #: The names of the figures that programs may get.
    fact_names: ClassVar[Texts] = ()

    def __init__(self, *, since: datetime | None = None, figures: Figures | None = None) -> None:
        """`since`: since when this is so; None: not known. `figures`: by name; None: there are none."""
        self.since = since
        #: Names that the reader may not see are replaced in the words and absent from the facts.
        self.figures: Figures = figures or {}

    def __repr__(self) -> str:
        return f"{self.code} since {self.since}: {self.sentence} {self.facts}"

    @property
    def sentence(self) -> str:
        """One or more sentences with figures."""
        known = self._words()
        more = (text.format_map(known) for text in self.more if _names_in(text) <= known.keys())
        return " ".join((_first_known(self.sentences, known), *more)).replace("....", "...")  # the end of a cut text

    @property
    def label(self) -> str:
        """A few words for a list; empty if the status says enough."""
        return _first_known(self.labels, self._words())

    @property
    def facts(self) -> Mapping[str, Fact]:
        """The figures for programs. Figures that the class does not name are left out."""
        figures = ((name, self.figures.get(name)) for name in self.fact_names)
        return {name: figure.fact for name, figure in figures if figure is not None and figure.fact is not None}

    def _words(self) -> Mapping[str, str]:
        return {name: figure.words for name, figure in self.figures.items() if figure.words is not None}


def _first_known(texts: Texts, known: Mapping[str, str]) -> str:
    """The first of the texts whose words are all known, or the last one."""
    *alternatives, last = texts
    return next((text for text in alternatives if _names_in(text) <= known.keys()), last).format_map(known)


@cache
def _names_in(template: str) -> frozenset[str]:
    """The words of a template. The templates are those of the classes; parsing one takes 4 us."""
    return frozenset(name for _, name, _, _ in Formatter().parse(template) if name is not None)
