"""Chooses the network of each container: its attempt's, one shared with other jobs, the host's, none, or Docker's."""

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext

from docker.errors import NotFound

from batchq.compute.docker.client import Client
from batchq.compute.docker.create_request import CONTAINER_MODE, Namespaces, SharedNetwork
from batchq.compute.docker.inspection import address_of, member
from batchq.compute.docker.network.objects import NoSubnet
from batchq.compute.docker.network.per_attempt import AttemptNetworks
from batchq.compute.docker.network.shared import SharedNetworks
from batchq.domain.catalog import Network
from batchq.domain.ids import Tag
from batchq.ports.runtime import LaunchSpec


class NetworkPlacement:
    """The networks of one instance."""

    def __init__(self, instance: str, network: Network) -> None:
        """`network` is the default of launches."""
        self._network = network
        self._attempts = AttemptNetworks(instance)
        self._shared = SharedNetworks(instance)

    def hold(self, tag: Tag) -> AbstractContextManager[None]:
        """A context in which the objects that the container shares with its attempt are not removed."""
        return self._attempts.hold(tag) if tag.container_key else nullcontext()

    def namespaces_for(self, client: Client, launch: LaunchSpec) -> Namespaces | None:
        """Return the namespaces for a launch; None: the engine's default network. Missing networks are created.

        Raises StartRefused, NameTaken, and NoSubnet if no subnet is free after shared networks without a job were
        removed. For an attempt with several containers only in the context of `hold`.
        """
        try:
            return self._find(client, launch)
        except NoSubnet:
            if not self._shared.free_subnets(client):
                raise
            return self._find(client, launch)

    def network_of(self, launch: LaunchSpec) -> Network:
        """The network mode of a launch, or else the default."""
        return self._network if launch.network is None else launch.network

    def suits(self, client: Client, launch: LaunchSpec, inspected: object) -> bool:
        """Whether an existing container that has not started is still on the network that it needs."""
        if not launch.tag.container_key:
            return self.pause_container_runs(client, inspected)
        namespaces = self.namespaces_for(client, launch)
        return namespaces is not None and _mode(inspected) == namespaces.network

    def pause_container_runs(self, client: Client, inspected: object) -> bool:
        """Whether the pause container that the container is to join runs; true if it joins no container."""
        return self._joins(client, _mode(inspected))

    def pause_container_is_gone(self, client: Client, namespaces: Namespaces | None) -> bool:
        """Whether the pause container of the namespaces, which `namespaces_for` returned, does not run any more."""
        return namespaces is not None and not self._joins(client, namespaces.network)

    def address(self, client: Client, inspected: object) -> str | None:
        """The IP address of the node, on the container or its pause container; None: it has no address at present."""
        mode = _mode(inspected)
        if not mode.startswith(CONTAINER_MODE):
            return address_of(inspected)
        try:
            return address_of(client.inspect_container(mode.removeprefix(CONTAINER_MODE)))
        except NotFound:
            return None

    def remove_if_unused(self, client: Client, tag: Tag) -> None:
        """Remove the shared objects of the attempt, if the removed container `tag` was its last."""
        if tag.container_key:
            self._attempts.remove_if_unused(client, tag)

    def orphaned(self, client: Client, existing: Iterable[Tag]) -> tuple[Tag, ...]:
        """The attempts with shared objects that had no container in this survey and in the one before.

        `existing` are the tags of this survey. Shared networks without a job for long are removed.
        """
        self._shared.update(client)
        return self._attempts.orphaned(client, existing)

    def sweep(self, client: Client, attempt: Tag) -> None:
        """Remove the shared objects of an attempt, unless it has a container again."""
        self._attempts.remove_if_unused(client, attempt)

    @property
    def has_shared_networks(self) -> bool:
        """Whether there may be shared networks to remove."""
        return self._shared.may_exist

    def remove_unused(self, client: Client) -> None:
        """Remove the shared networks that no job is on."""
        self._shared.remove_unused(client)

    def _find(self, client: Client, launch: LaunchSpec) -> Namespaces | None:
        network = self.network_of(launch)
        if launch.tag.container_key:
            return self._attempts.join(client, launch, internal=network is Network.NONE)
        match network:
            case Network.SHARED:
                shared = SharedNetwork(environment=launch.placed_on, account=launch.account)
                return Namespaces(network=self._shared.join(client, shared))
            case Network.BRIDGE:
                return None
            case Network.HOST | Network.NONE:
                return Namespaces(network=network.value)

    def _joins(self, client: Client, mode: str) -> bool:
        return not mode.startswith(CONTAINER_MODE) or self._shared.runs(client, mode.removeprefix(CONTAINER_MODE))


def _mode(inspected: object) -> str:
    return member(inspected, "HostConfig", "NetworkMode", of=str)
