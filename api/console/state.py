"""What the web console keeps between requests."""

from msgspec import Struct, field

from batchq.api.console.forms import Invocations, RecentResults
from batchq.api.console.refresh import Hints, Load, SharedFragments
from batchq.api.console.rendering import Renderer


class ConsoleState(Struct, frozen=True, kw_only=True):
    """The state of the console, in memory."""

    #: The time that pages take to render, and the delay of the event loop.
    load: Load
    #: For open pages.
    hints: Hints
    fragments: SharedFragments
    renderer: Renderer = field(default_factory=Renderer)
    invocations: Invocations = field(default_factory=Invocations)
    recent_results: RecentResults = field(default_factory=RecentResults)
