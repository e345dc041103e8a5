"""Runs every paginator of boto3's batch client with one resource a page. Prints the resources, or the error."""

import json
import sys

import boto3
from botocore.exceptions import ClientError

WORDS = json.loads(sys.argv[1])  # the members of the request, by operation

batch = boto3.client("batch")
operations = [method for method in sorted(batch.meta.method_to_api_mapping) if batch.can_paginate(method)]
seen = {}
for operation in operations:
    pages = batch.get_paginator(operation).paginate(**WORDS.get(operation, {}), PaginationConfig={"PageSize": 1})
    try:
        seen[operation] = [json.dumps(answer, sort_keys=True, default=str) for answer in pages.result_key_iters()[0]]
    except ClientError as why:
        seen[operation] = f"{why.response['Error']['Code']}: {why.response['Error']['Message']}"
print(json.dumps(seen))
