"""Makes docs/grafana.json and docs/alerts.yml. `python -m tests.docs.monitoring` writes both."""

import json
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[2] / "docs"
DASHBOARD, ALERTS = DOCS / "grafana.json", DOCS / "alerts.yml"

WIDTH, HEIGHT = 12, 8  # of a panel; the dashboard is 24 units wide


def quantile(of: float, metric: str, *labels: str, over: str = "5m") -> str:
    """The expression of a quantile of a histogram by labels."""
    return f"histogram_quantile({of}, sum by ({', '.join(('le', *labels))}) (rate({metric}_bucket[{over}])))"


#: Title, unit of Grafana, and the queries of each panel with their legends.
PANELS = (
    ("Unfinished jobs", "short", ("sum by (queue, state) (batchq_jobs)", "{{queue}} {{state}}")),
    ("Jobs that ended", "short", ("sum by (outcome) (increase(batchq_jobs_finished_total[5m]))", "{{outcome}}")),
    ("Attempts that ended", "short", ("sum by (outcome) (increase(batchq_attempts_total[5m]))", "{{outcome}}")),
    (
        "Wait from RUNNABLE to STARTING",
        "s",
        (quantile(0.5, "batchq_job_wait_seconds", "queue"), "{{queue}} p50"),
        (quantile(0.95, "batchq_job_wait_seconds", "queue"), "{{queue}} p95"),
    ),
    ("First RUNNABLE job", "s", ("batchq_queue_oldest_runnable_seconds", "{{queue}}")),
    ("Blocked heads of queues", "s", ("batchq_queue_blocked_seconds", "{{queue}} {{reason}}")),
    ("vCPUs", "short", ("batchq_vcpus", "{{environment}} {{kind}}")),
    ("vCPUs of accounts", "short", ("batchq_account_vcpus", "{{account}} {{kind}}")),
    ("Memory", "bytes", ("batchq_memory_bytes", "{{kind}}")),
    ("GPUs", "short", ("batchq_gpus", "{{kind}}")),
    ("Machines", "short", ("batchq_machines", "{{state}}")),
    ("vCPUs of machines", "short", ("batchq_machine_vcpus", "{{machine}} {{kind}}")),
    ("Memory of machines", "bytes", ("batchq_machine_memory_bytes", "{{machine}} {{kind}}")),
    ("GPUs of machines", "short", ("batchq_machine_gpus", "{{machine}} {{kind}}")),
    ("Consumable resources", "short", ("batchq_resource_units", "{{resource}} {{kind}}")),
    ("Run time of attempts", "s", (quantile(0.5, "batchq_attempt_run_seconds", "queue", over="15m"), "{{queue}} p50")),
    (
        "Used CPU time of attempts, in vCPUs",
        "short",
        ("sum by (queue) (rate(batchq_attempt_cpu_seconds_total[15m]))", "{{queue}}"),
    ),
    (
        "Used part of the requested memory",
        "percentunit",
        (quantile(0.95, "batchq_attempt_memory_used_ratio", "queue", over="15m"), "{{queue}} p95"),
    ),
    (
        "Start and stop",
        "s",
        (quantile(0.95, "batchq_attempt_start_seconds"), "start p95"),
        (quantile(0.95, "batchq_stop_signal_seconds"), "stop signal p95"),
        (quantile(0.95, "batchq_stop_seconds", "how"), "stop by {{how}} p95"),
    ),
    ("Calls of the container engine", "s", (quantile(0.95, "batchq_engine_call_seconds", "call"), "{{call}} p95")),
    (
        "Failed calls of the container engine",
        "short",
        ('sum by (call, outcome) (increase(batchq_engine_calls_total{outcome!="ok"}[5m]))', "{{call}} {{outcome}}"),
    ),
    (
        "Scheduler",
        "s",
        (quantile(0.95, "batchq_unit_of_work_seconds"), "unit of work p95"),
        (quantile(0.95, "batchq_commit_seconds"), "commit p95"),
        ("batchq_event_loop_late_seconds", "event loop late"),
    ),
    ("Messages of a unit of work", "short", (quantile(0.95, "batchq_unit_of_work_messages"), "p95")),
    (
        "Requests",
        "reqps",
        ("sum by (operation, class) (rate(batchq_http_requests_total[5m]))", "{{operation}} {{class}}"),
    ),
    ("Duration of requests", "s", (quantile(0.95, "batchq_http_request_seconds", "operation"), "{{operation}} p95")),
    ("Submitted jobs", "short", ("sum by (queue) (increase(batchq_jobs_submitted_total[5m]))", "{{queue}}")),
    (
        "Disk",
        "bytes",
        ("batchq_disk_free_bytes", "free"),
        ("batchq_store_bytes", "database"),
        ("batchq_logs_bytes", "logs"),
    ),
    ("Events", "short", ("rate(batchq_feed_number[5m])", "events/s")),
    ("Requests that wait for changes", "short", ("batchq_watchers", "waiting")),
    (
        "Webhooks",
        "short",
        ("sum by (outcome) (increase(batchq_webhook_deliveries_total[5m]))", "{{outcome}}"),
        ("batchq_webhook_waiting_events", "waiting events"),
        ("batchq_webhook_oldest_failure_seconds", "oldest failure, seconds"),
    ),
    (
        "Server",
        "short",
        ("batchq_engine_up", "engine up"),
        ("batchq_store_up", "database accepts changes"),
        ("batchq_safe_mode", "safe mode"),
        ("batchq_info", "{{version}}"),
    ),
)

