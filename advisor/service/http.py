"""The HTTP service: each command as a POST of its keywords, answered with the document that `--json` prints.

It keeps no state, reads no file of its machine, uses no network, and limits size, time and number of questions.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from advisor import __version__
from advisor.catalog.errors import AdvisorError
from advisor.cli.errors import error_document
from advisor.service.pool import BusyError, FailedWorkerError, OutOfTimeError, Reply, WorkerPool
from advisor.service.questions import (
    UnknownQuestionError,
    answer_schema,
    error_schema,
    questions,
    schema_of,
)

PREFIX: Final = "/v1/"
STREAM: Final = "application/x-ndjson"
"""Media type of an answer with progress: one JSON object a line, the last of which is the document or the error."""
BODY_S: Final = 10.0
"""Time within which a client has to send its question [s]."""
RETRY_S: Final = 1
_STATUS: Final[tuple[tuple[type[AdvisorError], int], ...]] = (
    (UnknownQuestionError, 404),
    (BusyError, 429),
    (OutOfTimeError, 504),
    (FailedWorkerError, 500),
)
_UNPROCESSABLE: Final = 422
_HEADERS: Final = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'",
    "x-content-type-options": "nosniff",
}


class RefusedRequestError(AdvisorError):
    """A request that is refused before its question is read, with the status of HTTP."""

    def __init__(self, status: int, what: str, *, why: str, fix: str) -> None:
        super().__init__(what, why=why, fix=fix)
        self.status = status


def path_of(name: str) -> str:
    """Return the path of a question: `simulate serve` is /v1/simulate/serve."""
    return PREFIX + name.replace(" ", "/")


def status_of(error: AdvisorError) -> int:
    """Return the HTTP status of a refusal."""
    if isinstance(error, RefusedRequestError):
        return error.status
    found = next((status for kind, status in _STATUS if isinstance(error, kind)), None)
    return found or (500 if error.exit_code == 1 else _UNPROCESSABLE)


def application(pool: WorkerPool, *, most_bytes: int, hosts: frozenset[str]) -> Starlette:
    """Return the application; `hosts` are the names by which clients may call it, empty for any.

    A browser that shows a page of another site reaches loopback too. The page cannot ask: its question has an `Origin`,
    and a name that leads to this machine is in `hosts` or refused.
    """

    async def answer(request: Request) -> Response:
        try:
            _check_client(request, hosts)
            pool.check_room()
            body = await _body(request, most_bytes)
            name = request.path_params["name"].replace("/", " ")
            if STREAM in request.headers.get("accept", ""):
                return StreamingResponse(_lines(pool, name, body), media_type=STREAM, headers=_HEADERS)
            return _response(await pool.ask(name, body))
        except AdvisorError as error:
            return _refusal(error)

    async def index(request: Request) -> Response:
        _check_client(request, hosts)
        paths = {path_of(name): "POST" for name in questions()}
        about = {
            "tool_version": __version__,
            "schema": "/openapi.json",
            "health": "/health",
            "questions": paths,
        }
        return JSONResponse(about, headers=_HEADERS)

    async def schema(request: Request) -> Response:
        _check_client(request, hosts)
        return JSONResponse(openapi(), headers=_HEADERS)

    async def health(request: Request) -> Response:
        _check_client(request, hosts)
        return JSONResponse({"places": pool.num_places, "taken": pool.num_inside}, headers=_HEADERS)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await pool.close()

    routes = [
        Route("/", index),
        Route("/openapi.json", schema),
        Route("/health", health),
        Route(PREFIX + "{name:path}", answer, methods=["POST"]),
    ]
    handlers: dict[Any, Callable[[Request, Exception], Awaitable[Response]]] = {
        HTTPException: _no_route,
        AdvisorError: _answer_refusal,
    }
    return Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)


async def _answer_refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, AdvisorError)
    return _refusal(error)


async def _no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    fix = f"GET / lists the questions, POST {PREFIX}recommend asks one"
    return _refusal(
        RefusedRequestError(
            error.status_code, error.detail, why=f"{request.method} {request.url.path}", fix=fix
        )
    )


def _check_client(request: Request, hosts: frozenset[str]) -> None:
    """Refuse pages of other sites, and names that are not those of this service.

    Raises: RefusedRequestError: the host is unknown, or the request comes from a page elsewhere.
    """
    host = request.headers.get("host", "")
    name = urlsplit(f"//{host}").hostname or ""
    if hosts and name not in hosts:
        raise RefusedRequestError(
            403,
            f"no service is called {name[:100]!r} here",
            why="a stranger's name may lead to this machine",
            fix=f"call it {', '.join(sorted(hosts))}",
        )
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != host:
        raise RefusedRequestError(
            403,
            "pages of other sites may not ask",
            why=f"the request comes from {origin[:100]!r}",
            fix="ask from a program, or from a page of this host",
        )


async def _body(request: Request, most_bytes: int) -> object:
    """Return the JSON of a request.

    Raises: RefusedRequestError: it is no JSON, too large, or comes too slowly.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise RefusedRequestError(
            415,
            "a question is sent as application/json",
            why="a form of a page cannot send that type",
            fix="content-type: application/json",
        )
    received = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            async for chunk in request.stream():
                received += chunk
                if len(received) > most_bytes:
                    raise RefusedRequestError(
                        413,
                        f"a question has at most {most_bytes:,} bytes",
                        why="the service limits its size",
                        fix="send less, or start it with a larger --max-bytes",
                    )
    except TimeoutError:
        raise RefusedRequestError(
            408,
            f"the question did not arrive within {BODY_S:g} s",
            why="the service limits the time",
            fix="send it at once",
        ) from None
    try:
        return json.loads(received or b"{}", parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise RefusedRequestError(
            400, "the question is no JSON", why=str(error)[:200], fix='{"model": "8b", "rate": 5}'
        ) from None


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")


async def _lines(pool: WorkerPool, name: str, body: object) -> AsyncIterator[bytes]:
    """Yield progress and, at the end, the document or the error, one JSON object a line."""
    messages: asyncio.Queue[Reply] = asyncio.Queue()

    async def tell(text: str) -> None:
        messages.put_nowait({"progress": text})

    async def work() -> None:
        try:
            reply = await pool.ask(name, body, tell)
        except AdvisorError as error:
            reply = error_document(error)
        messages.put_nowait(reply)

    task = asyncio.create_task(work())
    try:
        while "progress" in (message := await messages.get()):
            yield json.dumps(message).encode() + b"\n"
        found = json.loads(message["document"]) if "document" in message else {"error": message["error"]}
        yield json.dumps(found, ensure_ascii=False).encode() + b"\n"
    finally:
        task.cancel()


def _response(reply: Reply) -> Response:
    if "document" in reply:
        return Response(reply["document"].encode(), media_type="application/json", headers=_HEADERS)
    code = reply["error"]["exit_code"]
    return JSONResponse({"error": reply["error"]}, 500 if code == 1 else _UNPROCESSABLE, headers=_HEADERS)


def _refusal(error: AdvisorError) -> Response:
    status = status_of(error)
    more: MutableMapping[str, str] = {"retry-after": str(RETRY_S)} if status == 429 else {}
    return JSONResponse(error_document(error), status, headers={**_HEADERS, **more})


def openapi() -> dict[str, Any]:
    """Return the OpenAPI description: a path for each question, with the schema of its keywords."""
    from advisor.cli.keywords import command_of

    def content(schema: dict[str, Any]) -> dict[str, Any]:
        return {"application/json": {"schema": schema}}

    refused = {"description": "what, why, fix", "content": content({"$ref": "#/components/schemas/Error"})}
    answered = {"description": "the answer", "content": content({"$ref": "#/components/schemas/Document"})}
    statuses = ("400", "403", "404", "408", "413", "415", "422", "429", "500", "504")
    return {
        "openapi": "3.1.0",
        "info": {"title": "advisor", "version": __version__},
        "paths": {
            path_of(name): {
                "post": {
                    "operationId": name.replace(" ", "_").replace("-", "_"),
                    "summary": " ".join((command_of(name).inputs.__doc__ or "").split()),
                    "requestBody": {"required": True, "content": content(schema_of(name))},
                    "responses": {"200": answered, **dict.fromkeys(statuses, refused)},
                }
            }
            for name in questions()
        },
        "components": {"schemas": {"Document": answer_schema(), "Error": error_schema()}},
    }
