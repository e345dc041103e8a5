"""What the containers of an attempt share is taken away with the last of them, and not while one is being made."""

from batchq.compute.docker.network.per_attempt import AttemptNetworks
from tests.support.containers import new_tag


class Engine:
    """It has neither containers nor networks, and remembers what it was asked."""

    def __init__(self):
        self.asked = []

    def __getattr__(self, call):
        def answer(*_, **__):
            self.asked.append(call)
            return []

        return answer


def test_an_attempt_is_not_cleared_while_one_of_its_containers_is_being_made():
    surroundings, engine, tag = AttemptNetworks("an-instance"), Engine(), new_tag()

    with surroundings.hold(tag):
        surroundings.remove_if_unused(engine, tag)
        while_made = list(engine.asked)
    surroundings.remove_if_unused(engine, tag)

    assert while_made == []
    assert engine.asked
