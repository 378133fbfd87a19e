"""The one way out to GitHub for both wings: an effect is stored, checked against the fence, looked for, done, recorded.

An intent says what shall be the case, so that publishing it twice is one effect. What fails stays pending and raises;
nothing is tried again here. What is written is rendered elsewhere and cut nowhere here.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, assert_never

from pydantic import TypeAdapter

from bot.github import GitHub, GitHubError, NotFound, verbs
from bot.github.errors import MESSAGE_CHARS
from bot.intents import Answer, CheckRun, Comment, Intent, Push, Reaction, dump_intent, load_intent, name_of, push_name
from bot.redact import quotable
from bot.store import Outbox, Writer

UNPROCESSABLE = 422
"""What GitHub answers to content that it does not take, however often it is sent."""
ANNOTATIONS = 50
"""Annotations that GitHub takes in one request (docs.github.com, "Update a check run")."""

# ---- Results --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Published:
    """What is there now."""

    id: int | None = None
    url: str = ""
    refused: str = ""
    """Why it is not there, and will not be."""


@dataclass(frozen=True, slots=True)
class _Shown:
    """What is known of a check run or comment that was written before."""

    id: int | None = None
    url: str = ""
    digest: str = ""
    """Of the intent that was last carried out whole."""
    completed: bool = False
    sent: tuple[str, ...] = ()
    """Digests of the annotations that were sent."""

    @property
    def published(self) -> Published:
        return Published(self.id, self.url)


_results: TypeAdapter[Published] = TypeAdapter(Published)
_shown: TypeAdapter[_Shown] = TypeAdapter(_Shown)


def _digest(value: object) -> str:
    raw = value if isinstance(value, bytes) else json.dumps(value, sort_keys=True).encode()
    return hashlib.sha256(raw).hexdigest()[:32]


def _bare(intent: CheckRun, error: GitHubError) -> CheckRun:
    """Return a completed check run with nothing in it that GitHub might not take: it must not stay open for ever."""
    summary = f"GitHub did not take the whole result: `{quotable(error.message, MESSAGE_CHARS)}`."
    return replace(intent, summary=summary, text="", annotations=(), actions=())


async def concluded(outbox: Outbox, run: str, name: str) -> bool:
    """Return whether a run's check run of this name was completed, as far as is recorded."""
    raw = await outbox.result(name_of(CheckRun(run, name, "", "completed")))
    return raw is not None and _shown.validate_json(raw).completed


# ---- Publishing -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Place:
    """Where a publisher writes, and as whom."""

    repo: str
    """``owner/name``."""
    number: int
    """The issue or pull request that a run's comments stand under."""
    bot_id: int
    """The bot account's user id (`AppIdentity.bot_id`): only its comments are our own."""


