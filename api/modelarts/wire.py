"""Shapes of the requests of the ModelArts dialect.

Members are spelt as the vendor spells them. Members that the server only returns are stored as they are sent. Unknown
members are ignored, as the vendor does: its clients send members of newer versions.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

Text = Annotated[str, Field(pattern=r"^[^\x00]*$", max_length=4096)]
Word = Annotated[str, Field(pattern=r"^[^\x00]*$", max_length=256)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,255}$")]
Kept = Annotated[dict[str, Any], Field(max_length=100)]
"""A structure that is stored and returned, and has no effect."""


def _one_map(given: object) -> object:
    """The SDK sends one map of variables; the vendor's documents have an array of maps."""
    if isinstance(given, list) and all(isinstance(it, Mapping) for it in given):
        return {name: value for it in given for name, value in it.items()}
    return given


class ModelArtsModel(BaseModel):
    """Strict: a string is not converted to a number."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


class TrainingJobMetadata(ModelArtsModel):
    name: Name
    workspace_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,64}$")] | None = None
    description: Word | None = None
    annotations: Annotated[dict[Word, Word], Field(max_length=50)] | None = None


class AlgorithmEngine(ModelArtsModel):
    engine_id: Word | None = None
    engine_name: Word | None = None
    engine_version: Word | None = None
    image_url: Word | None = None


class AlgorithmParameter(ModelArtsModel):
    name: Word
    value: Text | None = None
    description: Text | None = None
    constraint: Kept | None = None
    i18n_description: Kept | None = None


class ObsRemote(ModelArtsModel):
    obs_url: Text


class ChannelRemote(ModelArtsModel):
    dataset: Kept | None = None
    obs: ObsRemote | None = None


class AlgorithmChannel(ModelArtsModel):
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    description: Text | None = None
    local_dir: Text | None = None
    access_method: Word | None = None
    remote: ChannelRemote | None = None
    remote_constraint: Annotated[list[Kept], Field(max_length=20)] | None = None
    mode: Word | None = None
    period: Word | int | None = None


class TrainingAlgorithm(ModelArtsModel):
    id: Word | None = None
    name: Word | None = None
    subscription_id: Word | None = None
    item_version_id: Word | None = None
    code_dir: Text | None = None
    boot_file: Text | None = None
    autosearch_config_path: Text | None = None
    autosearch_framework_path: Text | None = None
    command: Annotated[str, Field(pattern=r"^[^\x00]*$", max_length=16384)] | None = None
    parameters: Annotated[list[AlgorithmParameter], Field(max_length=100)] | None = None
    policies: Kept | None = None
    inputs: Annotated[list[AlgorithmChannel], Field(max_length=50)] | None = None
    outputs: Annotated[list[AlgorithmChannel], Field(max_length=50)] | None = None
    engine: AlgorithmEngine | None = None
    local_code_dir: Text | None = None
    working_dir: Text | None = None
    environments: Annotated[dict[VariableName, Text], Field(max_length=100), BeforeValidator(_one_map)] | None = None


class CustomizedFlavor(ModelArtsModel):
    cpu_core_num: Annotated[float, Field(gt=0, le=10_000, allow_inf_nan=False)]
    #: GiB.
    mem_size: Annotated[float, Field(gt=0, le=1_000_000, allow_inf_nan=False)]
    accelerator_num: Annotated[float, Field(ge=0, le=1000, allow_inf_nan=False, multiple_of=1)] | None = None


class TrainingResource(ModelArtsModel):
    policy: Word | None = None
    flavor_id: Word | None = None
    node_count: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    pool_id: Word | None = None
    main_container_customized_flavor: CustomizedFlavor | None = None


class LogExportPath(ModelArtsModel):
    obs_url: Text | None = None
    host_path: Text | None = None


class AutoStop(ModelArtsModel):
    time_unit: Annotated[str, Field(pattern=r"^HOURS$")]
    duration: Annotated[int, Field(ge=1, le=87_600)]


class SchedulePolicy(ModelArtsModel):
    priority: Annotated[int, Field(ge=1, le=3)] | None = None
    preemptible: bool | None = None


class TrainingSpec(ModelArtsModel):
    resource: TrainingResource
    volumes: Annotated[list[Kept], Field(max_length=50)] | None = None
    log_export_path: LogExportPath | None = None
    auto_stop: AutoStop | None = None
    schedule_policy: SchedulePolicy | None = None


class CreateTrainingJob(ModelArtsModel):
    kind: Word | None = None
    metadata: TrainingJobMetadata
    algorithm: TrainingAlgorithm
    tasks: Annotated[list[Kept], Field(max_length=50)] | None = None
    spec: TrainingSpec
    endpoints: Kept | None = None


class TrainingJobAction(ModelArtsModel):
    action_type: Word


class TrainingJobUpdate(ModelArtsModel):
    description: Word | None = None
    spec: Kept | None = None
    endpoints: Kept | None = None
    metadata: Kept | None = None


class SearchFilter(ModelArtsModel):
    key: Word
    operator: Word | None = None
    value: Annotated[list[Word], Field(max_length=100)] | None = None


class TrainingJobSearch(ModelArtsModel):
    #: The number of the page, from 0.
    offset: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    limit: Annotated[int, Field(ge=1, le=50)] | None = None
    sort_by: Word | None = None
    order: Word | None = None
    group_by: Word | None = None
    workspace_id: Word | None = None
    train_type: Word | None = None
    filters: Annotated[list[SearchFilter], Field(max_length=20)] | None = None


class TrainingEventsQuery(BaseModel):
    """Which events of a job are listed."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    #: The number of the page, from 0.
    offset: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    limit: Annotated[int, Field(ge=1, le=100)] = 50
    order: Annotated[str, Field(pattern=r"^(asc|desc)$")] = "desc"
    #: Milliseconds since 1970, inclusive, as is `end_time`.
    start_time: Annotated[int, Field(ge=0, le=2**53)] | None = None
    end_time: Annotated[int, Field(ge=0, le=2**53)] | None = None
    level: Annotated[str, Field(pattern=r"^(Info|Warning|Error)$")] | None = None
    #: Text that the message contains.
    pattern: Word | None = None


class FlavorsQuery(BaseModel):
    """Which flavors are listed."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    flavor_type: Annotated[str, Field(pattern=r"^(CPU|GPU|Ascend)$")] | None = None
