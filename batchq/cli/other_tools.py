"""Words of docker, Slurm, Grid Engine, AWS and kubectl that users type for a command or flag of batchq, with its own.

Only messages on invalid arguments use them: batchq does not accept these words.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

_REMOVED = "nothing: a container is removed when its job has ended"
_TERMINAL = "nothing, or batchq exec JOB -- sh for a terminal in a running job"
_NETWORK = "--tag batchq:network=MODE (docs/networks.md)"
_NAME, _QUEUE, _VCPUS, _MEMORY, _FOLDER, _AFTER = (
    "--name",
    "--queue",
    "--vcpus N",
    "--memory SIZE",
    "--cd DIR",
    "--after JOB",
)
_MAIL = "--notify WEBHOOK"
_OUTPUT = "batchq logs JOB, which prints the stored output"
_OUTPUT_FORMAT = "-o json"

#: The default of a parser that names the flag for a word which the command does not have, as in `key create bob`.
FLAG_OF_WORD = "flag_of_word"

#: The flags of a submission, by flag of docker run, sbatch, qsub, and aws batch submit-job.
_SUBMISSION: Final[dict[str, str]] = {
    **dict.fromkeys(("--rm", "--remove-orphans"), _REMOVED),
    **dict.fromkeys(("-it", "-i", "-t", "-ti", "--interactive", "--tty"), _TERMINAL),
    **dict.fromkeys(("--job-name", "-J", "-N"), _NAME),
    **dict.fromkeys(("--job-queue", "--partition", "--qos"), _QUEUE),
    **dict.fromkeys(("--cpus", "--cpu", "--vcpu", "-c", "--cpus-per-task", "--ntasks", "-n", "--cpuset-cpus"), _VCPUS),
    **dict.fromkeys(("--mem", "-m", "--mem-per-cpu", "--ram"), _MEMORY),
    **dict.fromkeys(("--gpu", "--gres", "-G", "--gpus-per-node"), "--gpus N"),
    **dict.fromkeys(("-w", "--workdir", "--chdir", "-D", "-cwd"), _FOLDER),
    **dict.fromkeys(("--mount", "--volumes", "--bind"), "-v HOST:PATH"),
    **dict.fromkeys(("--job-definition", "--jobdefinition"), "-d DEF"),
    **dict.fromkeys(("--depends-on", "--dependency", "--depend", "--depends", "-hold_jid", "-W"), _AFTER),
    **dict.fromkeys(("--network", "--net"), _NETWORK),
    **dict.fromkeys(("--retry-strategy", "--retries", "--restart", "--requeue", "--attempts"), "--retry N"),
    **dict.fromkeys(("--timeout", "--time-limit", "--walltime"), "--time DURATION"),
    **dict.fromkeys(("--mail-user", "--mail-type", "-M"), _MAIL),
    **dict.fromkeys(("--output", "--error", "--log", "-o", "--attach", "-a"), _OUTPUT),
    **dict.fromkeys(("--environment", "--export", "-V"), "-e NAME=VALUE"),
    **dict.fromkeys(("--tags", "--label"), "--tag NAME=VALUE"),
    **dict.fromkeys(("--array-properties", "--array-size"), "--array N"),
    **dict.fromkeys(("--command", "--wrap", "--entrypoint", "--container-overrides"), "-- COMMAND"),
    **dict.fromkeys(("-p", "--publish", "--expose"), "--queue for a queue; ports of jobs are not published"),
    **dict.fromkeys(("-l",), "--vcpus, --memory and --time, or --tag"),
    **dict.fromkeys(("--detach",), "nothing: submit does not wait"),
    "--share-identifier": "--share NAME",
    "--scheduling-priority-override": "--priority N",
    "--consumable-resource-properties-override": "--need RESOURCE=N",
    "--hold": "batchq hold JOB",
    "--privileged": "a job definition with privileged, and -d DEF",
    "--nodes": "a job definition of type multinode, and -d DEF",
}
_LISTS: Final[dict[str, str]] = {
    **dict.fromkeys(("--json", "--format", "--output-format"), _OUTPUT_FORMAT),
    **dict.fromkeys(("-s", "--status", "--job-status", "--states"), "-t STATE"),
    **dict.fromkeys(("-a", "--all"), "-t all"),
    **dict.fromkeys(("--job-queue", "-p", "--partition"), _QUEUE),
}
_STOPS: Final[dict[str, str]] = _LISTS | {"-f": "--force", "-9": "--force", "-s": "--signal", "--job-id": "JOB"}
_FLAGS: Final[Mapping[str, Mapping[str, str]]] = {
    "batchq submit": _SUBMISSION,
    "batchq run": _SUBMISSION
    | {"--wait": "nothing: run waits", "--each": "batchq submit", "--each-row": "batchq submit"},
    "batchq rerun": _SUBMISSION,
    "batchq events": _LISTS | {"--json": "-o jsonl"},
    "batchq budget set": dict.fromkeys(("--amount", "--limit", "--max"), "--hard or --soft"),
    "batchq exec": dict.fromkeys(("-it", "-ti", "--interactive", "--tty"), "-t, or nothing in a terminal"),
    "batchq cancel": _STOPS,
    "batchq terminate": _STOPS,
}

_COMMANDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("sbatch", "qsub", "bsub", "submit-job", "create", "add"), "submit"),
    **dict.fromkeys(("srun", "qrsh"), "run"),
    **dict.fromkeys(("squeue", "qstat", "bjobs", "status", "stat", "jobs", "list-jobs"), "list"),
    **dict.fromkeys(("sacct", "qacct"), "list -t all"),
    **dict.fromkeys(("scancel", "qdel", "bkill", "stop", "rm", "del", "delete", "abort", "terminate-job"), "terminate"),
    **dict.fromkeys(("describe", "info", "inspect", "get", "describe-jobs"), "show"),
    **dict.fromkeys(("tail", "follow", "attach"), "logs -f"),
    **dict.fromkeys(("sinfo", "stats", "watch", "qhost", "nodes"), "top"),
    **dict.fromkeys(("retry", "resubmit"), "rerun"),
    **dict.fromkeys(("server", "daemon", "start"), "serve"),
    **dict.fromkeys(("login", "ui", "web"), "console"),
    "config": "settings",
    "version": "--version",
}
#: The subcommands that a word may mean, the likeliest first.
_SUBCOMMANDS: Final[Mapping[str, Sequence[str]]] = {
    **dict.fromkeys(("add", "create", "new", "register"), ("add", "create", "set")),
    **dict.fromkeys(("set", "update", "edit", "modify", "change"), ("set", "update")),
    **dict.fromkeys(("delete", "remove", "rm", "del"), ("delete", "remove")),
    "ls": ("list",),
    **dict.fromkeys(("describe", "get", "info", "inspect"), ("show",)),
}
_CREATED_BY: Final[Mapping[str, str]] = {
    "batchq queue": "job queues are created by: aws batch create-job-queue",
    "batchq def": "job definitions are created by: aws batch register-job-definition, and by batchq submit IMAGE",
    "batchq resource": "consumable resources are created by: aws batch create-consumable-resource",
}


def advice_on_flags(command: str, words: Sequence[str], known: Collection[str]) -> str:
    """What to use in place of each flag of another tool among the words; empty without one.

    `command`: `batchq list`. `known`: the flags that the command has.
    """
    table = _FLAGS.get(command, _LISTS)
    flags = dict.fromkeys(word.partition("=")[0] for word in words if word.startswith("-"))
    advice = {flag: table[flag] for flag in flags if flag in table}
    return "".join(
        f"; in place of {flag}: {text}"
        for flag, text in advice.items()
        if not text.startswith("-") or text.partition(" ")[0] in {*known, "--"}
    )


def advice_on_command(parent: str, word: str, commands: Collection[str]) -> str:
    """The command that is meant by a word of another tool; empty if unknown. `parent`: `batchq`, or `batchq user`."""
    if "://" in word:
        return f"; flags follow the command, as in: {parent} list --url {word}"
    if parent == "batchq":
        return f"; did you mean '{_COMMANDS[word]}'?" if word in _COMMANDS else ""
    meant = _SUBCOMMANDS.get(word, ())
    if similar := next((name for name in meant if name in commands), None):
        return f"; did you mean '{similar}'?"
    created_by = _CREATED_BY.get(parent) if "create" in meant else None
    return f"; {created_by}" if created_by else ""
