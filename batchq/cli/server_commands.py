"""The commands of one request to a server: `whoami`, `force-fail`, `leave-safe-mode`, and `console` with its URLs."""

import html
import os
import stat
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from batchq.cli.http_client import call, is_unix_url, url_of
from batchq.cli.job_handles import HELP_ONE, resolve_job, resolve_targets, single
from batchq.cli.output import print_notice, write_line
from batchq.cli.server_requests import WHO_AM_I, job_endpoint
from batchq.cli.tables import add_form_flag, print_result
from batchq.domain.ids import group_path, job_path
from batchq.ports.responses.accounts import CallerResponse
from batchq.ports.responses.jobs import ForceFailResponse
from batchq.ports.responses.server import CreateConsoleLoginResponse, EmptyResponse
from batchq.system.escapes import escape

LEAVE_SAFE_MODE = "/v1/batchq/leavesafemode"
DEFAULT_REASON = "its container does not end"
OVERVIEW_PAGE = "/ui/"
CREATE_LOGIN = "/v1/batchq/consolelogin"
#: On Linux a graphical browser needs one of the first two. The third names the user's browser.
DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
HAS_CODE = "?code="
#: The browser loads the link at once. A form of a file would have no Origin, and the server refuses such forms.
LINK_PAGE = """<!DOCTYPE html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={link}">
<title>batchq</title>
<a href="{link}">Open the console</a>
"""


def add_whoami(command: ArgumentParser) -> None:
    """Print which user the server associates with your access key."""
    add_form_flag(command)


def run_whoami(args: Namespace) -> None:
    caller = call(url_of(args), WHO_AM_I, {}, answer=CallerResponse)
    print_result(args, caller, [_render_caller(caller)])


def _render_caller(caller: CallerResponse) -> str:
    role = f"{caller.role}, coordinator of {','.join(caller.coordinates)}" if caller.coordinates else caller.role
    visible = "all queues" if caller.queues is None else f"queues {','.join(caller.queues) or 'none'}"
    return f"{caller.user} of account {caller.account}, {role}; {visible}"


def add_force_fail(command: ArgumentParser) -> None:
    """Fail a job at once and free its resources, although its container may still run. For admins.

    Terminate the job first, and wait: force-fail is for a container that does not end.

      batchq force-fail 8f2c51a7 --reason 'its node is gone'
    """
    command.add_argument("job", metavar="JOB", help=HELP_ONE)
    command.add_argument("--reason", default=DEFAULT_REASON, help=f"statusReason of the job ({DEFAULT_REASON})")


def run_force_fail(args: Namespace) -> None:
    url = url_of(args)
    path = f"{job_endpoint(resolve_job(url, args.job))}/forcefail"
    job = call(url, path, {"reason": args.reason}, answer=ForceFailResponse)
    print(escape(f"job {job.job_id} is {job.status}: {job.status_reason}"))


def add_leave_safe_mode(command: ArgumentParser) -> None:
    """Start jobs again after `batchq restore`. Containers of unknown jobs are ignored, or removed with --purge.

    With --new-engine: accept a container engine other than the one that jobs were started on.
    """
    command.add_argument("--purge", action="store_true", help="remove containers of unknown jobs")
    command.add_argument(
        "--new-engine", action="store_true", help="accept the present container engine; jobs on another one are lost"
    )


def run_leave_safe_mode(args: Namespace) -> None:
    request = {"purge": args.purge, "newEngine": args.new_engine}
    call(url_of(args), LEAVE_SAFE_MODE, request, answer=EmptyResponse)
    print("the container engine is accepted" if args.new_engine else "jobs are started again")


def add_console(command: ArgumentParser) -> None:
    """Open the web console in your browser, logged in; with a job or a group, at its page.

    On a server with keys the link logs in one browser as you, once, within 60 seconds. The browser reads it from a file
    that only you can read, because all users of a machine can see the arguments of its processes.

      batchq console @            the page of your latest job
      batchq console fit          the page of the group fit
      batchq console --print      print the link, for a browser on another machine
    """
    command.add_argument("job", nargs="?", metavar="JOB", help=f"{HELP_ONE}; the name or the id of a group: its page")
    command.add_argument("--print", action="store_true", help="print the link, and open no browser")


def run_console(args: Namespace) -> None:
    url = url_of(args)
    page = OVERVIEW_PAGE if args.job is None else _page_of(url, args.job)
    made = call(url, CREATE_LOGIN, {"page": page}, answer=CreateConsoleLoginResponse)
    # By TCP the server may have another URL here, as behind a proxy.
    link = made.url if is_unix_url(url) else f"{url}{made.path}"
    if args.print or not open_browser(link):
        write_line(link)
    else:
        print_notice("the console is opened in your browser; if no page appears: batchq console --print")


def _page_of(url: str, handle: str) -> str:
    """The page of the job or group that a handle names. Raises UsageError, and the errors of `resolve_targets`."""
    jobs, groups = resolve_targets(url, [handle])
    return group_path(groups[0]) if groups and not jobs else job_path(single(handle, jobs))


def open_browser(link: str) -> bool:
    """Open a link in a graphical browser. False without one.

    A link with a login code is not an argument of the browser: other users of the machine could read and use it.
    """
    if sys.platform == "linux" and not any(map(os.environ.get, DISPLAYS)):
        return False
    if HAS_CODE in link and not hasattr(os, "geteuid"):
        return False  # Windows: a file cannot have mode 0600
    import webbrowser  # noqa: PLC0415 - submit, which prints URLs, does not need it

    try:
        return webbrowser.open(_save_link(link).as_uri() if HAS_CODE in link else link)
    except (webbrowser.Error, OSError):
        return False


def _save_link(link: str) -> Path:
    """Write a page that leads to the link, with mode 0600. It replaces the page of the last link. Raises OSError."""
    from batchq.system.private_file import replace_file  # noqa: PLC0415 - a POSIX system only

    path = _runtime_directory() / "batchq-console.html"
    replace_file(path, LINK_PAGE.format(link=html.escape(link)).encode())
    return path


def _runtime_directory() -> Path:
    """XDG_RUNTIME_DIR if it is a directory of this user alone, else ~/.cache/batchq.

    Raises OSError if that is not such a directory either, as where the home directory is shared.
    """
    given = Path(os.environ.get("XDG_RUNTIME_DIR", ""))
    if given.is_absolute() and given.is_dir() and _is_private(given):
        return given
    cache = Path("~/.cache/batchq").expanduser()
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not _is_private(cache):
        raise PermissionError(f"{cache} is not a directory of this user alone")
    return cache


def _is_private(folder: Path) -> bool:
    found = folder.lstat()
    mode = stat.S_IMODE(found.st_mode)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not mode & 0o077


def job_url(url: str, job_id: str) -> str:
    """The URL of the page of a job; empty if the server is known by its unix socket only."""
    return "" if is_unix_url(url) else f"{url}{job_path(job_id)}"
