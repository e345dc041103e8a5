"""AWS Batch as botocore's service model describes it."""

import botocore.session

SERVICE = botocore.session.get_session().get_service_model("batch")
OPERATIONS = {name: SERVICE.operation_model(name) for name in SERVICE.operation_names}


def sample(shape):
    """The least value that botocore's own validation takes for a shape."""
    match shape.type_name:
        case "structure":
            return {name: sample(shape.members[name]) for name in shape.required_members}
        case "list":
            return [sample(shape.member)]
        case "map":
            return {"key": sample(shape.value)}
        case "string":
            return shape.enum[0] if shape.enum else "it"
        case "boolean":
            return True
        case "integer" | "long" | "double":
            return 1
        case other:
            raise TypeError(other)
