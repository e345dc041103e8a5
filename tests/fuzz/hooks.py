"""Hooks for schemathesis: the second media type of the server, and names of existing resources."""

import json
import os

import schemathesis

from tests.support.answers import NDJSON, parsed

CLOUDWATCH = "application/x-amz-json-1.1"
MAX_SEGMENT = 500  # characters of a path parameter
LONGEST_WAIT = 20  # seconds of a long poll
LONG_WAITS = frozenset(map(str, range(1, 21)))
VALID_VALUES = json.loads(os.environ["BATCHQ_VALID_VALUES"])
"""By member, names of existing resources and valid values; generated values are hardly ever valid."""


@schemathesis.serializer(CLOUDWATCH)
def serialize(context, value):
    return {"data": json.dumps(value).encode()}


@schemathesis.deserializer(CLOUDWATCH)
def deserialize(context, response):
    return json.loads(response.content)


@schemathesis.deserializer(NDJSON)
def deserialize_lines(context, response):
    return parsed(response.content, NDJSON)


@schemathesis.hook
def map_body(context, body):
    """Replace generated values by valid ones of the same type. Another phase tests the bounds."""
    return with_valid_values(body)


@schemathesis.hook
def map_query(context, query):
    """Shorten valid waits of long polls. Another phase tests the bounds."""
    wait = None if query is None else query.get("wait")
    return query | {"wait": 0} if str(wait).isdigit() and int(wait) <= LONGEST_WAIT else query


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    """Name an existing job, so that a request reaches its log. A path that is too long belongs to no dialect."""
    return {
        name: VALID_VALUES["jobId"] if name in {"job", "jobId"} else str(value)[:MAX_SEGMENT]
        for name, value in (path_parameters or {}).items()
    }


def with_valid_values(content):
    if isinstance(content, list):
        return [with_valid_values(value) for value in content]
    if isinstance(content, dict):
        return {
            name: VALID_VALUES[name] if is_replaced(name, value) else with_valid_values(value)
            for name, value in content.items()
        }
    return content


def is_replaced(name, value):
    return name in VALID_VALUES and type(value) is type(VALID_VALUES[name])


@schemathesis.hook
def before_call(context, case, kwargs):
    """Shorten long polls: each would take up to 20 seconds."""
    if str((case.query or {}).get("wait", "")) in LONG_WAITS:
        case.query["wait"] = 0
