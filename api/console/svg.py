"""Pictures as SVG: children of an array, jobs around a job, results of a group. Pure.

All markup is made of numbers and escaped text. The colour of a shape follows from its class, `shape-STATUS`; each
picture has a text beside it with the same content.
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate

from markupsafe import Markup
from msgspec import Struct

from batchq.api.console.plot import Plot, PlotColumn, PlotMark, Series, plot
from batchq.domain.enums import Status
from batchq.domain.wording import seconds_words
from batchq.ports.jobs import ChildRun
from batchq.system.escapes import escape

AXIS_WIDTH, AXIS_HEIGHT = 1000, 14
SHORTEST = 6  # of a span on the axis, so that each is visible
MIN_WIDTH, MAX_COLUMNS = 48, 100  # of the grid, in cells: a small array does not fill its width
NODE_WIDTH, NODE_HEIGHT, GAP_X, GAP_Y = 148, 40, 28, 10
STEPS = 2  # of the graph, each way: it always has as many columns, so that its nodes have one size
MARGIN = 0.04  # of an axis, around dots
BINS = 20  # of a histogram
MAX_TITLES = 300  # ranges of the grid with a hover text
STRIP = 5  # width of the part of a node that has the colour of its status
MAX_NAME = 19  # characters of a name in a node


class GraphNode(Struct, frozen=True, kw_only=True):
    """A job in the graph of dependencies."""

    job_id: str
    name: str
    #: None: the job does not exist any more, or is not visible to the reader. It is no link.
    status: Status | None
    #: The path of its page.
    path: str
    #: Steps from the job of the page: negative for jobs that it waits for.
    level: int


def grid_columns(size: int) -> int:
    """The columns of the grid of an array with this many children."""
    return min(size, MAX_COLUMNS, max(MIN_WIDTH, int((2 * size) ** 0.5)))


def array_grid(runs: Sequence[ChildRun], *, size: int, job_id: str | None, label: str) -> Markup:
    """A cell for each child, by index. Neighbours in a row are one stroke of a path, which CSS divides into cells.

    Each run is a path with a hover text, or above MAX_TITLES runs each status is one path without. A stroke has half
    the characters of a rectangle: 10,000 random statuses are below 100 KB. `job_id`: the array, whose children the
    script opens; None: the cells lead nowhere.
    """
    columns = grid_columns(size)
    head = Markup('<svg class="grid" viewBox="0 0 {} {}" {}role="img" tabindex="0" aria-label="{}">')
    data = Markup('data-columns="{}" data-size="{}" data-job="{}" ').format(columns, size, job_id) if job_id else ""
    opened = head.format(max(columns, MIN_WIDTH), -(-size // columns), data, escape(label))
    drawn = _titled_paths(runs, columns) if len(runs) <= MAX_TITLES else _paths_by_status(runs, columns)
    return opened + Markup("").join(drawn) + Markup("</svg>")


_PATH = Markup('<path class="shape-{}" d="M0 .5{}"/>')


def _titled_paths(runs: Iterable[ChildRun], columns: int) -> Iterable[Markup]:
    for run in runs:
        place = f"{run.first}" if run.end - run.first == 1 else f"{run.first} to {run.end - 1}"
        path = _PATH.format(run.status.value, _strokes([run], columns))
        yield Markup("<g><title>{}: {}</title>{}</g>").format(place, run.status.value, path)


def _paths_by_status(runs: Iterable[ChildRun], columns: int) -> Iterable[Markup]:
    by_status: dict[Status, list[ChildRun]] = {}
    for run in runs:
        by_status.setdefault(run.status, []).append(run)
    for status, found in sorted(by_status.items()):
        yield _PATH.format(status.value, _strokes(found, columns))


def _strokes(runs: Iterable[ChildRun], columns: int) -> str:
    moves, x, y = [], 0, 0
    for row, first, end in (part for run in runs for part in _rows(run, columns)):
        moves.append(f"m{first - x} {row - y}h{end - first}")
        x, y = end, row
    return "".join(moves)


def _rows(run: ChildRun, columns: int) -> Iterable[tuple[int, int, int]]:
    """The row, the first column and the column after the last one of each part of a run that lies in one row."""
    at = run.first
    while at < run.end:
        row, column = divmod(at, columns)
        stop = min(columns, column + run.end - at)
        yield row, column, stop
        at += stop - column


def graph(nodes: Sequence[GraphNode], edges: Iterable[tuple[str, str]], label: str) -> Markup:
    """The jobs around a job, a column for each step. `nodes`: at least one.

    `edges`: pairs of ids, the job that is waited for first.
    """
    places: dict[str, tuple[int, int]] = {}
    first = min(node.level for node in nodes)
    for level in range(first, STEPS + 1):
        for y, node in enumerate(node for node in nodes if node.level == level):
            places[node.job_id] = (level - first) * (NODE_WIDTH + GAP_X), y * (NODE_HEIGHT + GAP_Y)
    width = (2 * STEPS + 1) * (NODE_WIDTH + GAP_X) - GAP_X
    height = max((y for _, y in places.values()), default=0) + NODE_HEIGHT
    head = Markup('<svg class="graph" viewBox="-2 -2 {} {}" role="group" aria-label="{}">')
    head = head.format(width + 4, height + 4, escape(label))
    lines = (_edge(places[a], places[b]) for a, b in edges if a in places and b in places)
    drawn = (_node(node, *places[node.job_id]) for node in nodes)
    return head + Markup("").join(lines) + Markup("").join(drawn) + Markup("</svg>")


def _edge(start: tuple[int, int], end: tuple[int, int]) -> Markup:
    """A curve from the right of one node to the left of another."""
    x1, y1, x2, y2 = start[0] + NODE_WIDTH, start[1] + NODE_HEIGHT // 2, end[0], end[1] + NODE_HEIGHT // 2
    middle = (x1 + x2) // 2
    return Markup('<path class="edge" d="M{} {}C{} {} {} {} {} {}"/>').format(x1, y1, middle, y1, middle, y2, x2, y2)


def _node(node: GraphNode, x: int, y: int) -> Markup:
    """A box in the colour of the status. Of a long name the end is left out; the title has the whole name."""
    name = node.name if len(node.name) <= MAX_NAME else f"{node.name[: MAX_NAME - 1]}…"
    word = "not visible" if node.status is None else node.status.value
    parts = (
        Markup('<g class="{}node-{}"><title>{}</title>').format(
            "current " if node.level == 0 else "", node.status or "NONE", escape(node.name)
        ),
        Markup('<rect x="{}" y="{}" width="{}" height="{}" rx="6"/>').format(x, y, NODE_WIDTH, NODE_HEIGHT),
        Markup('<rect class="strip" x="{}" y="{}" width="{}" height="{}" rx="2.5"/>').format(
            x + 5, y + 6, STRIP, NODE_HEIGHT - 12
        ),
        # The inner picture clips wide characters at the border of the box.
        Markup('<svg x="{}" y="{}" width="{}" height="{}">').format(x + 16, y, NODE_WIDTH - 20, NODE_HEIGHT),
        Markup('<text y="17">{}</text><text class="state" y="32">{}</text></svg></g>').format(escape(name), word),
    )
    drawn = Markup("").join(parts)
    if node.status is None or node.level == 0:
        return drawn
    return Markup('<a href="{}">{}</a>').format(node.path, drawn)


def status_bar(parts: Sequence[tuple[str, int]], label: str) -> Markup:
    """A bar whose parts are as long as the numbers of jobs. `parts`: the class `shape-NAME` and the number of each."""
    total = sum(count for _, count in parts)
    widths = [max(SHORTEST, AXIS_WIDTH * count / total) if count else 0.0 for _, count in parts]
    scale = AXIS_WIDTH / sum(widths) if total else 0.0
    starts = accumulate((width * scale for width in widths), initial=0.0)
    drawn = (
        Markup('<rect class="shape-{}" x="{:.1f}" width="{:.1f}" height="{}"/>').format(
            name, start, width * scale, AXIS_HEIGHT
        )
        for (name, _), start, width in zip(parts, starts, widths, strict=False)
        if width
    )
    head = Markup('<svg class="axis" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}">')
    return head.format(AXIS_WIDTH, AXIS_HEIGHT, escape(label)) + Markup("").join(drawn) + Markup("</svg>")


def histogram(seconds: Sequence[float], label: str) -> Markup:
    """How many values are in each of BINS ranges of equal width."""
    low, high = min(seconds), max(seconds)
    width = (high - low) / BINS or 1.0
    counts = [0] * BINS
    for value in seconds:
        counts[min(BINS - 1, int((value - low) / width))] += 1
    columns = [
        PlotColumn(
            first=at,
            end=at + 1,
            text=f"{count} from {seconds_words(low + at * width)} to {seconds_words(low + (at + 1) * width)}",
        )
        for at, count in enumerate(counts)
        if count
    ]
    bars = Series(name="", colour="SUCCEEDED", mark=PlotMark.BARS, points=list(enumerate(map(float, counts))))
    return plot(
        Plot(
            label=label,
            series=[bars],
            x=(0, BINS),
            y=(0, max(counts)),
            y_texts=(str(max(counts)), "0"),
            x_texts=(seconds_words(low), seconds_words(high)),
            columns=columns,
        )
    )


def scatter_plot(points: Sequence[tuple[float, float, str]], label: str) -> Markup:
    """A dot for each point: x, y, and its name."""
    xs, ys = [x for x, _, _ in points], [y for _, y, _ in points]
    dots = Series(
        name="",
        colour="RUNNING",
        mark=PlotMark.DOTS,
        points=[(x, y) for x, y, _ in points],
        titles=[f"{name}: {x:g}, {y:g}" for x, y, name in points],
    )
    return plot(
        Plot(
            label=label,
            series=[dots],
            x=_extent(xs),
            y=_extent(ys),
            y_texts=(f"{max(ys):g}", f"{min(ys):g}"),
            x_texts=(f"{min(xs):g}", f"{max(xs):g}"),
        )
    )


def _extent(values: Sequence[float]) -> tuple[float, float]:
    """The ends of an axis for dots, which have some space to the border."""
    low, high = min(values), max(values)
    margin = (high - low) * MARGIN or 1.0
    return low - margin, high + margin
