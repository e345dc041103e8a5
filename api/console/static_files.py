"""The style sheet and the script, below a path that changes with their content. They are read once, at the start."""

from collections.abc import Awaitable, Callable

from aiohttp import web

from batchq.api.console.templates import STATIC, static_path

MEDIA = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
HEADERS = {
    "Cache-Control": "public, max-age=31536000, immutable",
    "Vary": "Accept-Encoding",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def mount_static_files(app: web.Application) -> None:
    for file in sorted(STATIC.iterdir()):
        app.router.add_get(static_path(file.name), _serve(file.read_bytes(), MEDIA[file.suffix]))


def _serve(body: bytes, media: str) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def serve(_: web.Request) -> web.Response:
        response = web.Response(body=body, content_type=media, charset="utf-8", headers=HEADERS)
        response.enable_compression()
        return response

    return serve
