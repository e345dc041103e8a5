"""Settings of the ModelArts dialect: the folder that stands for OBS, and the engines, which are names of images."""

import tomllib
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

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
