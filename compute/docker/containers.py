"""The calls of the runtime port as requests to the engine. All of them block.

A container is addressed by its name only until its id is known: a name can later belong to another container, an id
cannot. If the reply to a call does not show its effect, the container is inspected.
"""

import logging
from collections.abc import Callable
from contextlib import nullcontext, suppress
from datetime import datetime
from pathlib import Path
from threading import Lock

from docker.errors import APIError, NotFound
from msgspec.structs import replace
from requests.exceptions import RequestException

from batchq.compute.docker import admission
from batchq.compute.docker.client import Client
from batchq.compute.docker.create_request import INSTANCE, LookedUp, Place, creation, name_of, tag_of
from batchq.compute.docker.errors import (
    CONFLICT,
    NOT_FOUND,
    conceal,
    create_failed,
    is_interrupted,
    message_of,
    start_failed,
    unknown_unless_told,
    was_not_sent,
)
from batchq.compute.docker.host import free_gpus, knows_swappiness, may_have_run
from batchq.compute.docker.inspection import found, labels_of, made_of, member, stop_signal, surveyed
from batchq.compute.docker.network.placement import NetworkPlacement
from batchq.compute.docker.open_mounts import OpenMounts, Resolved
from batchq.compute.docker.policy import Policy
from batchq.compute.docker.secrets import Secrets
from batchq.compute.host_loss import may_be_lost, went_down
from batchq.domain.ids import Tag
from batchq.errors import (
    ContainerGone,
    EngineUnknown,
    EngineUnreachable,
    ImageMissing,
    NameTaken,
    StartHadNoEffect,
    StartInterrupted,
    StartRefused,
)
from batchq.ports.runtime import ContainerState, Created, Inspection, LaunchSpec

log = logging.getLogger(__name__)

ABSENT = (None, ContainerState.GOING)


