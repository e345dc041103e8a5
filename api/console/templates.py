"""The templates of the web console: Jinja2's environment, and the filters that the templates use.

Every text that a template prints is escaped twice: control characters and marks of text direction become visible, and
then the characters that HTML reserves are escaped. A missing value is an error.
"""

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from batchq.api.console import page_parts
from batchq.api.console.activity_pictures import PERIODS
from batchq.api.console.job_words import attempt_use_words, container_use_words, job_title, time_left
from batchq.domain import wording
from batchq.domain.cost import rounded
from batchq.domain.ids import job_path, short_id
from batchq.domain.lifecycle.stopping import latest_order
from batchq.domain.lifecycle.views import shown_status_reason
from batchq.system.escapes import escape_lines

FOLDER = Path(__file__).parent
STATIC = FOLDER / "static"
#: A command of batchq in a sentence.
COMMAND = re.compile("`(batchq [^`]+)`")
#: The filters of this name.
PARTS = (
    page_parts.time_ago,
    page_parts.copy_button,
    page_parts.current,
    page_parts.iso,
    page_parts.job_link,
    page_parts.job_mark,
    page_parts.job_list_row,
    page_parts.moment,
    page_parts.queue_link,
    page_parts.rerun_sentence,
    page_parts.status_mark,
    page_parts.took,
    page_parts.why_label,
)


def environment() -> Environment:
    """The environment of all templates."""
    env = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printed,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters |= {
        "duration": wording.duration_words,
        "number": wording.number,
        "memory": wording.memory_words,
        "bytes": wording.bytes_words,
        "seconds": wording.seconds_words,
        "vcpus": wording.vcpus_words,
        "figure": wording.figure,
        "counted": wording.counted,
        "short_id": short_id,
        "job_path": job_path,
        "quoted_list": quoted_list,
        "job_title": job_title,
        "time_left": time_left,
        "rate": wording.rate_words,
        "amount": lambda cost: f"{rounded(cost):,}",
        "with_code": with_code,
    }
    env.filters |= {function.__name__: function for function in PARTS}
    env.globals |= _globals()
    env.globals["ui"] = env.get_template("macros.html").module
    return env


def _globals() -> dict[str, object]:
    """The functions that templates call."""
    return {
        "latest_order": latest_order,
        "status_reason": shown_status_reason,
        "static": static_path,
        "picture_periods": PERIODS,
        "attempt_use": attempt_use_words,
        "container_use": container_use_words,
    }


def quoted_list(words_of: Iterable[str]) -> str:
    """The arguments of a command as a list, each in quotes."""
    return ", ".join(f'"{text}"' for text in words_of)


def with_code(sentence: str) -> Markup:
    """The sentence with its commands between backquotes as code."""
    parts = COMMAND.split(escape_lines(sentence))
    code = Markup("<code>{}</code>")
    return Markup().join(code.format(part) if at % 2 else escape(part) for at, part in enumerate(parts))


def _printed(value: object) -> object:
    """What a template prints for a value. Markup is HTML of the server's own making."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return escape_lines(value)


def encoded(page: str) -> bytes:
    """The UTF-8 of a page. A lone surrogate, as in names of files, is shown escaped."""
    return page.encode("utf-8", "backslashreplace")


def _content_hash() -> str:
    digest = hashlib.sha256()
    for file in sorted(STATIC.iterdir()):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]


CONTENT_HASH = _content_hash()


def static_path(name: str) -> str:
    """The path of a static file. It changes with the content of any of them."""
    return f"/ui/static/{CONTENT_HASH}/{name}"
