"""Timelines: a row for each attempt or job, with its times on one axis, as SVG without script. Pure.

Positions and widths are percentages, so texts in a row have their size on every screen. Names and results are HTML
beside it. The hover text of a span is a `title`, and the label of a row has the same texts.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from markupsafe import Markup
from msgspec import Struct

from batchq.api.console.safe_html import joined_html, safe_html, shown_line
from batchq.domain.wording import seconds_words

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
    rows = joined_html(_row(row, picture) for row in picture.rows)
    ticks = "".join(f"<span>{text}</span>" for text in _ticks(picture))
    return safe_html(
        f'<figure class="gantt" role="group" aria-label="{shown_line(picture.label)}">{_legend(picture.rows)}'
        f'<ol>{rows}</ol><div class="ends">{ticks}</div></figure>'
    )


def span_words(span: TimeSpan) -> str:
    """As `running 41 s`."""
    return f"{span.kind} {seconds_words(span.length.total_seconds())}"


def _legend(rows: Iterable[GanttRow]) -> Markup:
    """Each kind that occurs, with the sum of its times."""
    sums: dict[SpanKind, timedelta] = {}
    for span in (span for row in rows for span in row.spans):
        sums[span.kind] = sums.get(span.kind, timedelta()) + span.length
    entries = "".join(
        f'<li><span class="shape-{COLOURS[kind]}"></span> {kind.value} {seconds_words(sums[kind].total_seconds())}</li>'
        for kind in SpanKind
        if kind in sums
    )
    return safe_html(f'<ul class="legend">{entries}</ul>')


def _row(row: GanttRow, picture: Gantt) -> Markup:
    name, words = shown_line(row.name), ", ".join(map(span_words, row.spans)) or "no time"
    named = f'<a href="{shown_line(row.path)}">{name}</a>' if row.path else f"<span>{name}</span>"
    detail = f" <small>{shown_line(row.detail)}</small>" if row.detail else ""
    drawn = joined_html(_span(span, picture) for span in row.spans)
    line = f' id="{shown_line(row.line)}" class="row"' if row.line else ""
    return safe_html(
        f'<li{line}><div class="name">{named}{detail}</div><svg role="img" aria-label="{name}: {words}">{drawn}</svg>'
        f'<div class="result">{shown_line(row.result)}</div></li>'
    )


def _span(span: TimeSpan, picture: Gantt) -> Markup:
    """The bar of a span with its hover text, and its length if the bar is long enough for it.

    CSS shows the long text on wide screens, and the short one on others.
    """
    left, right = max(_percent(span.start, picture), 0.0), min(_percent(span.end, picture), 100.0)
    if right < left:
        return Markup("")
    left = min(left, 100 - SHORTEST)
    width = max(right - left, SHORTEST)
    colour, place = COLOURS[span.kind], f'x="{left:.2f}%" width="{width:.2f}%"'
    words, length = span_words(span), seconds_words(span.length.total_seconds())
    hover = f"{words}, from {_time(span.start)} to {_time(span.end)}"
    bar = f'<g class="shape-{colour}"><title>{hover}</title><rect {place} height="100%"/></g>'
    if width < LABELLED:
        return safe_html(bar)
    label = _label(words, "long") + _label(length, "short") if width >= NAMED else _label(length, "long")
    return safe_html(f'{bar}<svg class="label label-{colour}" {place}>{label}</svg>')


def _label(text: str, kind: str) -> str:
    """`text`: words of batchq, which need no escapes."""
    return f'<text class="{kind}" x="6" y="50%">{text}</text>'


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
