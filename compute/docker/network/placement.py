"""Where each container is put: with its attempt, on the network that it shares with other jobs, or as Docker has it."""

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
    def __init__(self, instance: str, network: Network) -> None:
        """`network` is what jobs see of it where their compute environment does not say."""
        self._network = network
        self._attempts = AttemptNetworks(instance)
        self._commons = SharedNetworks(instance)

    def kept(self, tag: Tag) -> AbstractContextManager[None]:
        """As long as nothing is taken away of what a container is to be made with."""
        return self._attempts.kept(tag) if tag.part else nullcontext()

    def find(self, client: Client, launch: LaunchSpec) -> Place | None:
        """None is the engine's own. What a place needs is made, if it is not there. Raises StartRefused and NameTaken.

        Of an attempt with several containers, only while it is `kept`. Where the engine has no subnet for another
        network, shared ones without a job are removed first. Raises NoSubnet if none is.
        """
        try:
            return self._find(client, launch)
        except bridges.NoSubnet:
            if not self._commons.release(client):
                raise
            return self._find(client, launch)

    def network_of(self, launch: LaunchSpec) -> Network:
        return self._network if launch.network is None else launch.network

    def suits(self, client: Client, launch: LaunchSpec, inspected: object) -> bool:
        """Whether a container that was created has the place that it needs, still."""
        if not launch.tag.part:
            return self.holds(client, inspected)
        place = self.find(client, launch)
        return place is not None and _mode(inspected) == place.network

    def holds(self, client: Client, inspected: object) -> bool:
        """Whether what a container is to join is there."""
        return self._joins(client, _mode(inspected))

    def lacks(self, client: Client, place: Place | None) -> bool:
        """Whether a place that was found is gone by now."""
        return place is not None and not self._joins(client, place.network)

    def address(self, client: Client, inspected: object) -> str | None:
        """Of the container's node: its own, or the keeper's. None while the keeper is not there, or down."""
        mode = _mode(inspected)
        if not mode.startswith(BESIDE):
            return address_of(inspected)
        try:
            return address_of(client.inspect_container(mode.removeprefix(BESIDE)))
        except NotFound:
            return None

    def clear(self, client: Client, tag: Tag) -> None:
        """What the containers of an attempt shared goes with the last of them."""
        if tag.part:
            self._attempts.clear(client, tag)

    def deserted(self, client: Client, living: Iterable[Tag]) -> tuple[Tag, ...]:
        """Attempts that have left behind what their containers shared: seen so twice."""
        self._commons.look(client)
        return self._attempts.deserted(client, living)

    def sweep(self, client: Client, attempt: Tag) -> None:
        self._attempts.clear(client, attempt)

    @property
    def may_leave(self) -> bool:
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
