"""When a debate starts by itself: an opened pull request and the facts → a decision. Pure.

Owns the rules of `auto:` (interface.md 5) and their order. Where a rule holds a debate back, a check run names it, so
that nothing is passed over in silence; where nothing is to start by itself, nothing is shown.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias, get_args

from bot import check_runs, policy
from bot.config import BadConfig, Config, Opening
from bot.events import Actor
from bot.github.verbs import CheckRun, Permission, PullRequest
from bot.options import Review
from bot.policy import Ignore, Start
from bot.statuses import TABLE, Status

ACTIONS: frozenset[str] = frozenset(get_args(Opening))
"""The actions of `pull_request` at which a debate may start by itself."""

UNSTARTED = "unstarted"
"""Begins the ``external_id`` of a check run that tells why no debate was started."""

AGAIN = frozenset({"cancelled", "failure", "skipped", "timed_out", "stale"})
"""Conclusions after which the same commit is debated once more when the pull request is opened again."""


@dataclass(frozen=True, slots=True)
class Show:
    """No debate: a completed check run tells why."""

    rule: str
    """Which rule holds it back, in a word."""
    status: Status
    title: str
    summary: str

    @property
    def conclusion(self) -> str:
        """GitHub's word for it."""
        return TABLE[self.status].conclusion


@dataclass(frozen=True, slots=True)
class Facts:
    """What was read in order to decide. None: it is not there, or was not asked, since nothing depended on it."""

    pull: PullRequest | None
    config: Config | BadConfig | None = None
    author_permission: Permission | None = None
    approver: Actor | None = None
    """Who approved exactly the commit that is the head now."""
    checks: tuple[CheckRun, ...] = ()
    """Our own check runs on the head."""


Decision: TypeAlias = Start | Show | Ignore


def closed_to_us(pull: PullRequest | None) -> Ignore | None:
    """Return why a pull request needs no further look; None where it does."""
    if pull is None or pull.state != "open":
        return Ignore("not open")
    return Ignore("locked") if pull.locked else None


def off(action: str, config: Config | BadConfig | None) -> Ignore | None:
    """Return that nothing starts by itself at an action; None where something may, or where the file has a fault."""
    if config is None or (isinstance(config, Config) and action not in config.auto.on):
        return Ignore("automatic debates are off")
    return None


def decide(action: str, facts: Facts) -> Decision:
    """Return what is to be done about a pull request that was opened, reopened or marked as ready for review."""
    pull, config = facts.pull, facts.config
    idle = closed_to_us(pull) or off(action, config)
    if idle is not None or pull is None or config is None:
        return idle or Ignore("automatic debates are off")
    if _debated(facts.checks):
        return Ignore("the head was debated")
    found = _held_back(pull, config, facts)
    if isinstance(found, Show) and _shown(facts.checks, found.rule):
        return Ignore(f"the head has a check run; else {found.status}")
    return found


def _held_back(pull: PullRequest, config: Config | BadConfig, facts: Facts) -> Start | Show:
    base, head = pull.base.ref, pull.head.sha
    if isinstance(config, BadConfig):
        return Show("config", Status.BAD_CONFIG, *check_runs.config_error(base, config.line, config.fault))
    if not config.auto.covers(base):
        return Show("base", Status.SKIPPED, *check_runs.skipped_base(base))
    ours = policy.inside(pull, facts.author_permission)
    trusted = ours or facts.approver is not None
    if pull.draft and not config.auto.drafts:
        by_itself = trusted and "ready_for_review" in config.auto.on
        return Show("draft", Status.SKIPPED, *check_runs.skipped_draft(by_itself=by_itself))
    if not trusted:
        return Show("approval", Status.WAITING_APPROVAL, *check_runs.waiting_approval(head))
    authority = policy.stands_on(pull, ours=ours, approver=facts.approver)
    return Start(Review(), pull, base, authority, approved=not ours, protect=config.protect)


def _shown(checks: Iterable[CheckRun], rule: str) -> bool:
    """Return whether a head carries the check run of a debate, or already says the same.

    The newest check run of a name is the one that counts: none of these may cover that of a debate (interface.md 6).
    """
    ids = [each.external_id or "" for each in checks]
    return any(not each.startswith(UNSTARTED) or each.endswith(f"-{rule}") for each in ids)


def _debated(checks: Iterable[CheckRun]) -> bool:
    """Return whether a debate of this commit is under way or came to a result."""
    return any(
        each.status != "completed" or each.conclusion not in AGAIN
        for each in checks
        if not (each.external_id or "").startswith(UNSTARTED)
    )
