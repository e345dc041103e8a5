"""The ModelArts dialect on the backend of the API's tests."""

from batchq.api.training.modelarts.context import ModelArtsSettings

PROJECT = "7c1e5d20b9a34f6e8d20aa41c3f09b55"
JOBS = f"/v2/{PROJECT}/training-jobs"
SEARCHES = f"/v2/{PROJECT}/training-job-searches"
UNKNOWN = "91d0a6b4-3f52-4f0e-b1a7-64c5d2f7e810"

ENGINES = ({"id": "torch-2", "name": "PyTorch", "version": "2.4", "image": "lab/torch:2.4"},)
SETTINGS = ModelArtsSettings.model_validate({"obs_root": "/srv/obs", "engines": ENGINES})


def creation(name="resnet", *, metadata=(), algorithm=(), spec=(), resource=(), **members):
    """A CreateTrainingJob body; `members` are further ones at its top."""
    return {
        "kind": "job",
        **members,
        "metadata": {"name": name, **dict(metadata)},
        "algorithm": {"command": "python train.py", "engine": {"image_url": "lab/torch:2.4"}, **dict(algorithm)},
        "spec": {"resource": {"flavor_id": "batchq.cpu.1u1g", "node_count": 1, **dict(resource)}, **dict(spec)},
    }
