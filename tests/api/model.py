"""AWS Batch as botocore's service model describes it."""

import botocore.session

from batchq.api.batch.routes import JOBS, RESOURCES, TAGS

SERVED = {**JOBS, **RESOURCES, **TAGS}
SERVICE = botocore.session.get_session().get_service_model("batch")
OPERATIONS = {name: SERVICE.operation_model(name) for name in SERVICE.operation_names}


def sample(shape, *, whole=False):
    """The least value that botocore's own validation takes for a shape; if `whole`, one with every member."""
    match shape.type_name:
        case "structure":
            names = shape.members if whole else shape.required_members
            return {name: sample(shape.members[name], whole=whole) for name in names}
        case "list":
            return [sample(shape.member, whole=whole)]
        case "map":
            return {"key": sample(shape.value, whole=whole)}
        case "string":
            return shape.enum[0] if shape.enum else "it"
        case "boolean":
            return True
        case "integer" | "long" | "double" | "float":
            return 1
        case other:
            raise TypeError(other)
