"""The settings of the ModelArts dialect, what its handlers use, and how they find and describe one job."""

import tomllib
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from batchq.api.operations.operations import Call, Input
from batchq.api.operations.parts import Parts
from batchq.api.training.common.training_jobs import BucketFolders
from batchq.api.training.modelarts.job_document import (
    DIALECT,
    Phases,
    TrainingJobResponse,
    is_in_project,
    job_answer,
    phases,
)
from batchq.api.training.modelarts.wire import JOB_NOT_FOUND, ModelArtsRefusal
from batchq.domain.ids import node_of, parent_of
from batchq.domain.job import Job
from batchq.domain.training_jobs import TrainingJobView
from batchq.errors import StartImpossible


class EngineImage(BaseModel):
    """An AI engine: an image with a name, in the table `[[engines]]` of the settings."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: The engine_id of requests.
    id: Annotated[str, Field(min_length=1, max_length=256)]
    name: Annotated[str, Field(min_length=1, max_length=256)]
    version: Annotated[str, Field(min_length=1, max_length=256)]
    #: The image that its jobs run.
    image: Annotated[str, Field(min_length=1, max_length=255)]


class ModelArtsSettings(BaseModel):
    """The settings of the dialect; without a file there is no OBS and no engine."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: The folder with a folder for each bucket; None: OBS paths are refused.
    obs_root: Path | None = None
    engines: tuple[EngineImage, ...] = ()

    @property
    def folders(self) -> BucketFolders:
        """The folders of OBS paths."""
        return BucketFolders(self.obs_root, "obs://")


def read_settings(path: Path | None) -> ModelArtsSettings:
    """Read the settings from a TOML file; the defaults without a file. Raises StartImpossible."""
    if path is None:
        return ModelArtsSettings()
    try:
        settings = ModelArtsSettings.model_validate(tomllib.loads(path.read_text()))
    except OSError as why:
        raise StartImpossible(f"cannot read {path}: {why.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as why:
        raise StartImpossible(f"{path} is not TOML: {why}") from None
    except ValidationError as invalid:
        error = invalid.errors()[0]
        where = ".".join(str(part) for part in error["loc"])
        raise StartImpossible(f"{path}: {where}: {error['msg']}") from None
    if settings.obs_root is not None and not settings.obs_root.is_absolute():
        raise StartImpossible(f"{path}: obs_root must be an absolute path")
    return settings


async def find_modelarts_job(parts: Parts, call: Call[Input]) -> Job:
    """The whole job that the path names. Raises ModelArtsRefusal if the caller does not see one.

    A job of this dialect is found below its own project only. Children of arrays and nodes are not found.
    """
    named = call.job_id
    whole = node_of(named)[1] is None and parent_of(named) is None
    found = await parts.jobs.describe([named], caller=call.caller) if whole else ()
    if not found or DIALECT.is_deleted(found[0]) or not is_in_project(found[0], call.path["project"]):
        raise ModelArtsRefusal(JOB_NOT_FOUND, named, solution="Check the ID of the training job.")
    return found[0]


def job_phases(parts: Parts, view: TrainingJobView) -> Phases:
    return phases(view, engine_answers=parts.runtime_answers(), now=parts.clock.now())


def describe_modelarts_job(parts: Parts, job: Job) -> TrainingJobResponse:
    view, shown = TrainingJobView(job), parts.state(ModelArtsSettings).folders.shown
    phases = job_phases(parts, view)
    return job_answer(view, phases, now=parts.clock.now(), capacity=parts.capacity(), shown=shown)
