"""Input channels and model artifacts: S3 URIs as folders of this machine, mounted in the containers of a job."""

from pathlib import Path, PurePosixPath

from batchq.api.sagemaker import wire
from batchq.api.sagemaker.errors import invalid
from batchq.domain.container import Mount

INPUTS = "/opt/ml/input/data"
MODEL = "/opt/ml/model"


def input_mounts(channels: list[wire.ChannelShape], s3_root: Path | None) -> tuple[Mount, ...]:
    """The channels, read-only, below INPUTS. `s3_root`: has a folder for each bucket; None: S3 URIs are refused.

    Raises HttpRefusal.
    """
    names = [it.ChannelName for it in channels]
    if len(set(names)) < len(names) or {".", ".."} & set(names):
        raise invalid("The names of input channels must be unique, and not . or .. .")
    return tuple(
        Mount(
            container_path=f"{INPUTS}/{it.ChannelName}",
            host_path=_folder(it.DataSource.S3DataSource.S3Uri, s3_root),
            read_only=True,
        )
        for it in channels
    )


def artifacts(body: wire.SageMakerCreateTrainingJob) -> str:
    """The S3 URI of the folder of the model. AWS: this is the place of uncompressed artifacts."""
    return f"{body.OutputDataConfig.S3OutputPath.rstrip('/')}/{body.TrainingJobName}/output/model/"


def model_mount(body: wire.SageMakerCreateTrainingJob, s3_root: Path | None) -> tuple[Mount, ...]:
    """The folder of the model at MODEL; none without `s3_root`. Raises HttpRefusal."""
    if s3_root is None:
        return ()
    return (Mount(container_path=MODEL, host_path=_folder(artifacts(body), s3_root)),)


def _folder(uri: str, s3_root: Path | None) -> str:
    """The folder of `s3://bucket/key`."""
    if s3_root is None:
        raise invalid("InputDataConfig is not supported by this server: it has no --s3-root.")
    parts = [it for it in uri.removeprefix("s3://").split("/") if it not in {"", "."}]
    if not uri.startswith("s3://") or not parts or ".." in parts or any(":" in it for it in parts):
        raise invalid(f"{uri[:200]!r} is not an S3 URI without '..' and colons, as s3://bucket/key.")
    return str(PurePosixPath(s3_root, *parts))
