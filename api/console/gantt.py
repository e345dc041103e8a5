"""Timelines: a row for each attempt or job, with its times on one axis, as SVG without script. Pure.

Positions and widths are percentages, so texts in a row have their size on every screen. Names and results are HTML
beside it. The hover text of a span is a `title`, and the label of a row has the same texts.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from markupsafe import Markup
from msgspec import Struct

from batchq.domain.wording import seconds_words
from batchq.system.escapes import escape

SHORTEST = 0.4  # percent of the width: each span is visible
LABELLED, NAMED = 11, 22  # percent of the width from which a span shows its length, and its name
TICKS = 4  # parts of the axis


class SpanKind(StrEnum):
    """What a job or an attempt did for some time."""

    DEPENDENCIES = "waiting for other jobs"
    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"


#: The class `shape-COLOUR` of each kind.
COLOURS = {
    SpanKind.DEPENDENCIES: "DEPENDENCIES",
    SpanKind.WAITING: "RUNNABLE",
    SpanKind.STARTING: "STARTING",
    SpanKind.RUNNING: "RUNNING",
    SpanKind.SUCCEEDED: "SUCCEEDED",
    SpanKind.FAILED: "FAILED",
    SpanKind.STOPPED: "STOPPED",
}


class TimeSpan(Struct, frozen=True, kw_only=True):
    """A time of one kind."""

    kind: SpanKind
    start: datetime
    end: datetime

    @property
    def length(self) -> timedelta:
        return self.end - self.start


class GanttRow(Struct, frozen=True, kw_only=True):
    """A line of the picture."""

    name: str
    #: The page that the name leads to; empty: the name is not a link.
    path: str
    #: The id of the line, by which keys find it; empty: it has no id.
    line: str = ""
    #: A short text behind the name, which a narrow screen leaves out.
    detail: str = ""
    #: By time. What lies outside of the axis is not drawn.
    spans: Sequence[TimeSpan]
    #: A short text behind the spans.
    result: str


class Gantt(Struct, frozen=True, kw_only=True):
    """What is drawn."""

    label: str
    rows: Sequence[GanttRow]
    #: The ends of the axis.
    start: datetime
    end: datetime
    #: Whether the axis counts back from its end, as `2 h ago`; otherwise it counts from its beginning.
    is_ago: bool = False


def gantt(picture: Gantt) -> Markup:
    """The picture with its legend, its rows and its axis."""
    rows = Markup("").join(_row(row, picture) for row in picture.rows)
    parts = Markup(
        '<figure class="gantt" role="group" aria-label="{}">{}<ol>{}</ol><div class="ends">{}</div></figure>'
    )
    ticks = Markup("").join(Markup("<span>{}</span>").format(text) for text in _ticks(picture))
    return parts.format(escape(picture.label), _legend(picture.rows), rows, ticks)


def span_words(span: TimeSpan) -> str:
    """As `running 41 s`."""
    return f"{span.kind} {seconds_words(span.length.total_seconds())}"


def _legend(rows: Iterable[GanttRow]) -> Markup:
    """Each kind that occurs, with the sum of its times."""
    sums: dict[SpanKind, timedelta] = {}
    for span in (span for row in rows for span in row.spans):
        sums[span.kind] = sums.get(span.kind, timedelta()) + span.length
    entry = Markup('<li><span class="shape-{}"></span> {} {}</li>')
    entries = [
        entry.format(COLOURS[kind], kind.value, seconds_words(sums[kind].total_seconds()))
        for kind in SpanKind
        if kind in sums
    ]
    return Markup('<ul class="legend">{}</ul>').format(Markup("").join(entries))


_LINK, _TEXT = Markup('<a href="{}">{}</a>'), Markup("<span>{1}</span>")
_LINE = Markup('<li{}><div class="name">{}{}</div>{}<div class="result">{}</div></li>')
_BAR = Markup('<g class="shape-{}"><title>{}</title><rect x="{:.2f}%" width="{:.2f}%" height="100%"/></g>')
_WORDS = Markup('<svg class="label label-{}" x="{:.2f}%" width="{:.2f}%">{}</svg>')
#: CSS shows the long text on wide screens, and the short one on others.
_LONG, _SHORT = (
    Markup('<text class="long" x="6" y="50%">{}</text>'),
    Markup('<text class="short" x="6" y="50%">{}</text>'),
)


def _row(row: GanttRow, picture: Gantt) -> Markup:
    name = (_LINK if row.path else _TEXT).format(row.path, escape(row.name))
    detail = Markup(" <small>{}</small>").format(escape(row.detail)) if row.detail else ""
    label = f"{row.name}: {', '.join(map(span_words, row.spans)) or 'no time'}"
    drawn = Markup("").join(part for span in row.spans for part in _span(span, picture))
    svg = Markup('<svg role="img" aria-label="{}">{}</svg>').format(escape(label), drawn)
    line = Markup(' id="{}" class="row"').format(row.line) if row.line else ""
    return _LINE.format(line, name, detail, svg, escape(row.result))


def _span(span: TimeSpan, picture: Gantt) -> Iterator[Markup]:
    """The bar of a span with its hover text, and its length if the bar is long enough for it."""
    left, right = max(_percent(span.start, picture), 0.0), min(_percent(span.end, picture), 100.0)
    if right < left:
        return
    left = min(left, 100 - SHORTEST)
    width = max(right - left, SHORTEST)
    text = f"{span_words(span)}, from {_time(span.start)} to {_time(span.end)}"
    yield _BAR.format(COLOURS[span.kind], text, left, width)
    if width >= LABELLED:
        length = seconds_words(span.length.total_seconds())
        words = _LONG.format(span_words(span)) + _SHORT.format(length) if width >= NAMED else _LONG.format(length)
        yield _WORDS.format(COLOURS[span.kind], left, width, words)


def _percent(at: datetime, picture: Gantt) -> float:
    return 100 * ((at - picture.start) / ((picture.end - picture.start) or timedelta(seconds=1)))


def _ticks(picture: Gantt) -> Iterator[str]:
    """Texts at equal distances from the beginning of the axis to its end."""
    length = (picture.end - picture.start).total_seconds()
    for number in range(TICKS + 1):
        if picture.is_ago:
            left = length * (TICKS - number) / TICKS
            yield f"{seconds_words(left)} ago" if left else "now"
        else:
            yield seconds_words(length * number / TICKS) if number else "0 s"


def _time(at: datetime) -> str:
    return f"{at.astimezone(UTC):%H:%M:%S} UTC"
