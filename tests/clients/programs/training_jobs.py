"""Makes the requests of its standard input by httpx, with a bearer token, and prints the responses as JSON.

A request is a method, a path, a body or null, and headers. `$id` is the id of the job that was created last. The method
UNTIL repeats the GET of its path until the member `status` has the value that is its body.
"""

import json
import os
import sys
import time

import httpx

JOBS = os.environ["AWS_ENDPOINT_URL"] + "/v2/training/jobs"
PATIENCE = 60  # seconds
TOKEN = os.environ.get("TRAINING_TOKEN") or f"{os.environ['AWS_ACCESS_KEY_ID']}.{os.environ['AWS_SECRET_ACCESS_KEY']}"


def until(client, path, status):
    end = time.monotonic() + PATIENCE
    while (response := client.get(path)).json().get("status") != status:
        assert time.monotonic() < end, response.text
        time.sleep(0.1)
    return response


def main():
    outcomes, job = [], ""
    with httpx.Client(
        verify=os.environ["AWS_CA_BUNDLE"],
        headers={"Authorization": f"Bearer {TOKEN}"} if TOKEN != "none" else {},
        timeout=90,
    ) as client:
        for method, path, body, headers in json.load(sys.stdin):
            place = JOBS + path.replace("$id", job)
            if method == "UNTIL":
                response = until(client, place, body)
            else:
                sent = {} if body is None else {"json": body}
                response = client.request(method, place, headers=headers, **sent)
            content = response.json() if response.content else None
            job = content["jobId"] if method == "POST" and not path else job
            outcomes.append({"status": response.status_code, "content": content, "headers": dict(response.headers)})
    print(json.dumps(outcomes))


main()