#: Name, expression, how long it must hold, severity, and what is wrong.
RULES = (
    ("BatchqDown", 'up{job="batchq"} == 0', "2m", "critical", "The batchq server does not answer."),
    (
        "BatchqEngineDown",
        "batchq_engine_up == 0",
        "2m",
        "critical",
        "The container engine does not answer: no job starts.",
    ),
    (
        "BatchqStoreDown",
        "batchq_store_up == 0",
        "1m",
        "critical",
        "The database refuses changes: no job is accepted or started.",
    ),
    (
        "BatchqSafeMode",
        "batchq_safe_mode == 1",
        "10m",
        "warning",
        "Safe mode starts no job: run `batchq leave-safe-mode`.",
    ),
    (
        "BatchqMachineAway",
        'batchq_machines{state="AWAY"} > 0',
        "10m",
        "warning",
        "A machine does not answer: its jobs may still run, and it gets no new job.",
    ),
    (
        "BatchqQueueWaits",
        "batchq_queue_oldest_runnable_seconds > 3600",
        "5m",
        "warning",
        "The first job of queue {{ $labels.queue }} has been RUNNABLE for more than an hour.",
    ),
    (
        "BatchqJobsFail",
        (
            'sum by (queue) (increase(batchq_jobs_finished_total{outcome="failed"}[1h])) >= 20 and sum by (queue) '
            '(increase(batchq_jobs_finished_total{outcome="failed"}[1h])) > 0.5 * sum by (queue) '
            "(increase(batchq_jobs_finished_total[1h]))"
        ),
        "5m",
        "warning",
        "More than half of the jobs of queue {{ $labels.queue }} failed within the last hour.",
    ),
    (
        "BatchqDiskLow",
        "batchq_disk_free_bytes < 1073741824",
        "5m",
        "warning",
        "The disk with batchq's data has less than 1 GiB left.",
    ),
    (
        "BatchqWebhookFails",
        "batchq_webhook_oldest_failure_seconds > 3600",
        "5m",
        "warning",
        "A webhook has failed for more than an hour: `batchq webhook list` shows why.",
    ),
    (
        "BatchqLoopLate",
        "batchq_event_loop_late_seconds > 5",
        "1m",
        "warning",
        "The event loop was delayed by more than 5 s: the machine is overloaded, or a call blocks the server.",
    ),
    (
        "BatchqErrors",
        'sum(increase(batchq_http_requests_total{class="5xx"}[5m])) > 0',
        "5m",
        "warning",
        "Requests fail with a server error: see the log.",
    ),
)


def dashboard() -> str:
    panels = [_panel(index, *panel) for index, panel in enumerate(PANELS)]
    source = {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"}
    made = {
        "title": "batchq",
        "uid": "batchq",
        "schemaVersion": 39,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [source]},
        "panels": panels,
    }
    return json.dumps(made, indent=2) + "\n"


def _panel(index: int, title: str, unit: str, *queries: tuple[str, str]) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + number), "expr": expression, "legendFormat": legend}
        for number, (expression, legend) in enumerate(queries)
    ]
    return {
        "id": index + 1,
        "type": "timeseries",
        "title": title,
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "gridPos": {"x": index % 2 * WIDTH, "y": index // 2 * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "targets": targets,
    }


def alerts() -> str:
    lines = ["# Alerting rules for Prometheus. Made by `python -m tests.docs.monitoring`.", "groups:"]
    lines += ["  - name: batchq", "    rules:"]
    for name, expression, held, severity, text in RULES:
        lines += [
            f"      - alert: {name}",
            f"        expr: {json.dumps(expression)}",
            f"        for: {held}",
            f"        labels: {{severity: {severity}}}",
            f"        annotations: {{summary: {json.dumps(text)}}}",
        ]
    return "\n".join(lines) + "\n"


def metrics_in(text: str) -> set[str]:
    """The names of batchq's metrics in a text, without the suffixes of histograms."""
    return {re.sub(r"_(bucket|sum|count)$", "", metric) for metric in re.findall(r"\bbatchq_\w+", text)}


if __name__ == "__main__":
    DASHBOARD.write_text(dashboard())
    ALERTS.write_text(alerts())
