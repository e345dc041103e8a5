"""What schemathesis is told of this server: its second media type, and names that are there."""

import json
import os

import schemathesis

CLOUDWATCH = "application/x-amz-json-1.1"
THERE = json.loads(os.environ["BATCHQ_THERE"])
"""By member, what would be found; a made-up name hardly ever is."""


@schemathesis.serializer(CLOUDWATCH)
def serialize(context, value):
    return {"data": json.dumps(value).encode()}


@schemathesis.deserializer(CLOUDWATCH)
def deserialize(context, response):
    return json.loads(response.content)


@schemathesis.hook
def map_body(context, body):
    """Half of the names that were drawn become names that are there."""
    return met(body) if isinstance(body, dict) else body


def met(content):
    return {name: THERE[name] if name in THERE and drawn(value) else value for name, value in content.items()}


def drawn(value):
    return isinstance(value, str) and len(value) % 2 == 0
