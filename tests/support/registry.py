"""The part of an image registry that a pull needs. Engines use plain http on loopback."""

import asyncio
import base64
import gzip
import hashlib
import io
import json
import tarfile
from collections import Counter
from contextlib import asynccontextmanager, closing, suppress

from aiohttp import web
from docker.errors import ImageNotFound

from tests.support.docker_api import docker_api
from tests.support.scripts import IMAGE

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG = "application/vnd.docker.container.image.v1+json"
LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"
NAMES = ("test/one", "test/two")
USER, PASSWORD = "a-user", "s3cret-of-the-registry"


class Registry:
    """A registry with the test image under two names and any tag. It answers while `open` is set.

    `requests` counts the requests by media type, and those that wait or are refused. While `drips` is true, no
    response with a layer ends; `requests["disconnected"]` counts the engines that close the connection.
    """

    def __init__(self, *, private: bool) -> None:
        self.requests: Counter[str] = Counter()
        self.open = asyncio.Event()
        self.open.set()
        self.drips = False
        self.address = ""
        self._private = private
        self._blobs: dict[str, tuple[str, bytes]] = {}
        self._manifest = b""

    def image(self, name: str = NAMES[0], tag: str = "latest") -> str:
        return f"{self.address}/{name}:{tag}"

    def serve(self, saved: bytes) -> None:
        """Serve an image as `docker save` writes it, with a changed layer, because an engine pulls no layer twice."""
        with tarfile.open(fileobj=io.BytesIO(saved)) as archive:
            (listed,) = json.loads(_member(archive, "manifest.json"))
            config, (layer,) = json.loads(_member(archive, listed["Config"])), listed["Layers"]
            content = _own(_member(archive, layer), self.address)
        config["rootfs"]["diff_ids"] = [_digest(content)]
        described = [self._blob(CONFIG, json.dumps(config).encode()), self._blob(LAYER, gzip.compress(content, 1))]
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": described[0], "layers": described[1:]}
        self._manifest = json.dumps(manifest).encode()
        self._blob(MANIFEST, self._manifest)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if self._private and request.headers.get("Authorization") != _basic(USER, PASSWORD):
            self.requests["refused"] += 1
            return web.Response(status=401, headers={"WWW-Authenticate": 'Basic realm="tests"'})
        kind, _, reference = request.match_info["rest"].rpartition("/")
        if not kind:
            return web.json_response({})
        if kind.rpartition("/")[0] not in NAMES:
            return web.json_response({"errors": [{"code": "NAME_UNKNOWN", "message": "no such image"}]}, status=404)
        self.requests["waiting"] += 1
        await self.open.wait()
        media, content = self._blobs[reference if reference.startswith("sha256:") else _digest(self._manifest)]
        if request.method == "GET":
            self.requests[media] += 1
        headers = {"Docker-Content-Digest": _digest(content), "Content-Type": media}
        if self.drips and media == LAYER:
            return await self._dripping(request, web.StreamResponse(headers={**headers, "Content-Length": "1000000"}))
        return web.Response(body=content, headers=headers)

    async def _dripping(self, request: web.Request, answer: web.StreamResponse) -> web.StreamResponse:
        await answer.prepare(request)
        with suppress(ConnectionError):
            while self.drips:
                await answer.write(b"x")
                await asyncio.sleep(0.05)
        self.requests["disconnected"] += self.drips
        return answer

    def _blob(self, media: str, content: bytes) -> dict[str, str | int]:
        self._blobs[_digest(content)] = media, content
        return {"mediaType": media, "digest": _digest(content), "size": len(content)}


@asynccontextmanager
async def registry(engine_url, *, private=False):
    """A registry on a free port. Images that were pulled from it are removed at the end."""
    spec = Registry(private=private)
    application = web.Application()
    application.router.add_route("*", "/v2/{rest:.*}", spec.answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    spec.address = f"127.0.0.1:{runner.addresses[0][1]}"
    with closing(docker_api(engine_url)) as engine:
        spec.serve(await asyncio.to_thread(lambda: b"".join(engine.get_image(IMAGE))))
        try:
            yield spec
        finally:
            spec.open.set()
            spec.drips = False
            await runner.cleanup()
            for image in engine.images():
                for tag in image["RepoTags"] or ():
                    if tag.startswith(spec.address):
                        _remove(engine, tag)


def _remove(engine, tag):
    with suppress(ImageNotFound):
        engine.remove_image(tag, force=True)


def _member(archive, name):
    return archive.extractfile(name).read()


def _own(layer, mark):
    """The layer with an additional file, so that its digest is unique."""
    content = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(layer)) as old, tarfile.open(fileobj=content, mode="w") as new:
        for entry in old:
            new.addfile(entry, old.extractfile(entry) if entry.isreg() else None)
        marker = tarfile.TarInfo("etc/registry")
        marker.size = len(mark)
        new.addfile(marker, io.BytesIO(mark.encode()))
    return content.getvalue()


def _digest(content):
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _basic(user, password):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
