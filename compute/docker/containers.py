"""The calls of the runtime port as requests to the engine. All of them block.

A container is addressed by its name only until its id is known: a name can later belong to another container, an id
cannot. If the reply to a call does not show its effect, the container is inspected.
"""

from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from datetime import datetime
from functools import partial
from pathlib import Path
from threading import Lock

from docker.errors import APIError, NotFound
from msgspec.structs import replace
from requests.exceptions import RequestException

from batchq.compute.docker import admission, container_requests
from batchq.compute.docker.client import Client
from batchq.compute.docker.create_request import LaunchInputs, Namespaces, build_create_request, container_name
from batchq.compute.docker.errors import (
    CONFLICT,
    NOT_FOUND,
    create_error,
    create_refused,
    is_interrupted,
    is_server_error,
    message_of,
    redact_error,
    start_error,
    translate_errors,
    was_not_sent,
)
from batchq.compute.docker.host import free_gpus, may_have_run, runtime_refusal, supports_swappiness
from batchq.compute.docker.images import image_user
from batchq.compute.docker.inspection import (
    member,
    parse_created,
    parse_inspection,
    parse_survey,
    state_of_container,
    stop_signal,
    tag_in,
)
from batchq.compute.docker.job_files import failure_text, upload
from batchq.compute.docker.mounts import OpenMounts, ResolvedMounts
from batchq.compute.docker.network_placement import NetworkPlacement
from batchq.compute.docker.policy import ServerPolicy
from batchq.compute.secrets import Secrets
from batchq.compute.shared import ended_with_host, failed
from batchq.domain.ids import Tag
from batchq.errors import (
    ContainerGone,
    ContainerUnusable,
    ImageMissing,
    NameTaken,
    RuntimeUnknown,
    RuntimeUnreachable,
    StartHadNoEffect,
    StartInterrupted,
    StartRefused,
)
from batchq.ports.runtime import ContainerState, Created, Inspection, LaunchSpec

ABSENT = (None, ContainerState.GOING)
MAX_REMOVED_IDS = 1000


