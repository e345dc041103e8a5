"""Carries out the order of a form, and shows the form again if the order is refused."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus

from batchq.api.console.context import ConsoleContext
from batchq.api.console.invocations import Form
from batchq.api.console.pages import Page, PageAnswer, Redirect
from batchq.domain.access.accounts import Caller
from batchq.errors import Invalid, NotFound, StateChanged, Throttled, Unavailable

CHANGED = "The state of the job has changed: nothing was ordered. Read what an order would do now, and order again."

#: Shows a form again, with what was typed, an error and a status.
ShowAgain = Callable[[str, HTTPStatus], Awaitable[Page]]


async def give_order(
    context: ConsoleContext, caller: Caller, form: Form, order: Callable[[], Awaitable[str]], show_again: ShowAgain
) -> PageAnswer:
    """Redirect to the path that `order` returns. A form that is sent twice orders once. Raises NotFound."""
    try:
        return Redirect(location=await context.invocations.once(caller, form, order))
    except StateChanged:
        return await show_again(CHANGED, HTTPStatus.CONFLICT)
    except NotFound:
        raise
    except Invalid as why:
        return await show_again(str(why), HTTPStatus.BAD_REQUEST)
    except Throttled as why:
        return await show_again(str(why), HTTPStatus.TOO_MANY_REQUESTS)
    except Unavailable as why:
        return await show_again(str(why), HTTPStatus.SERVICE_UNAVAILABLE)
