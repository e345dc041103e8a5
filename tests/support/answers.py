"""Parsed answers of a server: JSON, NDJSON of a bulk stop as one object, or the text of a page."""

import json

NDJSON = "application/x-ndjson"


def parsed(body, media_type):
    """Lines of jobs and a last line: an object with the members of the last line, and `jobs`."""
    if (media_type or "").startswith("text/html"):
        return body.decode()
    if not (media_type or "").startswith(NDJSON):
        return json.loads(body)
    *jobs, last = map(json.loads, body.splitlines())
    return {"jobs": jobs, **last}
