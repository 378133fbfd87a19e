"""Credentials and writes over the life of bot and worker: narrow, nowhere written down, ended, in turn (T30)."""

from __future__ import annotations

from pathlib import Path

import pytest
from redis.asyncio import Redis
from telling import Story, finding, reconcile, section, verdict

from bot.store.connection import key
from deploy.machine import machine

SCOPES = {
    "the API": {
        "checks": "write",
        "contents": "read",
        "issues": "write",
        "metadata": "read",
        "pull_requests": "write",
    },
    "a fetch": {"contents": "read", "metadata": "read"},
    "a push": {"contents": "write", "metadata": "read"},
    "a look at what is open": {"checks": "read", "metadata": "read", "pull_requests": "read"},
}
"""What a token may do, by what it is for: no more, though the installation grants it."""


@pytest.mark.threat("T30")
async def test_no_token_on_disk(tmp_path: Path) -> None:
    scenario = tmp_path / "scenario.json"
    seat = f"scripted:{scenario}"
    folder = tmp_path / "machine"
    async with machine(folder, reviewer=seat, author=seat) as made:
        repo = await made.github.create_repository("you/tidebook")
        await made.github.create_repository("you/other")
        story = Story(made, scenario, tmp_path / "briefs", repo)
        story.plays(
            verdict(finding()), section("F1 fixed", edits={"app.py": "x = 3\n"}), verdict(finding(status="resolved"))
        )
        await story.opens({"app.py": "x = 1\n"}, {"app.py": "x = 2\n"})
        end = await story.reviewed()
        assert end.state.status == "consensus"
        await reconcile(made)

        asked = [each for each in made.github.requests("POST") if each.path.endswith("/access_tokens")]
        # What lists an installation's repositories can read their names, and nothing in them.
        names = [request.body for request in asked if "repository_ids" not in request.body]
        assert all(body == {"permissions": {"metadata": "read"}} for body in names)
        asked = [request for request in asked if "repository_ids" in request.body]
        for request in asked:
            assert request.body.keys() == {"repository_ids", "permissions"}
            assert len(request.body["repository_ids"]) == 1
        scopes = [request.body["permissions"] for request in asked if request.body["repository_ids"] == [repo.id]]
        assert all(scope in SCOPES.values() for scope in scopes)
        assert all(scope in scopes for scope in SCOPES.values())

        # Every write takes a turn, the bot's and the worker's: minting and git are none.
        writes = [each for each in made.github.requests("*", f"/repos/{repo.full_name}") if each.method != "GET"]
        redis = Redis.from_url(made.settings.redis_url or "")
        turns = await redis.lrange(key("pace", f"writes/{made.github.installation_id(repo)}"), 0, -1)
        await redis.aclose()
        assert len(turns) == len(writes) > 5

        tokens = [value.encode() for value in made.github._site.tokens._tokens]
        assert tokens
        written = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
        assert repo.full_name.encode() in written, "the store's own file is among them"
        assert not [token for token in tokens if token in written]
        github = made.github
    assert github._site.tokens._tokens == {}, "what the process held is ended with it"
