"""The files of distributions and of all that they need, as installed here: a JSON list."""

import json
import sys
from importlib.metadata import PackageNotFoundError, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def closure(names):
    seen, left = {}, list(names)
    while left:
        name = canonicalize_name(left.pop())
        if name in seen:
            continue
        try:
            seen[name] = distribution(name)
        except PackageNotFoundError:  # for another system, or of an extra that is not installed
            continue
        needs = map(Requirement, seen[name].requires or ())
        left += [need.name for need in needs if need.marker is None or need.marker.evaluate({"extra": ""})]
    return seen.values()


found = {str(file.locate().resolve()) for distribution in closure(sys.argv[1:]) for file in distribution.files or ()}
print(json.dumps(sorted(found)))
