"""The children of an array, or the jobs of a group, as a grid of cells with a legend and an index. Pure.

Up to MAX_CELLS each cell is a link with a hover text of its own. A larger grid is drawn by `array_grid`, with a hover
text for each range of equal statuses.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from markupsafe import Markup

from batchq.api.console.job_words import job_title
from batchq.api.console.svg import array_grid, grid_columns
from batchq.domain.enums import Status
from batchq.domain.ids import JobId, child_id, job_path
from batchq.domain.job import Job
from batchq.domain.wording import duration_words, number
from batchq.ports.jobs import ChildRun
from batchq.system.escapes import escape

MAX_CELLS = 400
COLUMNS = 25

#: The size leaves a gap between two cells.
_CELL = Markup(
    '<a href="{}" tabindex="-1"><title>{}</title>'
    '<rect class="shape-{}" x="{}" y="{}" width="0.88" height="0.88" rx="0.14"/></a>'
)


def children_grid(runs: Sequence[ChildRun], jobs: Iterable[Job], *, size: int, array: JobId) -> Markup:
    """The children of an array. `jobs`: those children that exist, for the hover texts of a small grid."""
    counts = Counter[Status]()
    for run in runs:
        counts[run.status] += run.end - run.first
    label = "Children by index"
    if size > MAX_CELLS:
        drawn, columns = array_grid(runs, size=size, job_id=array, label=label), grid_columns(size)
        return _figure(drawn, counts, size=size, columns=columns, array=array)
    known = {job.id: job for job in jobs}
    statuses = [run.status for run in runs for _ in range(run.first, run.end)]
    cells = []
    for index, status in enumerate(statuses):
        job_id = child_id(array, index)
        text = f"Child {index}: {_words(known[job_id]) if job_id in known else status.value}"
        cells.append((job_path(job_id), text, known[job_id].status if job_id in known else status))
    return _figure(_cells(cells, label), counts, size=size, columns=COLUMNS, array=array)


def members_grid(jobs: Sequence[Job]) -> Markup:
    """The jobs of a group in the order of submission."""
    counts, label = Counter(job.status for job in jobs), "Jobs in the order of submission"
    if len(jobs) > MAX_CELLS:
        drawn = array_grid(_runs(jobs), size=len(jobs), job_id=None, label=label)
        return _figure(drawn, counts, size=len(jobs), columns=grid_columns(len(jobs)))
    cells = [(job_path(job.id), f"{job_title(job)}: {_words(job)}", job.status) for job in jobs]
    return _figure(_cells(cells, label), counts, size=len(jobs), columns=COLUMNS)


def _runs(jobs: Iterable[Job]) -> list[ChildRun]:
    """The ranges of equal statuses."""
    runs, at = [], 0
    for status, members in groupby(job.status for job in jobs):
        end = at + len(list(members))
        runs.append(ChildRun(status, at, end))
        at = end
    return runs


def _words(job: Job) -> str:
    """As `FAILED, exit code 3, 12 s`."""
    run = job.latest_attempt
    parts = [job.status.value]
    if run is not None and run.exit_code is not None:
        parts.append(f"exit code {run.exit_code}")
    if job.started_at is not None and job.stopped_at is not None:
        parts.append(duration_words(job.stopped_at - job.started_at))
    return ", ".join(parts)


def _cells(cells: Sequence[tuple[str, str, Status]], label: str) -> Markup:
    head = Markup('<svg class="cells-grid" viewBox="0 0 {} {}" role="group" aria-label="{}">')
    drawn = (
        _CELL.format(path, escape(text), status.value, at % COLUMNS, at // COLUMNS)
        for at, (path, text, status) in enumerate(cells)
    )
    return head.format(COLUMNS, max(1, -(-len(cells) // COLUMNS)), label) + Markup("").join(drawn) + Markup("</svg>")


_ENTRY = Markup('<li><span class="shape-{}"></span> {}</li>')
_STATE_LINK = Markup('<a href="{}/children?state={}">{}</a>')


def _figure(
    drawn: Markup, counts: Mapping[Status, int], *, size: int, columns: int, array: JobId | None = None
) -> Markup:
    """The grid with the numbers of its statuses, and the indices of the first cells of its first and last row.

    `array`: the array whose lists of children the legend leads to.
    """
    entries = []
    for status in (status for status in Status if counts[status]):
        words = f"{status} {number(counts[status])}"
        text = words if array is None else _STATE_LINK.format(job_path(array), status.value, words)
        entries.append(_ENTRY.format(status.value, text))
    last = (size - 1) // columns * columns
    if not last:  # one row has no sides: its cells are counted at a glance
        return Markup('<figure class="cells"><ul class="legend">{}</ul>{}</figure>').format(
            Markup("").join(entries), drawn
        )
    return Markup(
        '<figure class="cells"><ul class="legend">{}</ul><div class="sides"><span>0</span><span>{}</span></div>{}'
        '<div class="ends"><span>0</span><span>+{}</span></div></figure>'
    ).format(Markup("").join(entries), number(last), drawn, columns - 1)
