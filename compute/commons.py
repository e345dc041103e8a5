"""What jobs of a compute environment share where its network is shared: a keeper, and the bridge that it is on.

Both are found by their labels. They are made for the first job, and left for the next; a keeper that runs is taken as
it is by whichever batchq comes. One that died is never started again but made anew: so what was to join it, and has not
begun, never will. When nobody has been on them for long, or nobody is when batchq ends, they are taken away.
"""

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from threading import Lock

from docker.errors import APIError, NotFound

from batchq.errors import EngineUnknown, NameTaken
from batchq.values import ContainerState
from compute import keeper, networks
from compute.docker_client import Client
from compute.docker_found import labels_of, member, state_in, state_of
from compute.docker_spec import BESIDE, INSTANCE, JOB, commons_labels, commons_name, commons_of
from compute.surroundings import gone_is_well, refused

LONG = 360  # surveys: an hour

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """What is there for an environment: a keeper, by its id, or a bridge alone. `used`: something is on it, or may."""

    environment: str
    keeper: str | None
    runs: bool
    used: bool


class Commons:
    def __init__(self, instance: str, *, long: int = LONG) -> None:
        """`long`: how many looks nobody is on it before it is taken away. `seen`: anything of it may be there."""
        self._instance = instance
        self._long = long
        self.seen = False
        self._keepers: dict[str, str] = {}
        self._idle: dict[str, int] = {}
        self._entering = Lock()
        self._turns: defaultdict[str, Lock] = defaultdict(Lock)

    def join(self, client: Client, environment: str) -> str:
        """The network mode of a container that is to be on it. Raises StartRefused and NameTaken.

        Of a keeper that ran when it was last seen: a start tells soon enough that it has died.
        """
        known = self._keepers.get(environment)
        if known is not None:
            return BESIDE + known
        with self._turn(environment):
            known = self._keepers.get(environment)
            if known is None:
                try:
                    known = self._keepers[environment] = self._ensure(client, environment)
                except APIError as error:
                    raise refused(error) from error
        return BESIDE + known

    def runs(self, client: Client, keeper_id: str) -> bool:
        """Whether a keeper does, of an environment or of any other; one that does not is joined no more."""
        try:
            inspected: object = client.inspect_container(keeper_id)
        except NotFound:
            self._forget([keeper_id])
            return False
        if state_in(member(inspected, "State", of=dict)) is ContainerState.RUNNING:
            return True
        self._forget([keeper_id])
        return False

    def look(self, client: Client) -> None:
        """Forget keepers that have died, and take away what nobody was on for long."""
        known = set(self._keepers.values())
        there = self._there(client)
        self.seen = bool(there)
        self._forget(known - {it.keeper for it in there if it.runs})
        self._idle = {it.environment: self._idle.get(it.environment, 0) + 1 for it in there if not it.used}
        for environment in [it for it, looks in self._idle.items() if looks > self._long]:
            log.info("the network of environment %s is taken away: nobody has been on it for long", environment)
            self._take_away(client, environment)

    def leave(self, client: Client) -> None:
        """Take away what nobody is on."""
        for it in self._there(client):
            if not it.used:
                self._take_away(client, it.environment)

    def _turn(self, environment: str) -> Lock:
        with self._entering:
            return self._turns[environment]

    def _forget(self, gone: Iterable[str]) -> None:
        for keeper_id in gone:
            for environment, known in tuple(self._keepers.items()):
                if known == keeper_id:
                    self._keepers.pop(environment, None)

    def _ensure(self, client: Client, environment: str) -> str:
        """The id of the keeper, which runs."""
        name, labels = commons_name(self._instance, environment), commons_labels(self._instance, environment)
        inspected = self._inspect(client, name, environment)
        if inspected is not None:
            keeper_id = member(inspected, "Id", of=str)
            if state_in(member(inspected, "State", of=dict)) is ContainerState.RUNNING:
                return keeper_id
            client.remove_container(keeper_id, v=True, force=True)
        self.seen = True
        network = networks.ensure(client, name, labels)
        made = keeper.make(client, keeper.creation(network=network, labels=labels), name)
        client.start(made)
        log.info("environment %s has a network of its own, kept by container %s", environment, name)
        return made

    def _inspect(self, client: Client, name: str, environment: str) -> object | None:
        try:
            inspected: object = client.inspect_container(name)
        except NotFound:
            return None
        if commons_of(labels_of(inspected, "Config", "Labels"), self._instance) != environment:
            raise NameTaken(f"The name {name} is in use, and not by one of ours.")
        return inspected

    def _take_away(self, client: Client, environment: str) -> None:
        with self._turn(environment):
            self._keepers.pop(environment, None)
            self._idle.pop(environment, None)
            for row in _listed(client, labels := commons_labels(self._instance, environment)):
                with gone_is_well():
                    client.remove_container(member(row, "Id", of=str), v=True, force=True)
            for network in networks.listed(client, labels):
                with gone_is_well():
                    client.remove_network(member(network, "Id", of=str))

    def _there(self, client: Client) -> list[_Place]:
        ours = {INSTANCE: self._instance}
        rows = _listed(client, ours)
        modes = {_mode(row) for row in rows if labels_of(row, "Labels").get(JOB)}
        keepers = {environment: row for row in rows if (environment := self._of(row)) is not None}
        bridges = {environment for it in networks.listed(client, ours) if (environment := self._of(it)) is not None}
        return [_place(it, keepers.get(it), modes) for it in {*keepers, *bridges}]

    def _of(self, row: object) -> str | None:
        return commons_of(labels_of(row, "Labels"), self._instance)


def _place(environment: str, keeper: object | None, modes: Collection[str | None]) -> _Place:
    """`modes` are those of the jobs' containers; any of them may be on it where the engine does not tell."""
    if keeper is None:
        return _Place(environment=environment, keeper=None, runs=False, used=False)
    keeper_id = member(keeper, "Id", of=str)
    return _Place(
        environment=environment,
        keeper=keeper_id,
        runs=state_of(member(keeper, "State", of=object)) is ContainerState.RUNNING,
        used=None in modes or BESIDE + keeper_id in modes,
    )


def _mode(row: object) -> str | None:
    """Some engines do not tell it in a list."""
    host = member(row, "HostConfig", of=object)
    return host.get("NetworkMode") if isinstance(host, dict) else None


def _listed(client: Client, labels: Mapping[str, str]) -> list[object]:
    rows: object = client.containers(all=True, filters={"label": [f"{name}={value}" for name, value in labels.items()]})
    if not isinstance(rows, list):
        raise EngineUnknown("the engine's list of containers is none")
    return rows
