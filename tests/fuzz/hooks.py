"""What schemathesis is told of this server: its second media type, and names that make sense here."""

import json
import os

import schemathesis

from tests.support.answers import NDJSON, parsed

CLOUDWATCH = "application/x-amz-json-1.1"
THERE = json.loads(os.environ["BATCHQ_THERE"])
"""By member, what is there or could be; what is made up hardly ever is."""


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
    """What was drawn at random becomes what would do; its bounds are another phase's to try."""
    return met(body)


def met(content):
    if isinstance(content, list):
        return [met(it) for it in content]
    if isinstance(content, dict):
        return {name: THERE[name] if fits(name, value) else met(value) for name, value in content.items()}
    return content


def fits(name, value):
    return name in THERE and type(value) is type(THERE[name])
