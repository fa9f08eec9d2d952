"""What the page can ask of this machine: one short function a route, over one studio.

What is the input's fault is answered with status 200 and a `problem`, one sentence that the page shows: browsers write
other statuses to their console as if the program were at fault.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from dfml.errors import ConfigError, DfmlError
from dfml.play.guard import REPORT_POLICY
from dfml.play.learned import learned, ledger
from dfml.play.pictures import LARGEST_FILE, too_large
from dfml.play.studio import Studio
from dfml.play.telling import asking_told, detail_told, heard_told, judgement_told, state_told
from dfml.report.page import report

PAGE = Path(__file__).parent / "page"
LARGEST_MESSAGE = 1 << 16
"""bytes of anything but a picture"""
READERS = 2
"""pictures that are decoded side by side; a large one takes some hundred megabytes"""

Told = TypeVar("Told")
Handler = Callable[[Request], Awaitable[Response]]


class Desk:
    """The routes. Pictures are decoded, judged and asked about in threads of their own; the album changes in one."""

    def __init__(self, studio: Studio) -> None:
        self.studio, self.album, self.asking = studio, studio.album, studio.asking
        self._readers = ThreadPoolExecutor(READERS, "reading")
        self._bench = ThreadPoolExecutor(1, "judging")
        self._line = ThreadPoolExecutor(1, "asking")

    def routes(self) -> list[BaseRoute]:
        def route(path: str, handler: Handler, *methods: str) -> Route:
            return Route(path, _explaining(handler), methods=list(methods or ("GET",)))

        return [
            Route("/", self.page),
            Mount("/page", StaticFiles(directory=PAGE)),
            Route("/report.css", self.style),
            route("/api/state", self.state),
            route("/api/judgement", self.judgement),
            route("/api/learned", self.learned),
            route("/api/classes", self.add_class, "POST"),
            route("/api/classes/{number:int}", self.change_class, "PATCH"),
            route("/api/classes/{number:int}", self.remove_class, "DELETE"),
            route("/api/pictures", self.add_picture, "POST"),
            route("/api/pictures/{number:int}", self.detail),
            route("/api/pictures/{number:int}", self.move_picture, "PATCH"),
            route("/api/pictures/{number:int}", self.remove_picture, "DELETE"),
            route("/api/switch", self.switch),
            route("/api/switch", self.turn_switch, "POST"),
            route("/api/ask", self.ask, "POST"),
            route("/api/save", self.save, "POST"),
            route("/pictures/{number:int}.webp", self.thumbnail),
            route("/model.onnx", self.onnx),
            route("/report", self.report),
        ]

    def close(self) -> None:
        if self.asking is not None:
            self.asking.on = False  # what is under way ends before its next request
        for threads in (self._readers, self._bench, self._line):
            threads.shutdown(cancel_futures=True)
        self.studio.close()

    async def page(self, request: Request) -> Response:
        return FileResponse(PAGE / "index.html")

    async def style(self, request: Request) -> Response:
        """The report's, which the page builds on."""
        return FileResponse(PAGE.parent.parent / "report" / "page.css")

    async def state(self, request: Request) -> Response:
        told = state_told(self.studio, can_export=find_spec("onnx") is not None)
        return JSONResponse(told | await self._asking_told())

    async def judgement(self, request: Request) -> Response:
        view = self.album.view()
        judged = await self._in(self._bench, lambda: self.studio.judge.judge(view))
        heard = None if self.asking is None else self.asking.heard
        return JSONResponse(judgement_told(view, judged, heard))

    async def learned(self, request: Request) -> Response:
        told = await self._in(self._readers, lambda: learned(self.studio.run, self.studio.initialisation))
        return JSONResponse(told | {"ledger": ledger(self.studio.folder)})

    async def add_class(self, request: Request) -> Response:
        number = self.album.add_class(_text(await _message(request), "name"))
        return JSONResponse({"number": number, "name": self.album.classes[number]})

    async def change_class(self, request: Request) -> Response:
        number = request.path_params["number"]
        self.album.rename(number, _text(await _message(request), "name"))
        return JSONResponse({"number": number, "name": self.album.classes[number]})

    async def remove_class(self, request: Request) -> Response:
        self.album.remove_class(request.path_params["number"])
        return JSONResponse({})

    async def add_picture(self, request: Request) -> Response:
        name = request.query_params.get("name", "")
        into = request.query_params.get("into")
        if into is not None and not into.isdecimal():
            raise HTTPException(400)
        number = self.album.next_number()
        file = self.album.folder / str(number)
        try:
            await _receive(request, file, name)
            picture = await self._in(self._readers, lambda: self.album.read(number, name))
            self.album.add(picture, None if into is None else int(into))
        except BaseException:
            file.unlink(missing_ok=True)
            raise
        told = {"number": picture.number, "name": picture.name, "side": picture.thumbnail_side}
        return JSONResponse(told | {"into": self.album.class_of(picture.number)})

    async def detail(self, request: Request) -> Response:
        number, view = request.path_params["number"], self.album.view()
        picture = self.album.pictures.get(number)
        if picture is None:
            raise ConfigError("this picture is gone; load the page again")
        nearest = await self._in(self._bench, lambda: self.studio.judge.nearest(view, picture))
        return JSONResponse(detail_told(number, nearest, None if self.asking is None else self.asking.heard))

    async def move_picture(self, request: Request) -> Response:
        into = (await _message(request)).get("into")
        if into is not None and not isinstance(into, int):
            raise ConfigError("a picture goes into a class by its number, or into none")
        self.album.move(request.path_params["number"], into)
        return JSONResponse({})

    async def remove_picture(self, request: Request) -> Response:
        self.album.remove(request.path_params["number"])
        return JSONResponse({})

    async def switch(self, request: Request) -> Response:
        return JSONResponse(await self._asking_told())

    async def turn_switch(self, request: Request) -> Response:
        if self.asking is None:
            raise ConfigError(f"no API can be asked: {self.studio.silent}")
        self.asking.turn((await _message(request)).get("on") is True)
        return JSONResponse(await self._asking_told())

    async def ask(self, request: Request) -> Response:
        asking, message, view = self.asking, await _message(request), self.album.view()
        if asking is None:
            raise ConfigError(f"no API can be asked: {self.studio.silent}")
        wanted = [self.album.pictures[n] for n in message.get("pictures", ()) if n in self.album.pictures]
        every = message.get("every") is True
        heard = await self._in(self._line, lambda: asking.ask(view, wanted, every=every))
        told = heard_told(view, heard, only={picture.number for picture in wanted})
        return JSONResponse({"version": view.version} | await self._asking_told() | told)

    async def save(self, request: Request) -> Response:
        view = self.album.view()
        await self._in(self._line, lambda: self.studio.save(view))
        return JSONResponse({"folder": str(self.studio.folder), "line": self.studio.predict_line})

    async def thumbnail(self, request: Request) -> Response:
        picture = self.album.pictures.get(request.path_params["number"])
        if picture is None:
            raise HTTPException(404)
        keep = {"cache-control": "private, max-age=86400, immutable"}
        return Response(picture.thumbnail, media_type="image/webp", headers=keep)

    async def onnx(self, request: Request) -> Response:
        view = self.album.view()
        model = await self._in(self._bench, lambda: self.studio.onnx(view))
        headers = {"content-disposition": 'attachment; filename="model.onnx"'}
        return Response(model, media_type="application/octet-stream", headers=headers)

    async def report(self, request: Request) -> Response:
        run = self.studio.run
        if run is None:
            raise ConfigError("there is no run to report on")
        page = await self._in(self._readers, lambda: report(run))
        headers = {"content-security-policy": REPORT_POLICY}
        return Response(page, media_type="text/html", headers=headers)

    async def _asking_told(self) -> dict[str, Any]:
        view = self.album.view()
        return await asyncio.to_thread(lambda: asking_told(self.studio, view))

    async def _in(self, threads: Executor, work: Callable[[], Told]) -> Told:
        return await asyncio.get_running_loop().run_in_executor(threads, work)


