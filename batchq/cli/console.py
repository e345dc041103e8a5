"""`batchq console`: opens the web console in a browser, logged in; and the URLs of its pages."""

import os
import sys
from argparse import ArgumentParser, Namespace

from batchq.cli.http_client import add_server_flags, call, is_unix_url, url_of
from batchq.cli.job_handles import HELP_ONE, resolve_job
from batchq.cli.output import DONE, print_notice, write_line
from batchq.domain.ids import job_path

OVERVIEW_PAGE = "/ui/"
CREATE_LOGIN = "/v1/batchq/consolelogin"
#: On Linux a graphical browser needs one of the first two. The third names the user's browser.
DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")


def add_console(command: ArgumentParser) -> None:
    """Open the web console in your browser, logged in; with a job, at the page of the job.

    On a server with keys the link logs in one browser as you, once, within 60 seconds.

      batchq console @            the page of your latest job
      batchq console --print      print the link, for a browser on another machine
    """
    command.set_defaults(run=console)
    command.add_argument("job", nargs="?", metavar="JOB", help=HELP_ONE)
    command.add_argument("--print", action="store_true", help="print the link, and open no browser")
    add_server_flags(command)


def console(args: Namespace) -> int:
    url = url_of(args)
    page = OVERVIEW_PAGE if args.job is None else job_path(resolve_job(url, args.job))
    made = call(url, CREATE_LOGIN, {"page": page})
    # By TCP the server may have another URL here, as behind a proxy.
    link = str(made["url"]) if is_unix_url(url) else f"{url}{made['path']}"
    if args.print or not open_browser(link):
        write_line(link)
    else:
        print_notice("the console is opened in your browser; if no page appears: batchq console --print")
    return DONE


def open_browser(link: str) -> bool:
    """Open a link in a graphical browser. False without one."""
    if sys.platform == "linux" and not any(map(os.environ.get, DISPLAYS)):
        return False
    import webbrowser  # noqa: PLC0415 - submit, which prints URLs, does not need it

    try:
        return webbrowser.open(link)
    except webbrowser.Error:
        return False


def job_url(url: str, job_id: str) -> str:
    """The URL of the page of a job; empty if the server is known by its unix socket only."""
    return "" if is_unix_url(url) else f"{url}{job_path(job_id)}"
