"""Makes the table of settings of docs/operations.md. `python -m tests.docs.settings_table` writes the table."""

from enum import StrEnum

from batchq.settings import PREFIX, Settings, flag_name, shown_default
from tests.docs.monitoring import DOCS

PAGE = DOCS / "operations.md"
BEGIN, END = "<!-- table of settings -->\n", "<!-- /table of settings -->"

#: The pages that explain a setting.
PAGES = {
    "socket": "accounts-and-keys.md#users-of-one-machine",
    "auth": "accounts-and-keys.md",
    "kubernetes": "kubernetes.md",
    "kubernetes_checkpoints": "kubernetes.md#checkpoints",
    "kubernetes_follow": "kubernetes.md#logs",
    "kubernetes_refuse_drains": "kubernetes.md#refuse-drains",
    "runtime": "ci.md",
    "network": "networks.md",
    "container_runtime": "engines.md#oci-runtimes",
    "engine_socket": "engines.md#the-engines-socket-in-jobs",
    "exec_sessions": "command-line.md#run-a-command-in-a-job",
    "prices": "cost.md",
    "metrics_token_file": "monitoring.md",
    "s3_root": "sagemaker.md",
    "modelarts_config": "modelarts.md",
    "checkpoints": "training.md",
}


def with_table(page: str) -> str:
    """The page with the present table."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}{table()}{END}{rest.partition(END)[2]}"


def table() -> str:
    rows = [
        f"| `{flag_name(name)}`, `{PREFIX}{name.upper()}` | {_meaning(name)} | {shown_default(name)} |"
        for name in Settings.model_fields
    ]
    return "\n".join(["| flag, variable | meaning | default |", "|---|---|---|", *rows, ""])


def _meaning(name: str) -> str:
    """The description of a setting, its choices, and the page with more about the setting."""
    field = Settings.model_fields[name]
    kind = field.annotation
    choices = [f"`{choice}`" for choice in kind] if isinstance(kind, type) and issubclass(kind, StrEnum) else []
    text = ": ".join(filter(None, (field.description, ", ".join(choices))))
    return f"{text} ([{PAGES[name].partition('#')[0]}]({PAGES[name]}))" if name in PAGES else text


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
