"""The dashboard and the alerting rules are current, and name metrics that exist; so does the documentation."""

import re

from batchq.api.metrics.routes import Metrics
from tests.docs import monitoring
from tests.support.builders import NOON

PAGE = (monitoring.DOCS / "monitoring.md").read_text()


def exported():
    """The names of all metrics of a server, as they are written in expressions."""
    families = [it for it in Metrics(now=lambda: NOON).registry.collect() if it.name.startswith("batchq_")]
    return {f"{it.name}_total" if it.type == "counter" else it.name for it in families}


def test_the_dashboard_and_the_alerts_are_those_of_the_script():
    assert monitoring.DASHBOARD.read_text() == monitoring.dashboard()
    assert monitoring.ALERTS.read_text() == monitoring.alerts()


def test_the_dashboard_shows_every_metric_and_no_other():
    assert monitoring.metrics_in(monitoring.dashboard()) == exported()


def test_the_alerts_name_metrics_that_exist():
    assert monitoring.metrics_in(monitoring.alerts()) <= exported()


def test_the_page_describes_every_metric_and_no_other():
    assert set(re.findall(r"`(batchq_\w+)`", PAGE)) == exported()
