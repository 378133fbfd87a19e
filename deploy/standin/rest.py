"""The door of the REST API: who asks, what for, and may they.

It finds the call for a path, checks credential, repository and permission, reads the body and turns what the call
returns or refuses into a response. The calls themselves are in `calls/`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import quote, unquote, urlencode

from aiohttp import web

from deploy.standin.answers import Answer, Refused, bad_credentials, not_found, not_permitted
from deploy.standin.auth import Token, check_jwt
from deploy.standin.record import Request
from deploy.standin.site import Site
from deploy.standin.state import Issue, Repo

PAGE, PAGE_MOST = 30, 100
"""Entries of a page: the default, and the most that can be asked for.

https://docs.github.com/en/rest/using-the-rest-api/using-pagination-in-the-rest-api
"""
API_VERSIONS = ("2022-11-28", "2026-03-10")
"""What `X-GitHub-Api-Version` may say (https://docs.github.com/en/rest/about-the-rest-api/api-versions)."""
NO_AGENT = (
    "Request forbidden by administrative rules. Please make sure your request has a User-Agent header "
    "(https://docs.github.com/en/rest/using-the-rest-api/getting-started-with-the-rest-api#user-agent)."
)
ARCHIVED = "Repository was archived so is read-only."
HEADERS = {"X-GitHub-Media-Type": "github.v3; format=json", "X-GitHub-Request-Id": "0000:STANDIN"}


@dataclass(frozen=True, slots=True)
class Call:
    """One admitted request, as a call sees it."""

    site: Site
    path: str
    """As it was asked, under the API root."""
    params: dict[str, str]
    query: dict[str, str]
    body: Any
    token: Token | None
    """None where the App asks by its JWT."""
    headers: dict[str, str]
    repo: Repo | None

    @property
    def repository(self) -> Repo:
        """The repository of the path."""
        if self.repo is None:
            raise not_found()
        return self.repo

    @property
    def credential(self) -> Token:
        """The installation token."""
        if self.token is None:
            raise bad_credentials()
        return self.token

    @property
    def data(self) -> dict[str, Any]:
        """The body, which has to be a JSON object; none counts as an empty one."""
        if self.body is None:
            return {}
        if not isinstance(self.body, dict):
            raise Refused(400, "Body should be a JSON object")
        return self.body

    def number(self, name: str) -> int:
        """Return a parameter of the path that has to be a number."""
        if not re.fullmatch(r"[0-9]{1,18}", self.params[name]):
            raise not_found()
        return int(self.params[name])

    def issue(self, name: str = "number") -> Issue:
        """Return the issue or pull request of the path."""
        found = self.site.state.issues.get((self.repository.id, self.number(name)))
        if found is None:
            raise not_found()
        return found

    @property
    def page_size(self) -> int:
        """How many entries of a list are asked for at once."""
        return min(max(self._count("per_page", PAGE), 1), PAGE_MOST)

    def listed(self, items: Sequence[Any], *, key: str | None = None, path: str | None = None) -> Answer:
        """Answer one page of a list, with the `Link` header that leads to the others."""
        size = self.page_size
        page = max(self._count("page", 1), 1)
        last = max(-(-len(items) // size), 1)
        links = {"prev": page - 1, "next": page + 1, "last": last, "first": 1}
        if page >= last:
            del links["next"], links["last"]
        if page == 1:
            del links["prev"], links["first"]
        where = f"{self.site.urls.api}{path or self.path}"
        link = ", ".join(
            f'<{where}?{urlencode(self.query | {"page": str(number)})}>; rel="{name}"' for name, number in links.items()
        )
        part = list(items[(page - 1) * size : page * size])
        body: Any = part if key is None else {"total_count": len(items), key: part}
        return Answer(200, body, {"Link": link} if link else {})

    def _count(self, name: str, default: int) -> int:
        value = self.query.get(name, "")
        return int(value) if re.fullmatch(r"[0-9]{1,9}", value) else default


Handler: TypeAlias = Callable[[Call], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Route:
    """A call of the API. ``{name}`` in its template is one part of the path, ``{name+}`` any number of them."""

    method: str
    template: str
    handler: Handler
    needs: tuple[str, ...] = ()
    """Permissions, any one of which will do: ``contents:read``. Empty: any installation token."""
    app: bool = False
    """The App's JWT is asked for, and not an installation token."""
    pattern: re.Pattern[str] = field(init=False)

    def __post_init__(self) -> None:
        parts = re.sub(r"\\\{(\w+)(\\\+)?\\\}", _group, re.escape(self.template))
        object.__setattr__(self, "pattern", re.compile(parts))


def _group(match: re.Match[str]) -> str:
    return f"(?P<{match[1]}>{'.+' if match[2] else '[^/]+'})"


class Api:
    """The REST API of one stand-in."""

    def __init__(self, site: Site, routes: Sequence[Route]) -> None:
        self._site = site
        self._routes = routes

    async def answer(self, request: web.Request, path: str, entry: Request) -> web.Response:
        """Answer a request. `path` is its raw path under the API root."""
        try:
            answer = await self._answer(request, path, entry)
        except Refused as refusal:
            answer = refusal.answer
        return respond(answer)

    async def _answer(self, request: web.Request, path: str, entry: Request) -> Answer:
        if not request.headers.get("User-Agent"):
            raise Refused(403, NO_AGENT)
        version = request.headers.get("X-GitHub-Api-Version", API_VERSIONS[0])
        if version not in API_VERSIONS:
            raise Refused(400, f"{version} is not a supported version.")
        token = self._credential(request)
        entry.permissions = None if token is None else dict(token.permissions)
        path = self._by_name(path)
        route, params = self._route(request.method, path)
        if route.app and token is not None:
            raise bad_credentials("A JSON web token could not be decoded")
        if not route.app and token is None:
            raise bad_credentials()
        repo = self._repository(params, path, token=token, reads=request.method == "GET")
        if token is not None and route.needs and not any(token.allows(*need.split(":")) for need in route.needs):
            raise not_permitted("; ".join(need.replace(":", "=") for need in route.needs))
        call = Call(
            site=self._site,
            path=entry.path,
            params=params,
            query=entry.query,
            body=_json(entry),
            token=token,
            headers=dict(request.headers),
            repo=repo,
        )
        return await route.handler(call)

    def _credential(self, request: web.Request) -> Token | None:
        """Return the installation token of a request; None where it brings a good JWT of the App."""
        scheme, _, value = request.headers.get("Authorization", "").partition(" ")
        value = value.strip()
        if not value:
            raise Refused(401, "Requires authentication")
        if scheme.lower() not in ("bearer", "token"):
            raise bad_credentials()
        if value.startswith("ghs_"):
            return self._site.tokens.find(value)
        if scheme.lower() != "bearer":
            raise bad_credentials()
        check_jwt(self._site.app, value)
        return None

    def _by_name(self, path: str) -> str:
        """Return ``/repositories/ID/…`` as ``/repos/OWNER/NAME/…``."""
        match = re.fullmatch(r"/repositories/([0-9]{1,18})(/.*)?", path)
        if match is None:
            return path
        repo = self._site.state.repos.get(int(match[1]))
        # One that is deleted has no name either: another repository may bear it by now.
        if repo is None or repo.deleted:
            raise not_found()
        return f"/repos/{repo.full_name}{match[2] or ''}"

    def _route(self, method: str, path: str) -> tuple[Route, dict[str, str]]:
        for route in self._routes:
            if route.method == method and (match := route.pattern.fullmatch(path)):
                return route, {name: unquote(value) for name, value in match.groupdict().items()}
        raise not_found()

    def _repository(self, params: dict[str, str], path: str, *, token: Token | None, reads: bool) -> Repo | None:
        """Return the repository of a path. One that the token does not reach looks like one that does not exist.

        Public ones may be read with any token.
        """
        if "repo" not in params:
            return None
        asked = f"{params['owner']}/{params['repo']}"
        repo = self._site.state.find_repo(asked)
        if repo is None or (token is not None and not token.covers(repo) and (repo.private or not reads)):
            raise not_found()
        if repo.full_name.lower() != asked.lower():
            rest = "/".join(path.split("/")[4:])
            place = f"{self._site.urls.api}/repositories/{repo.id}{'/' if rest else ''}{rest}"
            body = {"message": "Moved Permanently", "url": place, "documentation_url": "https://docs.github.com/rest"}
            moved = Refused(301, "Moved Permanently")
            moved.answer = Answer(301, body, {"Location": place})
            raise moved
        if repo.archived and not reads:
            raise Refused(403, ARCHIVED)
        return repo


def respond(answer: Answer) -> web.Response:
    """Turn an answer into a response."""
    headers = HEADERS | answer.headers
    if answer.body is None:
        return web.Response(status=answer.status, headers=headers)
    return web.json_response(answer.body, status=answer.status, headers=headers)


def _json(entry: Request) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(entry.body, bytes):
        raise Refused(400, "Problems parsing JSON")
    return entry.body


def parsed(raw: bytes) -> Any:  # noqa: ANN401 - any JSON
    """Return a body as JSON; None where there is none, the bytes themselves where it is no JSON."""
    if not raw:
        return None
    try:
        return json.loads(raw)
    except ValueError:
        return raw


def in_url(value: str) -> str:
    """Quote a value for a path."""
    return quote(value, safe="")
