"""The table of all commands. The parsers, the help, the completion and docs/commands.md are made from it.

The flags of a command are declared beside its implementation, by the function `add_NAME` of its module, because their
parsers would import the modules of all commands. Decision 0091.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple


class Target(Enum):
    """What a command works on; the value is the text in docs/commands.md."""

    #: The command has the flags of `http_client.add_server_flags`, and signs its requests if there is a key.
    SERVER = "a server"
    #: By `admin_backend`: `--data` selects files, `--url` a server.
    SERVER_OR_FILES = "a server, or files of the data directory"
    FILES = "files of the data directory"
    MACHINE = "this machine"
    NOTHING = "nothing"


class Output(Enum):
    """The flags of the output that a command without subcommands has."""

    #: No flags, or flags of its own.
    OWN = "own"
    #: Those of `tables.add_json_flags`.
    JSON = "json"
    #: Those of `tables.add_output_flags`.
    LIST = "list"


class Command(NamedTuple):
    """One command. Its module is imported when the command is called, since that of `serve` takes a second."""

    #: The module of batchq.cli.
    module: str
    #: The line in `batchq --help`.
    summary: str
    target: Target = Target.SERVER
    output: Output = Output.OWN
    #: Whether `batchq --help` lists the command: not one with the flags of another program.
    listed: bool = True


#: By topic and name.
TOPICS: Final[Mapping[str, Mapping[str, Command]]] = {
    "jobs": {
        "run": Command("submit", "submit a job, follow its output, and end with its exit code"),
        "submit": Command("submit", "submit a job from an image, a job definition or a script"),
        "rerun": Command("rerun", "submit finished jobs again"),
        "list": Command("job_list", "list jobs, by default yours that are unfinished", output=Output.LIST),
        "show": Command("job_detail", "print a job with all its details", output=Output.LIST),
        "why": Command("job_detail", "print why a job waits, or has failed", output=Output.JSON),
        "history": Command("job_detail", "print the states of a job, with times", output=Output.LIST),
        "logs": Command("job_logs", "print the output of jobs, or follow it"),
        "exec": Command("exec_command", "run a command in the container of a running job"),
        "console": Command("server_commands", "open the web console in a browser, logged in"),
        "top": Command("top", "show queues, capacity and jobs, refreshed"),
        "events": Command("events", "print status changes of jobs, or follow them"),
        "webhook": Command("webhooks", "send events of jobs to programs and chats"),
        "wait": Command("job_wait", "wait until jobs have ended", output=Output.JSON),
        "cancel": Command("bulk_stop", "cancel jobs: they do not start, or are not retried"),
        "terminate": Command("bulk_stop", "terminate jobs, also running ones"),
        "ccancel": Command("ccancel", "terminate jobs with the flags of CraneSched's ccancel", listed=False),
        "hold": Command("job_holds", "keep queued jobs from starting", output=Output.JSON),
        "release": Command("job_holds", "let held jobs start again", output=Output.JSON),
        "pause": Command("job_holds", "stop running jobs with a checkpoint, and hold them", output=Output.JSON),
        "resume": Command("job_holds", "let paused jobs start again from their checkpoint", output=Output.JSON),
        "checkpoints": Command("job_holds", "list, request and delete the checkpoints of a job", output=Output.LIST),
        "force-fail": Command("server_commands", "fail a job whose container does not end"),
    },
    "queues and definitions": {
        "queue": Command("catalog", "list, show, enable and disable job queues"),
        "drain": Command("job_holds", "let job queues accept jobs and start none", output=Output.JSON),
        "env": Command("catalog", "list, show and change compute environments"),
        "def": Command("catalog", "list and show job definitions"),
        "resource": Command("catalog", "list and show consumable resources"),
    },
    "users": {
        "whoami": Command("server_commands", "print your user, account and role on the server"),
        "account": Command("accounts", "manage accounts, container policies and limits", Target.SERVER_OR_FILES),
        "cost": Command("cost", "print what jobs cost, by job, user, account or queue", output=Output.LIST),
        "budget": Command("cost", "list, set and remove budgets of accounts and queues"),
        "user": Command("accounts", "manage users and their roles", Target.SERVER_OR_FILES),
        "key": Command("accounts", "manage access keys", Target.SERVER_OR_FILES),
        "audit": Command("audit", "print the audit log", output=Output.LIST),
        "completion": Command("completion", "print the script that completes words in a shell", Target.NOTHING),
    },
    "the server": {
        "serve": Command("serve", "run the server", Target.FILES),
        "settings": Command(
            "server_settings", "print the settings of the server, and where each comes from", Target.FILES
        ),
        "install-service": Command("service", "write a systemd unit that runs the server", Target.MACHINE),
        "uninstall-service": Command("service", "remove the systemd unit of install-service", Target.MACHINE),
        "doctor": Command("doctor", "find problems and recommend remedies"),
        "backup": Command("database", "copy the database, also of a running server", Target.FILES),
        "check": Command("database", "check the database, or a backup, for damage", Target.FILES),
        "restore": Command("database", "replace the database by a backup", Target.FILES),
        "leave-safe-mode": Command("server_commands", "start jobs again after a restore"),
    },
}
COMMANDS: Final[Mapping[str, Command]] = {name: command for topic in TOPICS.values() for name, command in topic.items()}
#: Second names of commands, as other programs call them.
ALIASES: Final[Mapping[str, str]] = {"ls": "list", "ps": "list", "kill": "terminate", "open": "console"}