class Containers:
    """The containers of one instance. Other containers are ignored, except for the GPUs that they hold."""

    def __init__(
        self,
        *,
        instance: str,
        policy: ServerPolicy,
        secrets: Secrets,
        placement: NetworkPlacement,
        lost_before: Callable[[Inspection], datetime | None],
        shares_files: Callable[[], bool],
    ) -> None:
        """`lost_before` is that of host.py with a client of its own, `shares_files` that of `ClientFactory`."""
        self._instance = instance
        self._policy = policy
        self._secrets = secrets
        self._ids: dict[Tag, str] = {}
        #: The ids that were removed last; Podman may have kept a record of them.
        self._removed_ids: deque[str] = deque(maxlen=MAX_REMOVED_IDS)
        #: The ids that `create` returned, until the start.
        self._created_ids: dict[Tag, str] = {}
        #: Containers that this process created, and whose start it has not requested.
        self._fresh: set[Tag] = set()
        #: Secret log options, which are removed from the engine's error messages.
        self._log_secrets: dict[Tag, tuple[str, ...]] = {}
        self._lost_before = lost_before
        self._gpu_lock = Lock()
        self._placement = placement
        self._mounts = OpenMounts()
        self._shares_files = shares_files
        #: The engine's root directory; None: not asked for yet.
        self._root_dir: Path | None = None
        #: OCI runtimes that the engine has.
        self._known_runtimes: set[str] = set()

    def create(self, client: Client, launch: LaunchSpec) -> Created:
        self._log_secrets[launch.tag] = self._secrets.resolved_values(launch.spec.logging.secret_options)
        # The lock covers the choice of GPUs and the create: the labels of existing containers show which are in use.
        with self._gpu_lock if launch.spec.resources.gpus else nullcontext():
            created = self._create(client, launch)
        if created.state is not ContainerState.CREATED or created.host_lost:
            self._mounts.release(launch.tag)
        else:
            is_new = launch.tag in self._fresh
            if not is_new:
                self._mounts.check(launch, self._policy)
            network = self._placement.network_of(launch)
            admission.check_launch(
                launch, self._policy, network, is_new=is_new, inspect=lambda: self._inspect(client, launch.tag)
            )
            if launch.spec.files or launch.spec.folders:
                upload(client, created.container_id, launch.spec)
        self._created_ids[launch.tag] = created.container_id
        return replace(created, created_host_paths=self._mounts.created(launch.tag))

    def start(self, client: Client, tag: Tag) -> None:
        """Start the container, by the id that `create` returned, or else by its name. Idempotent."""
        was_fresh = tag in self._fresh
        if not was_fresh and self._has_started(client, tag):
            self._mounts.release(tag)
            return
        self._fresh.discard(tag)
        try:
            self._request_start(client, tag)
        except (StartHadNoEffect, RuntimeUnreachable):
            if was_fresh:
                self._fresh.add(tag)
            raise
        except (StartInterrupted, StartRefused):
            self._mounts.release(tag)  # before another start the container is created again
            raise
        self._mounts.release(tag)
        self._created_ids.pop(tag, None)

    def inspect(self, client: Client, tag: Tag) -> Inspection | None:
        inspected = self._inspect(client, tag)
        if inspected is None:
            return None
        inspection = parse_inspection(tag, inspected)
        if inspection.state is ContainerState.CREATED:
            return replace(inspection, host_lost=may_have_run(client, inspected))
        if failed(inspection):
            failure = failure_text(client, inspected, instance=self._instance, tag=tag)
            host_lost = ended_with_host(inspection, self._lost_before(inspection))
            return replace(inspection, host_lost=host_lost, failure=failure)
        if not tag.container_key or inspection.state is not ContainerState.RUNNING:
            return inspection
        return replace(inspection, address=self._placement.address(client, inspected))

    def signal_stop(self, client: Client, tag: Tag, signal: str | None) -> None:
        inspected = self._inspect_running(client, tag)
        self._signal(client, tag, signal or stop_signal(inspected))
        container_requests.resume_if_paused(client, inspected)

    def kill(self, client: Client, tag: Tag) -> None:
        if client.is_podman:  # 4.3 reports success also for a container that does not run
            self._inspect_running(client, tag)
        self._signal(client, tag, "SIGKILL")

    def remove(self, client: Client, tag: Tag) -> None:
        try:
            container_id = self.id_of(client, tag)
            self._removed_ids.append(container_id)
            container_requests.remove_by_id(client, container_id)
        except (ContainerGone, NotFound):
            pass
        except APIError as error:
            if error.status_code != CONFLICT or state_of_container(tag, self._inspect(client, tag)) not in ABSENT:
                raise
        self._ids.pop(tag, None)
        self._created_ids.pop(tag, None)
        self._fresh.discard(tag)
        self._log_secrets.pop(tag, None)
        self._mounts.forget(tag)
        self._placement.remove_if_unused(client, tag)

    def close(self) -> None:
        self._mounts.close()

    def survey(self, client: Client) -> tuple[Inspection, ...]:
        """Every container of this instance, from a list: the engine returns it even if an inspection would hang."""
        rows = container_requests.list_instance(
            client, self._instance, lambda text: text in self._removed_ids or text in self._ids.values()
        )
        seen = parse_survey(rows, self._instance, partial(container_requests.inspect_state, client))
        # Replaced, not updated: the id of a container that was removed during the survey would never be deleted.
        self._ids = {inspection.tag: container_id for container_id, inspection in seen.items()}
        return tuple(seen.values())

    def id_of(self, client: Client, tag: Tag) -> str:
        """The engine's id of the container. Raises ContainerGone if this instance has no such container."""
        container_id = self._ids.get(tag)
        if container_id is not None:
            return container_id
        inspected = self._inspect(client, tag)
        if inspected is None:
            raise ContainerGone(f"no container of {tag} exists")
        return member(inspected, "Id", of=str)

    def _create(self, client: Client, launch: LaunchSpec) -> Created:
        with self._placement.hold(launch.tag):
            is_new = launch.container_id is None and not launch.tag.container_key
            existing = None if is_new else self._find_existing(client, launch)
            if existing is not None:
                return existing
            namespaces = self._placement.namespaces_for(client, launch)
            try:
                return self._request_create(client, launch, namespaces)
            except (StartRefused, ImageMissing, NameTaken) as error:
                self._mounts.release(launch.tag)
                if isinstance(error, ImageMissing):
                    admission.check_pull(launch)
                raise

    def _find_existing(self, client: Client, launch: LaunchSpec) -> Created | None:
        """The existing container, by the id in the launch or by its name; None: a new one is to be created.

        Raises ContainerGone if the id is gone; ContainerUnusable.
        """
        if launch.container_id is not None:
            self._ids[launch.tag] = launch.container_id
        inspected = self._inspect(client, launch.tag)
        if inspected is None and launch.container_id is not None:
            self._ids.pop(launch.tag, None)
            raise ContainerGone(f"the container of {launch.tag} does not exist any more")
        if inspected is None:
            return None
        created = parse_created(launch.tag, inspected)
        start_requested = launch.container_id is not None and launch.tag not in self._fresh
        if created.state is ContainerState.CREATED and start_requested and may_have_run(client, inspected):
            return replace(created, host_lost=True)
        return self._usable(client, launch, inspected)

    def _usable(self, client: Client, launch: LaunchSpec, inspected: object) -> Created | None:
        """The container, unless it is CREATED and can never start: its network or open folders are gone.

        Then ContainerUnusable is raised if its id is in the launch; else it is removed, and the result is None. It is
        inspected once more before that: a delayed start could have reached it in time.
        """
        created = parse_created(launch.tag, inspected)
        if created.state is not ContainerState.CREATED:
            return created
        if self._mounts.are_open(launch.tag, inspected) and self._placement.suits(client, launch, inspected):
            return created
        created = parse_created(launch.tag, client.inspect_container(created.container_id))
        if created.state is not ContainerState.CREATED:
            return created
        if launch.container_id is not None:
            raise ContainerUnusable(f"the network or open folders of container {created.container_id} are gone")
        client.remove_container(created.container_id, v=True, force=False)  # refused if the container runs after all
        self._ids.pop(launch.tag, None)
        self._fresh.discard(launch.tag)
        return None

    def _request_create(self, client: Client, launch: LaunchSpec, namespaces: Namespaces | None) -> Created:
        inputs = self._resolve_inputs(client, launch, namespaces)
        config = build_create_request(launch, instance=self._instance, policy=self._policy, inputs=inputs)
        name = container_name(self._instance, launch.tag)
        try:
            container_id = container_requests.send_create(client, config, name=name, platform=launch.spec.platform)
        except APIError as error:
            if self._placement.pause_container_is_gone(client, namespaces):
                raise RuntimeUnknown(f"create: {message_of(error)}") from error
            redact_error(error, self._log_secrets.get(launch.tag, ()))
            if error.status_code == CONFLICT or is_server_error(error):  # Podman replies 500 if the name is in use
                existing = self._resolve_name_conflict(client, launch, error)
                return existing or self._request_create(client, launch, namespaces)
            raise create_error(error) from error
        self._ids[launch.tag] = container_id
        self._fresh.add(launch.tag)
        return Created(container_id=container_id, state=ContainerState.CREATED)

    def _resolve_inputs(self, client: Client, launch: LaunchSpec, namespaces: Namespaces | None) -> LaunchInputs:
        spec = launch.spec
        admission.check_image(launch, self._policy)
        admission.check_network(namespaces and namespaces.network, launch.allowances)
        mounts, devices = self._resolve_mounts(client, launch)
        return LaunchInputs(
            namespaces=namespaces,
            secrets=self._secrets.resolve(spec.secrets),
            log_secrets=self._secrets.resolve(spec.logging.secret_options),
            mounts=mounts,
            devices=devices,
            user=admission.user_of(launch, lambda: image_user(client, spec.image)),
            oci_runtime=self._choose_runtime(client, launch),
            gpus=free_gpus(client, spec.resources.gpus) if spec.resources.gpus else (),
            supports_swappiness=spec.swappiness is None or supports_swappiness(client),
        )

    def _choose_runtime(self, client: Client, launch: LaunchSpec) -> str | None:
        """The OCI runtime for the launch; None: the engine's default. Raises StartRefused with the engine's list."""
        name = launch.oci_runtime or self._policy.oci_runtime
        if name is not None and name not in self._known_runtimes:
            refusal = runtime_refusal(client.info(), name)
            if refusal is not None:
                raise create_refused(refusal)
            self._known_runtimes.add(name)
        return name

    def _resolve_mounts(self, client: Client, launch: LaunchSpec) -> ResolvedMounts:
        if all(mount.host_path is None for mount in launch.spec.mounts):
            return launch.spec.mounts, {}
        if self._root_dir is None:
            self._root_dir = Path(member(client.info(), "DockerRootDir", of=str))
        policy = replace(self._policy, data_root=self._root_dir)
        return self._mounts.resolve(launch, policy, shares_files=self._shares_files())

    def _resolve_name_conflict(self, client: Client, launch: LaunchSpec, conflict: APIError) -> Created | None:
        """The container that an earlier create of this launch made; None if it could not start and was removed.

        Raises NameTaken if the container is a foreign one. Without such a container a server error has another cause.
        """
        tag = launch.tag
        try:
            inspected = client.inspect_container(container_name(self._instance, tag))
        except NotFound:
            if conflict.status_code != CONFLICT:
                raise create_error(conflict) from conflict
            raise RuntimeUnknown(f"create: {message_of(conflict)} The container does not exist.") from conflict
        if tag_in(inspected, self._instance) != tag:
            raise NameTaken(f"{message_of(conflict)} The container does not belong to this server.") from conflict
        self._ids[tag] = member(inspected, "Id", of=str)
        return self._usable(client, launch, inspected)

    def _has_started(self, client: Client, tag: Tag) -> bool:
        """Whether the container has started. Raises StartInterrupted if that is unknown; ContainerGone."""
        inspected = self._inspect(client, tag)
        state = state_of_container(tag, inspected)
        if state in ABSENT:
            raise ContainerGone(f"no container of {tag} exists")
        if state is ContainerState.CREATED and may_have_run(client, inspected):
            raise StartInterrupted("the engine has ended since it created the container")
        return state is not ContainerState.CREATED

    def _request_start(self, client: Client, tag: Tag) -> None:
        try:
            client.start(self._created_ids.get(tag) or self.id_of(client, tag))
        except APIError as error:
            self._raise_start_error(client, tag, error)
        except (OSError, RequestException) as error:
            if was_not_sent(error):
                raise RuntimeUnreachable(f"start: {message_of(error)}") from error
            raise

    def _raise_start_error(self, client: Client, tag: Tag, error: APIError) -> None:
        """Raise what an error reply to a start means, by an inspection made after it; nothing if it has started."""
        redact_error(error, self._log_secrets.get(tag, ()))
        inspected = self._inspect(client, tag)
        state = state_of_container(tag, inspected)
        if state is ContainerState.CREATED and not self._placement.pause_container_runs(client, inspected):
            if is_interrupted(message_of(error)):
                raise StartInterrupted(message_of(error)) from error
            raise StartHadNoEffect(f"start: {message_of(error)}") from error
        exit_code = 0 if inspected is None else member(inspected, "State", "ExitCode", of=int)
        failure = start_error(error, state=state, exit_code=exit_code)
        if failure is not None:
            raise failure from error

    def _signal(self, client: Client, tag: Tag, signal: str) -> None:
        try:
            client.kill(self.id_of(client, tag), signal)
        except APIError as error:
            if error.status_code not in {CONFLICT, NOT_FOUND} and not is_server_error(error):
                raise
            inspected = self._inspect(client, tag)
            if state_of_container(tag, inspected) is ContainerState.RUNNING:
                container_requests.resume_if_paused(client, inspected)
                raise
            if is_server_error(error):  # Podman waits for the end of a paused container, and reports a timeout
                return
            raise ContainerGone(message_of(error)) from error

    def _inspect_running(self, client: Client, tag: Tag) -> object:
        """The engine's inspection of a container that runs. Raises ContainerGone if it does not run."""
        with translate_errors("inspect", RuntimeUnreachable):
            inspected = self._inspect(client, tag)
        if state_of_container(tag, inspected) is not ContainerState.RUNNING:
            raise ContainerGone(f"the container of {tag} does not run")
        return inspected

    def _inspect(self, client: Client, tag: Tag) -> object | None:
        """The engine's inspection; None: this instance has no such container."""
        try:
            inspected: object = client.inspect_container(self._ids.get(tag) or container_name(self._instance, tag))
        except NotFound:
            return None
        if tag_in(inspected, self._instance) != tag:
            return None
        self._ids[tag] = member(inspected, "Id", of=str)
        return inspected
