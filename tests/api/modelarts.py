"""The ModelArts dialect on the backend of the API's tests."""

from batchq.api.training.modelarts import operations
from batchq.api.training.modelarts.context import ModelArtsContext, ModelArtsSettings

PROJECT = "7c1e5d20b9a34f6e8d20aa41c3f09b55"
JOBS = f"/v2/{PROJECT}/training-jobs"
SEARCHES = f"/v2/{PROJECT}/training-job-searches"
UNKNOWN = "91d0a6b4-3f52-4f0e-b1a7-64c5d2f7e810"

ENGINES = ({"id": "torch-2", "name": "PyTorch", "version": "2.4", "image": "lab/torch:2.4"},)
SETTINGS = ModelArtsSettings.model_validate({"obs_root": "/srv/obs", "engines": ENGINES})


def context_of(backend, *, logs=None, settings=SETTINGS):
    """The context of the handlers, from a backend of tests."""
    return ModelArtsContext(
        jobs=backend.jobs,
        submissions=backend.submissions,
        search=backend.searching,
        catalog=backend.catalog,
        logs=logs,
        clock=backend.clock,
        settings=settings,
        capacity=backend.engine.host,
        engine_answers=lambda: True,
    )


def dialect(backend):
    return operations.dialect(context_of(backend))


def creation(name="resnet", *, metadata=(), algorithm=(), spec=(), resource=(), **members):
    """A CreateTrainingJob body; `members` are further ones at its top."""
    return {
        "kind": "job",
        **members,
        "metadata": {"name": name, **dict(metadata)},
        "algorithm": {"command": "python train.py", "engine": {"image_url": "lab/torch:2.4"}, **dict(algorithm)},
        "spec": {"resource": {"flavor_id": "batchq.cpu.1u1g", "node_count": 1, **dict(resource)}, **dict(spec)},
    }
