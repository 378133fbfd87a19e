"""Calls about conversations: issues, their comments, reactions to comments."""

from __future__ import annotations

from datetime import UTC, datetime

from deploy.standin import actions, rules
from deploy.standin.answers import Answer, Refused, not_found, not_permitted
from deploy.standin.rest import Call, Route
from deploy.standin.state import Comment, Issue, Reaction

READ = ("issues:read", "pull_requests:read")
WRITE = ("issues:write", "pull_requests:write")
LOCKED = "Unable to create comment because issue is locked."


async def get_issue(call: Call) -> Answer:
    """GET /repos/{owner}/{repo}/issues/{number}."""
    issue = call.issue()
    _permit(call, issue, "read")
    return Answer(200, call.site.shapes.issue(issue))


async def list_comments(call: Call) -> Answer:
    """GET /repos/{owner}/{repo}/issues/{number}/comments."""
    issue = call.issue()
    _permit(call, issue, "read")
    comments = call.site.state.comments_of(call.repository, issue.number)
    if "since" in call.query:
        since = _moment(call.query["since"])
        comments = [each for each in comments if each.updated_at >= since]
    # GitHub's links lead to the repository by its number.
    path = f"/repositories/{call.repository.id}/issues/{issue.number}/comments"
    return call.listed([call.site.shapes.comment(each) for each in comments], path=path)


async def create_comment(call: Call) -> Answer:
    """POST /repos/{owner}/{repo}/issues/{number}/comments."""
    issue, site = call.issue(), call.site
    _permit(call, issue, "write")
    body = rules.comment_body(call.data)
    if issue.locked:
        raise Refused(403, LOCKED)
    comment, events = actions.write_comment(site, issue, body=body, author=site.app.bot, by_app=True)
    site.webhooks.later(site.webhooks.deliver_all(events))
    shape = site.shapes.comment(comment)
    return Answer(201, shape, {"Location": shape["url"]})


async def get_comment(call: Call) -> Answer:
    """GET /repos/{owner}/{repo}/issues/comments/{comment_id}."""
    return Answer(200, call.site.shapes.comment(_comment(call, "read")))


async def update_comment(call: Call) -> Answer:
    """PATCH /repos/{owner}/{repo}/issues/comments/{comment_id}."""
    comment, site = _comment(call, "write"), call.site
    body = rules.comment_body(call.data)
    edited, events = actions.edit_comment(site, comment, body=body, sender=site.app.bot)
    site.webhooks.later(site.webhooks.deliver_all(events))
    return Answer(200, site.shapes.comment(edited))


async def delete_comment(call: Call) -> Answer:
    """DELETE /repos/{owner}/{repo}/issues/comments/{comment_id}."""
    comment, site = _comment(call, "write"), call.site
    events = actions.delete_comment(site, comment, sender=site.app.bot)
    site.webhooks.later(site.webhooks.deliver_all(events))
    return Answer(204)


async def list_reactions(call: Call) -> Answer:
    """GET /repos/{owner}/{repo}/issues/comments/{comment_id}/reactions."""
    comment = _comment(call, "read")
    reactions = call.site.state.reactions_to(comment.id)
    return call.listed([call.site.shapes.reaction(each) for each in reactions])


async def create_reaction(call: Call) -> Answer:
    """POST /repos/{owner}/{repo}/issues/comments/{comment_id}/reactions: 201 for a new one, 200 for one that exists."""
    comment, state, bot = _comment(call, "write"), call.site.state, call.site.app.bot
    rules.conform(call.data, rules.REACTION)
    content = call.data["content"]
    for each in state.reactions_to(comment.id):
        if (each.user_id, each.content) == (bot.id, content):
            return Answer(200, call.site.shapes.reaction(each))
    number = state.next_id()
    state.reactions[number] = Reaction(number, comment.id, bot.id, bot.login, content)
    return Answer(201, call.site.shapes.reaction(state.reactions[number]))


async def delete_reaction(call: Call) -> Answer:
    """DELETE /repos/{owner}/{repo}/issues/comments/{comment_id}/reactions/{reaction_id}."""
    comment, state = _comment(call, "write"), call.site.state
    number = call.number("reaction_id")
    if number not in {each.id for each in state.reactions_to(comment.id)}:
        raise not_found()
    del state.reactions[number]
    return Answer(204)


def _comment(call: Call, level: str) -> Comment:
    comment = call.site.state.comments.get(call.number("comment_id"))
    if comment is None or comment.repo_id != call.repository.id:
        raise not_found()
    _permit(call, call.site.state.issue(call.repository, comment.number), level)
    return comment


def _permit(call: Call, issue: Issue, level: str) -> None:
    """Hold the permission for `pull_requests` good on pull requests only."""
    if call.credential.allows("issues", level):
        return
    if issue.pull is None or not call.credential.allows("pull_requests", level):
        raise not_permitted(f"issues={level}; pull_requests={level}")


def _moment(value: str) -> datetime:
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        raise Refused(422, f"Invalid value for 'since': {value}") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


_COMMENTS = "/repos/{owner}/{repo}/issues/comments/{comment_id}"

ROUTES = (
    Route("GET", _COMMENTS, get_comment, READ),
    Route("PATCH", _COMMENTS, update_comment, WRITE),
    Route("DELETE", _COMMENTS, delete_comment, WRITE),
    Route("GET", f"{_COMMENTS}/reactions", list_reactions, READ),
    Route("POST", f"{_COMMENTS}/reactions", create_reaction, WRITE),
    Route("DELETE", f"{_COMMENTS}/reactions/{{reaction_id}}", delete_reaction, WRITE),
    Route("GET", "/repos/{owner}/{repo}/issues/{number}", get_issue, READ),
    Route("GET", "/repos/{owner}/{repo}/issues/{number}/comments", list_comments, READ),
    Route("POST", "/repos/{owner}/{repo}/issues/{number}/comments", create_comment, WRITE),
)
