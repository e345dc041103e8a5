"""What the web console keeps between requests."""

from datetime import timedelta

from msgspec import Struct, field

from batchq.api.console.activity_pictures import PictureCache
from batchq.api.console.forms import Invocations, RecentResults
from batchq.api.console.refresh import ChangeNotices, Load, SharedFragments
from batchq.api.console.rendering import Renderer
from batchq.system.throttling import FailureLimit

MAX_FAILURES, FAILURE_WINDOW = 5, timedelta(minutes=1)  # wrong logins with one key from one address


class ConsoleState(Struct, frozen=True, kw_only=True):
    """The state of the console, in memory."""

    #: The time that pages take to render, and the delay of the event loop.
    load: Load
    #: For open pages.
    notices: ChangeNotices
    fragments: SharedFragments
    pictures: PictureCache
    renderer: Renderer = field(default_factory=Renderer)
    invocations: Invocations = field(default_factory=Invocations)
    recent_results: RecentResults = field(default_factory=RecentResults)
    #: By address and key.
    login_failures: FailureLimit[tuple[str, str]] = field(
        default_factory=lambda: FailureLimit(limit=MAX_FAILURES, window=FAILURE_WINDOW)
    )
