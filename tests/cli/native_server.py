"""A scripted server of the native read API: it answers from rows that a test lists, and records the requests."""

from aiohttp import web

DAY = 86_400_000  # milliseconds


def job_id(beginning, number=1):
    return f"{beginning:0<8}-0000-4000-8000-{number:012}"


def row(name="train", status="RUNNING", **more):
    return {
        "jobId": job_id("8f2c51a7"),
        "jobName": name,
        "jobQueue": "default",
        "jobDefinition": "train:3",
        "status": status,
        "user": "ada",
        "account": "lab",
        "createdAt": 1_795_000_000_000,
        "attempt": 1,
        "maxAttempts": 1,
    } | more


class NativeServer:
    """Answers listjobs by the filters `idPrefix`, `names` and `statuses` alone, `page_size` rows a page."""

    def __init__(self):
        self.rows = []
        self.page_size = 1000
        #: Responses of other paths, by path without the query: an object, or a function of the query.
        self.responses = {}
        #: Method, path with query, and content of each request.
        self.requests = []

    def app(self):
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._respond)
        return app

    @property
    def listed(self):
        """The contents of the listjobs requests."""
        return [content for _, path, content in self.requests if path == "/v1/batchq/listjobs"]

    async def _respond(self, request):
        content = await request.json() if request.method == "POST" else None
        self.requests.append((request.method, request.path_qs, content))
        if request.path == "/v1/batchq/listjobs":
            return web.json_response(self._page(content))
        if request.path not in self.responses:
            return web.json_response({"message": f"{request.path} does not exist."}, status=404)
        response = self.responses[request.path]
        return web.json_response(response(dict(request.query)) if callable(response) else response)

    def _page(self, content):
        matching = [it for it in self.rows if self._matches(it, content)]
        start = int(content.get("nextToken", 0))
        end = start + min(self.page_size, content["maxResults"])
        more = {"nextToken": str(end)} if end < len(matching) else {}
        return {"jobs": matching[start:end], "searchedBackTo": 1_795_000_000_000 - DAY, "complete": True} | more

    def _matches(self, it, content):
        return (
            it["jobId"].startswith(content.get("idPrefix", ""))
            and ("names" not in content or it["jobName"] in content["names"])
            and ("statuses" not in content or it["status"] in content["statuses"])
        )