def make_app(studio: Studio) -> Starlette:
    """The studio's page as an ASGI application, to be put behind a `Guard`."""
    desk = Desk(studio)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        desk.close()

    return Starlette(routes=desk.routes(), lifespan=lifespan)


def _explaining(handler: Handler) -> Handler:
    """`handler`, whose errors that are the input's fault become one sentence."""

    async def explained(request: Request) -> Response:
        try:
            return await handler(request)
        except DfmlError as error:
            return JSONResponse({"problem": str(error)})
        except OSError as error:
            what = error.strerror or type(error).__name__
            return JSONResponse({"problem": f"where dfml play runs, that failed: {what}; see to it and try again"})

    return explained


async def _receive(request: Request, file: Path, name: str) -> None:
    """Write the request's body to `file`, and stop where it grows too large."""
    announced = request.headers.get("content-length", "0")
    if announced.isdecimal() and int(announced) > LARGEST_FILE:
        raise too_large(name)
    size = 0
    with file.open("wb") as written:
        async for part in request.stream():
            size += len(part)
            if size > LARGEST_FILE:
                raise too_large(name)
            written.write(part)


async def _message(request: Request) -> dict[str, Any]:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LARGEST_MESSAGE:
            raise HTTPException(413)
    try:
        message = json.loads(body or b"{}")
    except ValueError:
        raise HTTPException(400) from None
    if not isinstance(message, dict):
        raise HTTPException(400)
    return message


def _text(message: dict[str, Any], key: str) -> str:
    text = message.get(key, "")
    if not isinstance(text, str):
        raise HTTPException(400)
    return text
