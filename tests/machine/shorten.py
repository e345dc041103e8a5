"""A story that goes wrong, told in fewer deeds and plainer ones: as long as it still goes wrong."""

from collections.abc import Callable, Iterator
from dataclasses import fields, replace

from tests.machine.deeds import Act, Story, Submit

MOST = 400  # stories that are tried


def shortest(story: Story, goes_wrong: Callable[[Story], bool]) -> Story:
    """Greedily: what can be left out by itself is."""
    tried = 0
    while True:
        for plainer in _plainer(story):
            tried += 1
            if tried > MOST:
                return story
            if goes_wrong(plainer):
                story = plainer
                break
        else:
            return story


def _plainer(story: Story) -> Iterator[Story]:
    deeds = story.deeds
    for index in reversed(range(len(deeds))):
        yield Story(deeds=(*deeds[:index], *deeds[index + 1 :]))
    for index, deed in enumerate(deeds):
        for plainer in _plainer_submits(deed) if isinstance(deed, Submit) else ():
            yield Story(deeds=(*deeds[:index], plainer, *deeds[index + 1 :]))


def _plainer_submits(deed: Submit) -> Iterator[Submit]:
    usual = Submit()
    for name in (it.name for it in fields(deed)):
        if getattr(deed, name) != getattr(usual, name):
            yield replace(deed, **{name: getattr(usual, name)})
    if deed.size is not None and deed.size > 2:
        yield replace(deed, size=deed.size - 1)
    for act in (Act(seconds=None), deed.acts[0]):
        if deed.acts not in {(act,), usual.acts}:
            yield replace(deed, acts=(act,))
    for index in range(len(deed.own)):
        yield replace(deed, own=(*deed.own[:index], *deed.own[index + 1 :]))
