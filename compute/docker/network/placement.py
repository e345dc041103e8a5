"""Chooses the network of each container: its attempt's, one shared with other jobs, the host's, none, or Docker's."""

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext

from docker.errors import NotFound

from batchq.compute.docker.client import Client
from batchq.compute.docker.create_request import BESIDE, Place, SharedNetwork
from batchq.compute.docker.inspection import address_of, member
from batchq.compute.docker.network import bridges
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
        self._commons = SharedNetworks(instance)

    def kept(self, tag: Tag) -> AbstractContextManager[None]:
        """A context in which the objects that the container shares with its attempt are not removed."""
        return self._attempts.kept(tag) if tag.part else nullcontext()

    def find(self, client: Client, launch: LaunchSpec) -> Place | None:
        """Return the namespaces for a launch; None: the engine's default network. Missing networks are created.

        Raises StartRefused, NameTaken, and NoSubnet if no subnet is free after shared networks without a job were
        removed. For an attempt with several containers only in the context of `kept`.
        """
        try:
            return self._find(client, launch)
        except bridges.NoSubnet:
            if not self._commons.release(client):
                raise
            return self._find(client, launch)

    def network_of(self, launch: LaunchSpec) -> Network:
        """The network mode of a launch, or else the default."""
        return self._network if launch.network is None else launch.network

    def suits(self, client: Client, launch: LaunchSpec, inspected: object) -> bool:
        """Whether an existing container that has not started is still on the network that it needs."""
        if not launch.tag.part:
            return self.holds(client, inspected)
        place = self.find(client, launch)
        return place is not None and _mode(inspected) == place.network

    def holds(self, client: Client, inspected: object) -> bool:
        """Whether the pause container that the container is to join runs; true if it joins no container."""
        return self._joins(client, _mode(inspected))

    def lacks(self, client: Client, place: Place | None) -> bool:
        """Whether the pause container of a place that `find` returned does not run any more."""
        return place is not None and not self._joins(client, place.network)

    def address(self, client: Client, inspected: object) -> str | None:
        """The IP address of the node, on the container or its pause container; None: it has no address at present."""
        mode = _mode(inspected)
        if not mode.startswith(BESIDE):
            return address_of(inspected)
        try:
            return address_of(client.inspect_container(mode.removeprefix(BESIDE)))
        except NotFound:
            return None

    def clear(self, client: Client, tag: Tag) -> None:
        """Remove the shared objects of the attempt, if the removed container `tag` was its last."""
        if tag.part:
            self._attempts.clear(client, tag)

    def deserted(self, client: Client, living: Iterable[Tag]) -> tuple[Tag, ...]:
        """The attempts with shared objects that had no container in this survey and in the one before.

        `living` are the tags of this survey. Shared networks without a job for long are removed.
        """
        self._commons.look(client)
        return self._attempts.deserted(client, living)

    def sweep(self, client: Client, attempt: Tag) -> None:
        """Remove the shared objects of an attempt, unless it has a container again."""
        self._attempts.clear(client, attempt)

    @property
    def may_leave(self) -> bool:
        """Whether there may be shared networks to remove."""
        return self._commons.seen

    def leave(self, client: Client) -> None:
        """Remove the shared networks that no job is on."""
        self._commons.leave(client)

    def _find(self, client: Client, launch: LaunchSpec) -> Place | None:
        network = self.network_of(launch)
        if launch.tag.part:
            return self._attempts.place(client, launch, internal=network is Network.NONE)
        match network:
            case Network.SHARED:
                shared = SharedNetwork(environment=launch.placed_on, account=launch.account)
                return Place(network=self._commons.join(client, shared))
            case Network.BRIDGE:
                return None
            case Network.HOST | Network.NONE:
                return Place(network=network.value)

    def _joins(self, client: Client, mode: str) -> bool:
        return not mode.startswith(BESIDE) or self._commons.runs(client, mode.removeprefix(BESIDE))


def _mode(inspected: object) -> str:
    return member(inspected, "HostConfig", "NetworkMode", of=str)
