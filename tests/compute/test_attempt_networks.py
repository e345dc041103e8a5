"""The shared parts of an attempt are removed with its last container, and not during a create."""

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


def test_shared_parts_are_kept_while_a_container_of_the_attempt_is_created():
    surroundings, engine, tag = AttemptNetworks("an-instance"), Engine(), new_tag()

    with surroundings.hold(tag):
        surroundings.remove_if_unused(engine, tag)
        while_made = list(engine.asked)
    surroundings.remove_if_unused(engine, tag)

    assert while_made == []
    assert engine.asked
