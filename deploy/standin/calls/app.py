"""Calls about the App itself, its installations and their tokens, and about accounts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from deploy.standin import rules
from deploy.standin.answers import Answer, Refused, not_found
from deploy.standin.auth import narrowed
from deploy.standin.rest import Call, Route
from deploy.standin.shapes import Json, moment
from deploy.standin.state import Repo

UNREACHABLE = "There is at least one repository that does not exist or is not accessible to the parent installation."


async def get_app(call: Call) -> Answer:
    """GET /app."""
    site = call.site
    count = {"installations_count": len(site.state.installations)}
    return Answer(200, site.shapes.integration() | count)


async def list_installations(call: Call) -> Answer:
    """GET /app/installations."""
    return call.listed([call.site.shapes.installation(number) for number in call.site.state.installations])


async def get_repo_installation(call: Call) -> Answer:
    """GET /repos/{owner}/{repo}/installation."""
    number = call.repository.installation_id
    if number is None:
        raise not_found()
    return Answer(200, call.site.shapes.installation(number))


async def create_token(call: Call) -> Answer:
    """POST /app/installations/{installation_id}/access_tokens."""
    number = call.number("installation_id")
    if number not in call.site.state.installations:
        raise not_found()
    if number in call.site.state.suspended:
        raise Refused(403, "This installation has been suspended")
    data = call.data
    rules.conform(data, rules.TOKEN)
    repos = _wanted(call, number, data)
    token = call.site.tokens.issue(
        number,
        None if repos is None else frozenset(repo.id for repo in repos),
        permissions=narrowed(call.site.grants, data.get("permissions")),
        classic=call.headers.get("X-GitHub-Stateless-S2S-Token") == "disabled",
    )
    body: Json = {
        "token": token.value,
        "expires_at": moment(datetime.fromtimestamp(token.expires_at, UTC)),
        "permissions": token.permissions,
        "repository_selection": "all" if repos is None else "selected",
    }
    if repos is not None:
        body["repositories"] = [call.site.shapes.repo(repo) for repo in repos]
    return Answer(201, body)


def _wanted(call: Call, installation: int, data: dict[str, Any]) -> list[Repo] | None:
    """Return the repositories that a token is narrowed to. Raises a 422 where the installation lacks one."""
    ours = [repo for repo in call.site.state.repos.values() if repo.installation_id == installation]
    if "repositories" not in data and "repository_ids" not in data:
        return None
    names = {name.lower() for name in data.get("repositories", [])}
    numbers = set(data.get("repository_ids", []))
    found = [repo for repo in ours if repo.id in numbers or repo.name.lower() in names]
    lacking = names - {repo.name.lower() for repo in found} or numbers - {repo.id for repo in found}
    if lacking or not found:
        raise Refused(422, UNREACHABLE)
    return found


async def revoke_token(call: Call) -> Answer:
    """DELETE /installation/token."""
    call.site.tokens.revoke(call.credential)
    return Answer(204)


async def list_repositories(call: Call) -> Answer:
    """GET /installation/repositories."""
    covered = [repo for repo in call.site.state.repos.values() if call.credential.covers(repo)]
    return call.listed([call.site.shapes.repo(repo) for repo in covered], key="repositories")


async def get_user(call: Call) -> Answer:
    """GET /users/{username}."""
    user = call.site.state.find_user(call.params["username"])
    if user is None:
        raise not_found()
    return Answer(200, call.site.shapes.public_user(user))


ROUTES = (
    Route("GET", "/app", get_app, app=True),
    Route("GET", "/app/installations", list_installations, app=True),
    Route("POST", "/app/installations/{installation_id}/access_tokens", create_token, app=True),
    Route("GET", "/repos/{owner}/{repo}/installation", get_repo_installation, app=True),
    Route("DELETE", "/installation/token", revoke_token),
    Route("GET", "/installation/repositories", list_repositories, ("metadata:read",)),
    Route("GET", "/users/{username}", get_user),
)
