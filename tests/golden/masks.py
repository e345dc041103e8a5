"""Masks for what differs from run to run: ids by the order of their first appearance, times, durations, the machine."""

import re
from typing import Any


class Masks:
    """Replaces what differs from run to run."""

    #: Members whose values are times, durations, or amounts that depend on durations.
    VARIABLE = re.compile(
        r"(At|At_?ms|Time|time|_at|Since|since|Until|until|seconds|Seconds|duration|Duration|cost|Cost|charged|amount"
        r"|spent|number|Number|token|Token|timestamp|stamp|nextToken|uptime|container_id|address|version|ends|used_?cpu)$",
    )

    def __init__(self, address: str, *, folder: str) -> None:
        """`address`: of the server. `folder`: the parent of its data directory."""
        self._names: dict[str, str] = {}
        self._address = address
        self._folder = folder

    def json(self, value: Any, member: str = "") -> Any:
        """The value with masks, also in the texts below."""
        if isinstance(value, dict):
            return {self.text(name): self.json(inner, name) for name, inner in value.items()}
        if isinstance(value, list):
            return [self.json(inner, member) for inner in value]
        if value is None or isinstance(value, bool):
            return value
        if self.VARIABLE.search(member):
            return f"<{type(value).__name__}>"
        if isinstance(value, float) or (isinstance(value, int) and value >= 10_000):
            return f"<{type(value).__name__}>"
        return self.text(value) if isinstance(value, str) else value

    def text(self, text: str) -> str:
        """The text with masks."""
        text = text.replace(self._address, "<address>").replace(self._folder, "<folder>")
        text = re.sub(r"\bwhsec_[\w+/=]+", "<secret>", text)
        text = re.sub(r"(?<![0-9a-f])[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-f])", self._name, text)
        text = re.sub(r"(?<![0-9a-f])[0-9a-f]{32,64}(?![0-9a-f])", self._name, text)
        text = re.sub(r"\b[0-9a-f]{8}\b(?=…|\.\.\.|[:#]\d|\s)", self._short, text)
        text = re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|\+00:00)?", "<time>", text)
        text = re.sub(r"\b\d\d:\d\d:\d\d(\.\d+)?\b|\b\d\d:\d\d\b", "<time>", text)
        text = re.sub(r"\b\d+(\.\d+)? ?(ms|s|min|h|seconds?|minutes?)\b", "<duration>", text)
        # The activity depends on the time.
        text = re.sub(r"(?m)^[a-zA-Z, 95]{16} [ ▁-█]*[▁-█][ ▁-█]*  .*\n", "", text)
        text = re.sub(r"the last <duration>(; a space.*|: nothing is.*)", "<activity>", text)
        text = re.sub(r"\b1[678]\d{11}\b", "<ms>", text)
        text = re.sub(r'"number": \d+', '"number": <number>', text)
        text = re.sub(r"\d+(\.\d+)? (?=\[\W*\] GiB)", "<memory of the machine> ", text)
        text = re.sub(r"/\d{4,}\b|(?<=of )\d{4,}(?= MiB)", "/<memory of the machine>", text)
        return re.sub(r"(<duration> ?)+", "<duration>", text)

    def _name(self, found: re.Match[str]) -> str:
        return self._names.setdefault(found[0], f"<id {len(self._names) + 1}>")

    def _short(self, found: re.Match[str]) -> str:
        known = next((name for full, name in self._names.items() if full.startswith(found[0])), None)
        return found[0] if known is None else known.replace("<id", "<short id")