@dataclass(slots=True)
class Publisher:
    """Carries out intents for one attempt at a run, or for the bot. Calls for the same thing wait for each other."""

    outbox: Outbox
    github: GitHub
    place: Place
    run: str | None = None
    fence: int | None = None
    push: Callable[[Push], Awaitable[str]] | None = None
    """Makes a push, and returns why the server refuses it for good: nothing, where it does not."""
    _locks: defaultdict[str, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))

    @property
    def _by(self) -> Writer:
        return Writer(self.run, self.fence)

    async def publish(self, intent: Intent) -> Published:
        """Make it so, and return what is there.

        Raises `LostFence` where a later attempt has begun, `StoreAway`, `GitHubError`, and what `push` raises. The
        intent is pending then.
        """
        name = name_of(intent)
        async with self._locks[name]:
            match intent:
                case Reaction() | Answer() | Push():
                    return await self._once(name, intent)
                case CheckRun():
                    return await self._check(name, intent)
                case Comment():
                    return await self._comment(name, intent)
                case _:
                    assert_never(intent)

    async def stored_push(self, path: str) -> Push | None:
        """Return the intent that the editing turn at `path` stored in this or an earlier attempt, if it got so far."""
        intent = await self._stored(push_name(self.run or "", path))
        return intent if isinstance(intent, Push) else None

    async def resume(self, hidden: Callable[[CheckRun], CheckRun] | None = None) -> None:
        """Carry out what an earlier attempt left pending, but for pushes: their step finds and finishes its own.

        `hidden` takes the debate's words out of what is told, where they may not be shown; comments are not then.
        """
        for intent in await self._pending():
            if not isinstance(intent, Push):
                await self._carry_out(intent, hidden)

    async def settle(self, hidden: Callable[[CheckRun], CheckRun] | None = None) -> None:
        """Carry out what a run that has ended left pending. One that fails keeps no other waiting; the first is raised.

        No step comes back for its pushes: they are recorded as not made. So is what GitHub has no place for any more.
        `hidden` as in `resume`.
        """
        failures = list[Exception]()
        for intent in await self._pending():
            try:
                if isinstance(intent, Push):
                    await self._never(intent, "the debate had ended")
                else:
                    await self._carry_out(intent, hidden)
            except GitHubError as error:
                if isinstance(error, NotFound) or error.status == UNPROCESSABLE:
                    await self._never(intent, error.message)
                else:
                    failures.append(error)
        if failures:
            raise failures[0]

    async def _carry_out(self, intent: Intent, hidden: Callable[[CheckRun], CheckRun] | None) -> None:
        match intent:
            case Comment() if hidden is not None:
                await self._never(intent, "its words may not be shown")
            case CheckRun() if hidden is not None:
                intent = hidden(intent)
                await self.outbox.replace(name_of(intent), dump_intent(intent), self._by)
                await self.publish(intent)
            case _:
                await self.publish(intent)

    async def intend(self, intent: CheckRun | Comment) -> None:
        """Store how something shall look without making it so: `settle` does that. A conclusion that stands, stands.

        Raises `LostFence` and `StoreAway`.
        """
        name = name_of(intent)
        async with self._locks[name]:
            before = await self._stored(name)
            if not (isinstance(before, CheckRun) and before.status == "completed"):
                await self.outbox.replace(name, dump_intent(intent), self._by)

    async def _stored(self, name: str) -> Intent | None:
        raw = await self.outbox.get(name)
        return None if raw is None else load_intent(raw)

    async def _pending(self) -> list[Intent]:
        found = [await self._stored(name) for name in await self.outbox.pending(self.run)]
        return [intent for intent in found if intent is not None]

    async def _never(self, intent: Intent, why: str) -> None:
        """Record that nothing more comes of an intent. What is known to be there stays known."""
        name = name_of(intent)
        blank = _shown.dump_json(_Shown())
        if not isinstance(intent, CheckRun | Comment):
            blank = _results.dump_json(Published(refused=why))
        await self.outbox.done(name, await self.outbox.result(name) or blank, self._by)

    # ---- What is meant once -----------------------------------------------------------------------------------------

    async def _once(self, name: str, intent: Reaction | Answer | Push) -> Published:
        done = await self.outbox.result(name)
        if done is not None:
            return _results.validate_json(done)
        stored = await self.outbox.put(name, dump_intent(intent), self._by)
        # What was stored first is what was meant: it may have been done already.
        first = load_intent(stored.raw)
        match first:
            case Reaction(comment, content):
                published = Published(await verbs.react(self.github, comment.repo, comment.id, content))
            case Answer():
                published = await self._answer(first, seek=not stored.first)
            case Push():
                published = Published(refused=await self._push(first))
            case _:  # pragma: no cover - a name belongs to one kind
                raise TypeError(f"{name} holds a {type(first).__name__}")
        await self.outbox.done(name, _results.dump_json(published), self._by)
        return published

    async def _answer(self, intent: Answer, *, seek: bool) -> Published:
        if seek:
            for comment in await self._own_comments(intent.number):
                if comment.id > intent.after and comment.body == intent.body:
                    return Published(comment.id, comment.html_url)
        made = await verbs.create_comment(self.github, self.place.repo, intent.number, body=intent.body)
        return Published(made.id, made.html_url)

    async def _push(self, intent: Push) -> str:
        if intent.ref is None:
            return ""
        if self.push is None:
            raise ValueError("this publisher was given no way to push")
        return await self.push(intent)

    # ---- Comments ---------------------------------------------------------------------------------------------------

    async def _comment(self, name: str, intent: Comment) -> Published:
        shown = await self._state(name)
        digest = _digest(intent.body)
        if shown.id is not None and shown.digest == digest:
            return shown.published
        await self.outbox.replace(name, dump_intent(intent), self._by)
        written = await self._written(intent, shown.id)
        if written is None and shown.id is not None and (there := await self._seek(intent)) is not None:
            written = await verbs.update_comment(self.github, self.place.repo, there.id, body=intent.body)
        if written is None:
            await self.outbox.guard(self._by)
            written = await verbs.create_comment(self.github, self.place.repo, self.place.number, body=intent.body)
        shown = _Shown(written.id, written.html_url, digest)
        await self.outbox.done(name, _shown.dump_json(shown), self._by)
        return shown.published

    async def _written(self, intent: Comment, known: int | None) -> verbs.Comment | None:
        """Return the run's comment with its new body, or None where there is none on GitHub (any more)."""
        if known is None:
            found = await self._seek(intent)
            if found is None or found.body == intent.body:
                return found
            known = found.id
        await self.outbox.guard(self._by)
        try:
            return await verbs.update_comment(self.github, self.place.repo, known, body=intent.body)
        except NotFound:  # somebody deleted it: the result is told once more (threats.md R22)
            return None

    async def _seek(self, intent: Comment) -> verbs.Comment | None:
        """Return the comment of this slot that was written but never recorded: ours, and it names the run."""
        taken = [await self._state(name_of(replace(intent, slot=slot))) for slot in range(intent.slot)]
        for comment in await self._own_comments(self.place.number):
            if f"`{intent.run}`" in (comment.body or "") and comment.id not in {shown.id for shown in taken}:
                return comment
        return None

    async def _own_comments(self, number: int) -> list[verbs.Comment]:
        found = await verbs.comments(self.github, self.place.repo, number)
        return [comment for comment in found if comment.user is not None and comment.user.id == self.place.bot_id]

    # ---- Check runs -------------------------------------------------------------------------------------------------

    async def _check(self, name: str, intent: CheckRun) -> Published:
        shown = await self._state(name)
        if shown.completed:
            return shown.published
        raw = dump_intent(intent)
        if shown.id is not None and shown.digest == _digest(raw):
            return shown.published
        before = await self._stored(name)
        if isinstance(before, CheckRun) and before.status == "completed":
            intent = before  # it may be there already; the first conclusion stands
            shown = await self._looked_up(intent, shown)
        else:
            await self.outbox.replace(name, raw, self._by)
            if shown.id is None:
                shown = await self._looked_up(intent, shown)
        if not shown.completed:
            shown = await self._show(name, intent, shown)
        await self.outbox.done(name, _shown.dump_json(replace(shown, digest=_digest(dump_intent(intent)))), self._by)
        return shown.published

    async def _looked_up(self, intent: CheckRun, shown: _Shown) -> _Shown:
        """Return what GitHub knows of the run's check run, by its name and external id on its commit."""
        for check in await verbs.check_runs(self.github, self.place.repo, intent.head_sha, name=intent.name):
            if check.external_id == intent.run:
                # They are added in their order, and an answer may have been lost: what is there was sent.
                sent = tuple(map(_digest, intent.annotations[: check.output.annotations_count]))
                return _Shown(check.id, check.html_url or "", completed=check.status == "completed", sent=sent)
        return replace(shown, id=None)

    async def _show(self, name: str, intent: CheckRun, shown: _Shown) -> _Shown:
        """Send the check run: its new annotations in requests of 50, its conclusion with the last of them."""
        fresh = [each for each in intent.annotations if _digest(each) not in shown.sent]
        batches = [fresh[start : start + ANNOTATIONS] for start in range(0, len(fresh), ANNOTATIONS)] or [[]]
        for number, batch in enumerate(batches, 1):
            last = number == len(batches)
            await self.outbox.guard(self._by)
            try:
                check = await self._send(intent, shown, batch=batch, last=last)
            except GitHubError as error:
                if error.status != UNPROCESSABLE or intent.status != "completed":
                    raise
                check, last = await self._send(_bare(intent, error), shown, batch=[], last=True), True
            shown = _Shown(
                check.id,
                check.html_url or "",
                completed=last and intent.status == "completed",
                sent=(*shown.sent, *map(_digest, batch)),
            )
            if last:
                break
            await self.outbox.partly(name, _shown.dump_json(shown), self._by)
        return shown

    async def _send(
        self, intent: CheckRun, shown: _Shown, *, batch: list[Mapping[str, Any]], last: bool
    ) -> verbs.CheckRun:
        output: dict[str, Any] = {"title": intent.title, "summary": intent.summary}
        if intent.text:
            output["text"] = intent.text
        if batch:
            output["annotations"] = [dict(each) for each in batch]
        fields: dict[str, Any] = {"status": intent.status if last else "in_progress", "output": output}
        if last and intent.conclusion is not None:
            fields["conclusion"] = intent.conclusion
        if last and intent.actions:
            fields["actions"] = [dict(each) for each in intent.actions]
        repo = self.place.repo
        if shown.id is not None:
            try:
                return await verbs.update_check_run(self.github, repo, shown.id, fields=fields)
            except NotFound:
                # Gone for good, where the App was installed anew (threats.md R24); else GitHub was wrong about it.
                there = await self._looked_up(intent, shown)
                if there.id is not None:
                    return await verbs.update_check_run(self.github, repo, there.id, fields=fields)
        fields |= {"name": intent.name, "head_sha": intent.head_sha, "external_id": intent.run}
        return await verbs.create_check_run(self.github, repo, fields)

    async def _state(self, name: str) -> _Shown:
        raw = await self.outbox.result(name)
        return _Shown() if raw is None else _shown.validate_json(raw)
