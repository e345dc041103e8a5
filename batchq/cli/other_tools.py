"""What to use in batchq for commands and flags of docker, Slurm, Grid Engine, AWS and kubectl.

Only messages on invalid arguments have this advice: batchq does not accept the words of other tools.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

#: The key of a parser's default that names the flag which a surplus word was meant for: `--user` in `key create bob`.
FLAG_OF_WORD = "flag_of_word"

_TERMINAL = "nothing, or batchq exec JOB -- sh for a terminal in a running job"
_OUTPUT = "batchq logs JOB, which prints the stored output"
_QUEUE = "--queue"
_OUTPUT_FORMAT = "-o json"

#: What to use for a flag of docker run, sbatch, qsub or aws batch submit-job, in commands that submit jobs.
_OF_SUBMISSIONS: Final[dict[str, str]] = {
    **dict.fromkeys(("--rm", "--remove-orphans"), "nothing: a container is removed when its job has ended"),
    **dict.fromkeys(("-it", "-i", "-ti", "--interactive", "--tty"), _TERMINAL),
    **dict.fromkeys(("--job-name", "-J"), "--name"),
    **dict.fromkeys(("--job-queue", "--partition", "--qos"), _QUEUE),
    **dict.fromkeys(
        ("--cpus", "--cpu", "--vcpu", "-c", "--cpus-per-task", "--ntasks", "-n", "--cpuset-cpus"), "--vcpus N"
    ),
    **dict.fromkeys(("--mem", "-m", "--mem-per-cpu", "--ram"), "--memory SIZE"),
    **dict.fromkeys(("--gpu", "--gres", "-G", "--gpus-per-node"), "--gpus N"),
    **dict.fromkeys(("-w", "--workdir", "--chdir", "-D", "-cwd"), "--cd DIR"),
    **dict.fromkeys(("--mount", "--volumes", "--bind"), "-v HOST:PATH"),
    **dict.fromkeys(("--job-definition", "--jobdefinition"), "-d DEF"),
    **dict.fromkeys(("--depends-on", "--dependency", "--depend", "--depends", "-hold_jid", "-W"), "--after JOB"),
    **dict.fromkeys(("--network", "--net"), "--tag batchq:network=MODE (docs/networks.md)"),
    **dict.fromkeys(("--retry-strategy", "--retries", "--restart", "--requeue", "--attempts"), "--retry N"),
    **dict.fromkeys(("--timeout", "--time-limit", "--walltime"), "--time DURATION"),
    **dict.fromkeys(("--mail-user", "--mail-type", "-M"), "--notify WEBHOOK"),
    **dict.fromkeys(("--output", "--error", "--log", "-o", "--attach"), _OUTPUT),
    **dict.fromkeys(("--environment", "--export", "-V"), "-e NAME=VALUE"),
    **dict.fromkeys(("--tags", "--label"), "--tag NAME=VALUE"),
    **dict.fromkeys(("--array-properties", "--array-size"), "--array N"),
    **dict.fromkeys(("--command", "--wrap", "--entrypoint", "--container-overrides"), "-- COMMAND"),
    **dict.fromkeys(("-p", "--publish", "--expose"), "--queue for a queue; ports of jobs are not published"),
    # These differ between docker, Slurm and Grid Engine.
    "-a": f"--array N, or {_OUTPUT}",
    "-t": f"--array N for an array; for a terminal: {_TERMINAL}",
    "-N": "--name; for several nodes: a job definition of type multinode, and -d DEF",
    "-l": "--vcpus, --memory and --time, or --tag",
    "--detach": "nothing: submit does not wait",
    "--share-identifier": "--share NAME",
    "--scheduling-priority-override": "--priority N",
    "--consumable-resource-properties-override": "--need RESOURCE=N",
    "--hold": "batchq hold JOB",
    "--privileged": "a job definition with privileged, and -d DEF",
    "--nodes": "a job definition of type multinode, and -d DEF",
}
#: The same for commands that select jobs by filters.
_OF_LISTS: Final[dict[str, str]] = {
    **dict.fromkeys(("--json", "--format", "--output-format"), _OUTPUT_FORMAT),
    **dict.fromkeys(("-s", "--status", "--job-status", "--states"), "-t STATE"),
    **dict.fromkeys(("-a", "--all"), "-t all"),
    **dict.fromkeys(("--job-queue", "-p", "--partition"), _QUEUE),
}
_OF_STOPS: Final[dict[str, str]] = _OF_LISTS | {"-f": "--force", "-9": "--force", "-s": "--signal", "--job-id": "JOB"}
#: The tables of commands; all others have that of lists.
_ADVICE: Final[Mapping[str, Mapping[str, str]]] = {
    "batchq submit": _OF_SUBMISSIONS,
    "batchq run": _OF_SUBMISSIONS
    | {"--wait": "nothing: run waits", "--each": "batchq submit", "--each-row": "batchq submit"},
    "batchq rerun": _OF_SUBMISSIONS | dict.fromkeys(("--job-queue", "--partition", "--qos"), "--new-queue"),
    "batchq events": _OF_LISTS | {"--json": "-o jsonl"},
    "batchq budget set": dict.fromkeys(("--amount", "--limit", "--max"), "--hard or --soft"),
    "batchq exec": dict.fromkeys(
        ("-it", "-i", "-t", "-ti", "--interactive", "--tty"), "nothing: in a terminal the command gets a terminal"
    ),
    "batchq cancel": _OF_STOPS,
    "batchq terminate": _OF_STOPS,
}

#: The command that a word means.
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

    `command`: as `batchq list`. `known`: the flags that the command has; no other flag is recommended.
    """
    table = _ADVICE.get(command, _OF_LISTS)
    flags = dict.fromkeys(word.partition("=")[0] for word in words if word.startswith("-"))
    advice = {flag: table[flag] for flag in flags if flag in table}
    return "".join(
        f"; in place of {flag}: {text}"
        for flag, text in advice.items()
        if not text.startswith("-") or text.split()[0].rstrip(",;") in {*known, "--"}
    )


def advice_on_command(parent: str, word: str, commands: Collection[str]) -> str:
    """The command that a word of another tool means; empty if unknown. `parent`: `batchq`, or as `batchq user`."""
    if "://" in word:
        return f"; flags follow the command, as in: {parent} list --url {word}"
    if parent == "batchq":
        return f"; did you mean '{_COMMANDS[word]}'?" if word in _COMMANDS else ""
    meant = _SUBCOMMANDS.get(word, ())
    if similar := next((name for name in meant if name in commands), None):
        return f"; did you mean '{similar}'?"
    created_by = _CREATED_BY.get(parent) if "create" in meant else None
    return f"; {created_by}" if created_by else ""
