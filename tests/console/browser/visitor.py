"""A visitor of the console: a browser context with its own cookies, and the errors that its pages reported."""

import shutil

from playwright.sync_api import Browser, ConsoleMessage, Page, WebError

PATIENCE = 15_000  # milliseconds
WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 320, "height": 640}  # CSS pixels

# Counts layout shifts from the first paint on. Scripts of the test run in spite of the page's policy.
OBSERVE_SHIFTS = """
window.layoutShift = 0;
new PerformanceObserver(list => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.layoutShift += entry.value;
}).observe({type: "layout-shift", buffered: true});
"""


class Visitor:
    def __init__(self, browser: Browser, url: str, **options: object) -> None:
        """`options` are those of `Browser.new_context`."""
        #: Errors and warnings of scripts, refused loads and violations of the Content-Security-Policy.
        self.problems: list[str] = []
        self._forgiven: list[str] = []
        self.context = browser.new_context(base_url=url, **options)
        self.context.set_default_timeout(PATIENCE)
        self.context.add_init_script(OBSERVE_SHIFTS)
        self.context.on("console", self._on_message)
        self.context.on("weberror", self._on_error)

    def open(self, path: str) -> Page:
        """A new tab with this page of the console."""
        page = self.context.new_page()
        page.goto(path)
        return page

    def forgive(self, text: str) -> None:
        """Accept errors that contain `text`, until the visitor is closed; at least one was already reported."""
        left = [problem for problem in self.problems if text not in problem]
        assert len(left) < len(self.problems), f"no error contains {text!r}, but {self.problems}"
        self.problems = left
        self._forgiven.append(text)

    def close(self) -> None:
        self.context.close()

    def _on_message(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self._report(f"{message.location.get('url')}: {message.text}")

    def _on_error(self, error: WebError) -> None:
        self._report(str(error.error))

    def _report(self, problem: str) -> None:
        if not any(text in problem for text in self._forgiven):
            self.problems.append(problem)


def chromium_path() -> str | None:
    """The path of a Chromium on this machine; None if there is none."""
    return shutil.which("chromium-headless-shell") or shutil.which("chromium")