class Containers:
    """The containers of one instance. Other containers are ignored, except for the GPUs that they hold."""

    def __init__(
        self,
        *,
        instance: str,
        policy: Policy,
        secrets: Secrets,
        places: NetworkPlacement,
        gpus: Callable[[], int],
        lost_before: Callable[[], datetime | None],
        shares_files: Callable[[], bool],
    ) -> None:
        """`gpus` returns the machine's number of GPUs; `lost_before` and `shares_files` as in host.py, client.py."""
        self._instance = instance
        self._policy = policy
        self._secrets = secrets
        self._ids: dict[Tag, str] = {}
        #: The ids that `create` returned, until the start.
        self._answered: dict[Tag, str] = {}
        #: The ids of containers that were removed because they could not start any more.
        self._discarded: set[str] = set()
        #: Containers that this process created, and whose start it has not requested.
        self._fresh: set[Tag] = set()
        #: Secret log options, which are removed from the engine's error messages.
        self._concealed: dict[Tag, tuple[str, ...]] = {}
        self._gpus = gpus
        self._lost_before = lost_before
        self._choosing = Lock()
        self._places = places
        self._mounts = OpenMounts()
        self._shares_files = shares_files
        #: The engine's root directory; None: not asked for yet.
        self._root_dir: Path | None = None

    def create(self, client: Client, launch: LaunchSpec) -> Created:
        self._concealed[launch.tag] = self._secrets.known(launch.spec.logging.secret_options)
        # The lock covers the choice of GPUs and the create: the labels of existing containers show which are in use.
        with self._choosing if launch.spec.resources.gpus else nullcontext():
            made = self._create(client, launch)
        if made.state is not ContainerState.CREATED or made.host_lost:
            self._mounts.release(launch.tag)
        else:
            fresh = launch.tag in self._fresh
            if not fresh:
                self._mounts.check(launch, self._policy)
            network = self._places.network_of(launch)
            admission.check_launch(
                launch, self._policy, network, fresh=fresh, look=lambda: self._inspect(client, launch.tag)
            )
        self._answered[launch.tag] = made.container
        return replace(made, created_host_paths=self._mounts.created(launch.tag))

    def start(self, client: Client, tag: Tag) -> None:
        """Start the container that `create` returned, or else by its name. No effect on a started container."""
        was_fresh = tag in self._fresh
        if not was_fresh and self._has_begun(client, tag):
            self._mounts.release(tag)
            return
        self._fresh.discard(tag)
        try:
            client.start(self._answered.get(tag) or self.id_of(client, tag))
        except APIError as error:
            try:
                self._judge_start(client, tag, error)
            except (StartInterrupted, StartRefused):
                self._mounts.release(tag)  # before another start the container is created again
                raise
            except StartHadNoEffect:
                if was_fresh:
                    self._fresh.add(tag)
                raise
        except (OSError, RequestException) as error:
            if not was_not_sent(error):
                raise
            if was_fresh:
                self._fresh.add(tag)
            raise EngineUnreachable(f"start: {message_of(error)}") from error
        self._mounts.release(tag)
        self._answered.pop(tag, None)

    def inspect(self, client: Client, tag: Tag) -> Inspection | None:
        inspected = self._inspect(client, tag)
        if inspected is None:
            return None
        it = found(tag, inspected)
        if it.state is ContainerState.CREATED:
            return replace(it, host_lost=may_have_run(client, inspected))
        if may_be_lost(it):
            return replace(it, host_lost=went_down(it, self._lost_before()))
        if not tag.part or it.state is not ContainerState.RUNNING:
            return it
        return replace(it, address=self._places.address(client, inspected))

    def signal_stop(self, client: Client, tag: Tag, signal: str | None) -> None:
        inspected = self._inspect(client, tag)
        if inspected is None or found(tag, inspected).state is not ContainerState.RUNNING:
            raise ContainerGone(f"{tag} does not run")
        self._signal(client, tag, signal or stop_signal(inspected))
        if member(inspected, "State", "Paused", of=object) is True:
            self._resume(client, tag)

    def kill(self, client: Client, tag: Tag) -> None:
        self._signal(client, tag, "SIGKILL")

    def remove(self, client: Client, tag: Tag) -> None:
        try:
            client.remove_container(self.id_of(client, tag), v=True, force=True)
        except (ContainerGone, NotFound):
            pass
        except APIError as error:
            if error.status_code != CONFLICT or self._state(client, tag) not in ABSENT:
                raise
        self._ids.pop(tag, None)
        self._answered.pop(tag, None)
        self._fresh.discard(tag)
        self._concealed.pop(tag, None)
        self._mounts.forget(tag)
        self._places.clear(client, tag)

    def close(self) -> None:
        self._mounts.close()

    def survey(self, client: Client) -> tuple[Inspection, ...]:
        """Every container of this instance, from a list: the engine returns it even if an inspection would hang."""
        rows = client.containers(all=True, filters={"label": f"{INSTANCE}={self._instance}"})
        seen = surveyed(rows, self._instance, lambda container_id, tag: _look_closer(client, container_id, tag))
        # Replaced, not updated: the id of a container that was removed during the survey would never be deleted.
        self._ids = {it.tag: container_id for container_id, it in seen.items()}
        return tuple(seen.values())

    def id_of(self, client: Client, tag: Tag) -> str:
        """The engine's id of the container. Raises ContainerGone if this instance has no such container."""
        container_id = self._ids.get(tag)
        if container_id is not None:
            return container_id
        inspected = self._inspect(client, tag)
        if inspected is None:
            raise ContainerGone(f"there is no container of {tag}")
        return member(inspected, "Id", of=str)

    def _create(self, client: Client, launch: LaunchSpec) -> Created:
        with self._places.kept(launch.tag):
            is_new = launch.container is None and not launch.tag.part
            there = None if is_new else self._made_before(client, launch)
            return there or self._make(client, launch, self._places.find(client, launch))

    def _made_before(self, client: Client, launch: LaunchSpec) -> Created | None:
        """The existing container of the launch, or None if a new one is to be created.

        A CREATED container whose network or open folders are gone can never start, and is discarded. It is inspected
        once more before that: until they were gone, a delayed start could have reached it.
        """
        inspected = self._find(client, launch)
        if inspected is None:
            return None
        made = made_of(launch.tag, inspected)
        if made.state is not ContainerState.CREATED:
            return made
        start_requested = launch.container is not None and launch.tag not in self._fresh
        if start_requested and may_have_run(client, inspected):
            return replace(made, host_lost=True)
        if self._suits(client, launch, inspected):
            return made
        made = made_of(launch.tag, client.inspect_container(made.container))
        if made.state is not ContainerState.CREATED:
            return made
        self._discard(client, launch.tag, made.container)
        return None

    def _suits(self, client: Client, launch: LaunchSpec, inspected: object) -> bool:
        return self._mounts.suits(launch.tag, inspected) and self._places.suits(client, launch, inspected)

    def _find(self, client: Client, launch: LaunchSpec) -> object | None:
        """Inspect the container by the id in the launch, or by its name. Raises ContainerGone if the id is gone."""
        meant = None if launch.container in self._discarded else launch.container
        if meant is not None:
            self._ids[launch.tag] = meant
        inspected = self._inspect(client, launch.tag)
        if inspected is None and meant is not None:
            self._ids.pop(launch.tag, None)
            raise ContainerGone(f"the container of {launch.tag} is not there any more")
        return inspected

    def _discard(self, client: Client, tag: Tag, container_id: str) -> None:
        """Remove a container that cannot start. The engine refuses this if the container runs after all."""
        client.remove_container(container_id, v=True, force=False)
        self._discarded.add(container_id)
        self._ids.pop(tag, None)
        self._fresh.discard(tag)

    def _make(self, client: Client, launch: LaunchSpec, place: Place | None) -> Created:
        try:
            return self._ask_create(client, launch, place)
        except (StartRefused, ImageMissing, NameTaken) as refused:
            self._mounts.release(launch.tag)
            if isinstance(refused, ImageMissing):
                admission.judge_pull(launch)
            raise

    def _ask_create(self, client: Client, launch: LaunchSpec, place: Place | None) -> Created:
        looked = self._look_up(client, launch, place)
        wanted = creation(launch, instance=self._instance, policy=self._policy, looked=looked)
        try:
            made = client.create_container_from_config(  # type: ignore[no-untyped-call]  # it has no types in the stubs
                wanted.config, name=wanted.name, platform=wanted.platform
            )
        except APIError as error:
            if self._places.lacks(client, place):
                raise EngineUnknown(f"create: {message_of(error)}") from error
            if error.status_code == CONFLICT:
                return self._adopt(client, launch.tag, error)
            conceal(error, self._concealed.get(launch.tag, ()))
            raise create_failed(error) from error
        container_id = member(made, "Id", of=str)
        self._ids[launch.tag] = container_id
        self._fresh.add(launch.tag)
        return Created(container=container_id, state=ContainerState.CREATED)

    def _look_up(self, client: Client, launch: LaunchSpec, place: Place | None) -> LookedUp:
        spec = launch.spec
        admission.check_image(launch, self._policy)
        resolved = self._resolve(client, launch)
        return LookedUp(
            place=admission.checked_placement(place, launch.allowance),
            secrets=self._secrets.resolve(spec.secrets),
            log_secrets=self._secrets.resolve(spec.logging.secret_options),
            mounts=resolved.mounts,
            devices=resolved.devices,
            user=admission.user_of(launch, lambda: image_user(client, spec.image)),
            gpus=free_gpus(client, spec.resources.gpus, of=self._gpus) if spec.resources.gpus else (),
            knows_swappiness=spec.swappiness is None or knows_swappiness(client),
        )

    def _resolve(self, client: Client, launch: LaunchSpec) -> Resolved:
        if all(it.host_path is None for it in launch.spec.mounts):
            return Resolved(mounts=launch.spec.mounts)
        if self._root_dir is None:
            info: object = client.info()
            self._root_dir = Path(member(info, "DockerRootDir", of=str))
        policy = replace(self._policy, private=(*self._policy.private, self._root_dir))
        return self._mounts.resolve(launch, policy, shares_files=self._shares_files())

    def _adopt(self, client: Client, tag: Tag, conflict: APIError) -> Created:
        """Handle a name conflict: with an earlier create of this tag, or with a foreign container. Raises NameTaken."""
        try:
            inspected = client.inspect_container(name_of(self._instance, tag))
        except NotFound:
            raise EngineUnknown(f"create: {message_of(conflict)} It is not there yet, or no more.") from conflict
        if not self._is_ours(inspected, tag):
            raise NameTaken(f"{message_of(conflict)} It is not one of ours.") from conflict
        made = made_of(tag, inspected)
        self._ids[tag] = made.container
        if made.state is ContainerState.CREATED and not self._mounts.suits(tag, inspected):
            # Its folders were open in a server process that has ended, so it can never start.
            self._discard(client, tag, made.container)
            raise EngineUnknown(f"create: {tag} was made by an earlier server, and is made again") from conflict
        return made

    def _has_begun(self, client: Client, tag: Tag) -> bool:
        """Whether the container has started. Raises StartInterrupted if that is unknown; ContainerGone."""
        inspected = self._inspect(client, tag)
        state = None if inspected is None else found(tag, inspected).state
        if state in ABSENT:
            raise ContainerGone(f"there is no container of {tag}")
        if state is ContainerState.CREATED and may_have_run(client, inspected):
            raise StartInterrupted("the engine has ended since it made the container")
        return state is not ContainerState.CREATED

    def _judge_start(self, client: Client, tag: Tag, error: APIError) -> None:
        """Raise the meaning of a failed start; StartHadNoEffect if the network that it was to join is gone."""
        conceal(error, self._concealed.get(tag, ()))
        inspected = self._inspect(client, tag)
        state = None if inspected is None else found(tag, inspected).state
        if state is ContainerState.CREATED and not self._places.holds(client, inspected):
            if is_interrupted(message_of(error)):
                raise StartInterrupted(message_of(error)) from error
            raise StartHadNoEffect(f"start: {message_of(error)}") from error
        failure = start_failed(
            error,
            state=state,
            exit_code=0 if inspected is None else member(inspected, "State", "ExitCode", of=int),
        )
        if failure is not None:
            raise failure from error

    def _signal(self, client: Client, tag: Tag, signal: str) -> None:
        try:
            client.kill(self.id_of(client, tag), signal)
        except APIError as error:
            if error.status_code not in {CONFLICT, NOT_FOUND} or self._state(client, tag) is ContainerState.RUNNING:
                raise
            raise ContainerGone(message_of(error)) from error

    def _resume(self, client: Client, tag: Tag) -> None:
        """Resume a paused container, which handles signals only then. Docker does so itself; other engines do not."""
        with suppress(APIError):  # it is resumed already, or has ended; if not, the kill after the grace ends it
            client.unpause(self.id_of(client, tag))

    def _state(self, client: Client, tag: Tag) -> ContainerState | None:
        inspected = self._inspect(client, tag)
        return None if inspected is None else found(tag, inspected).state

    def _inspect(self, client: Client, tag: Tag) -> object | None:
        """The engine's inspection; None: this instance has no such container."""
        try:
            inspected: object = client.inspect_container(self._ids.get(tag) or name_of(self._instance, tag))
        except NotFound:
            return None
        if not self._is_ours(inspected, tag):
            return None
        self._ids[tag] = member(inspected, "Id", of=str)
        return inspected

    def _is_ours(self, inspected: object, tag: Tag) -> bool:
        return tag_of(labels_of(inspected, "Config", "Labels"), self._instance) == tag


def image_user(client: Client, image: str) -> str:
    """The user in the image's configuration; empty: none. Raises ImageMissing and StartRefused."""
    try:
        inspected: object = client.inspect_image(image)  # type: ignore[no-untyped-call]  # it has no types in the stubs
    except NotFound as error:
        raise ImageMissing(message_of(error)) from error
    except APIError as error:
        raise create_failed(error) from error
    user = member(inspected, "Config", "User", of=object)
    return user if isinstance(user, str) else ""


def _look_closer(client: Client, container_id: str, tag: Tag) -> ContainerState:
    """Inspect a container whose state in a list is unknown. If that fails it counts as running, which ends nothing."""
    try:
        with unknown_unless_told("inspect"):
            return found(tag, client.inspect_container(container_id)).state
    except EngineUnknown as unknown:
        log.warning("container %s: its state cannot be told: %s", tag, unknown)
        return ContainerState.RUNNING
