"""What happens in a seed: which fault, and at which point of the run. Pure: the same seed is the same plan.

The kind of the first fault goes by the seed's number, so that every kind has its turn; everything else is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from town import EFFECTS, STEPS

TURNS, PUSHES = 5, 2
REAL_LEASE, SHORT_LEASE = 6.0, 1.0
"""Seconds. The real one (decisions.md 1.4) is `bot.store.lease.LEASE_SECONDS`; `test_seeds` compares the two."""
REAL_SHARE = 0.3
"""Of the seeds in which a worker dies, so many have the real lease."""
SECOND_SHARE = 0.25
"""Of the seeds, so many have a second fault besides."""

WORKER = ("kill", "term", "stop")
"""What a worker does to itself at a point."""
STORE = ("restart", "crash", "disconnect", "outage", "flush", "flush-and-kill")
WIRE: dict[str, dict[str, object]] = {
    "dropped-before": {"drop": True, "when": "before"},
    "dropped-after": {"drop": True, "when": "after"},
    "cut-answer": {"cut": True, "when": "after"},
    "error-before": {"status": 502, "when": "before"},
    "error-after": {"status": 500, "when": "after"},
    "limit-403": {
        "status": 403,
        "message": "You have exceeded a secondary rate limit.",
        "headers": {"retry-after": "1"},
    },
    "limit-429": {"status": 429, "headers": {"retry-after": "1"}},
    "hang-before": {"hang": True, "when": "before"},
    "hang-after": {"hang": True, "when": "after"},
}
"""How a request to GitHub fails, as `deploy.standin.record.FaultOptions` has it."""
TARGETS = {
    "a check run's creation": ("POST", "/repos/{repo}/check-runs"),
    "a check run's change": ("PATCH", "/repos/{repo}/check-runs/"),
    "a comment's creation": ("POST", "/repos/{repo}/issues/{number}/comments"),
    "a comment's change": ("PATCH", "/repos/{repo}/issues/comments/"),
    "a reaction": ("POST", "/repos/{repo}/issues/comments/"),
    "a look at the pull request": ("GET", "/repos/{repo}/pulls/{number}"),
    "a push": ("POST", "/{repo}.git/git-receive-pack"),
}
NOT_OF_GIT = {"limit-403", "limit-429", "hang-before", "hang-after"}
"""GitHub's API has limits of that form, git has not; and git's patience is a quarter of an hour."""
WORLD: dict[str, tuple[str, ...]] = {
    "push": ("superseded",),
    "force-push": ("superseded",),
    "plain-merge": ("consensus",),
    "evil-merge": ("superseded",),
    "close": ("closed",),
    "close-and-reopen": ("closed", "consensus"),
    "merge": ("closed",),
    "retarget": ("superseded",),
    "delete-head": ("closed",),
    "rename": ("consensus",),
    "archive": ("closed",),
    "delete-fork": ("closed",),
    "withdraw": ("authorisation-withdrawn",),
    "uninstall": ("authorisation-withdrawn",),
    "suspend": ("authorisation-withdrawn",),
    "suspend-and-lift": ("authorisation-withdrawn", "consensus"),
    "delete-comment": ("consensus",),
}
"""What people do in the middle, and how the run may end then."""
OTHERS = ("tokens", "deaf", "kill-at-request")
"""All tokens end; nobody hears of the command; the worker is killed between a write's effect and its answer."""
KINDS = (
    *("kill", "dropped-after", "push", "kill", "restart", "plain-merge", "kill-at-request", "close", "stop", "flush"),
    *("kill", "error-after", "force-push", "term", "crash", "uninstall", "kill", "limit-403", "delete-comment", "deaf"),
    *("kill", "hang-after", "evil-merge", "stop", "outage", "archive", "kill-at-request", "tokens", "merge", "kill"),
    *("cut-answer", "retarget", "kill", "flush-and-kill", "rename", "dropped-before", "stop", "delete-head", "kill"),
    *("error-before", "suspend", "kill-at-request", "disconnect", "delete-fork", "limit-429", "kill", "withdraw"),
    *("hang-before", "close-and-reopen", "term", "outage", "plain-merge", "kill", "suspend-and-lift", "dropped-after"),
    *("delete-comment", "kill", "flush", "error-after", "crash"),
)
"""Sixty of them: seed 0 has the first."""


@dataclass(frozen=True)
class Strike:
    """One fault and its point: ``("step", "/1")``; ``("", "")`` stands for before the command."""

    kind: str
    at: tuple[str, str] = ("", "")
    target: str = ""
    times: int = 1
    """How many requests fail."""
    silent: bool = False
    """The App hears nothing of what people do."""
    seconds: float = 0.0
    """How long the store stays away."""

    def __str__(self) -> str:
        more = [self.target, f"x{self.times}" if self.times > 1 else "", "silent" if self.silent else ""]
        return " ".join(["-".join([self.kind, *self.at]).rstrip("-"), *(each for each in more if each)])


@dataclass(frozen=True)
class Plan:
    """All that a seed has happen."""

    seed: int
    strikes: tuple[Strike, ...]
    lease: float
    slow: int
    """The turn that takes a while, for what happens in its middle; 0: none."""

    @property
    def own_town(self) -> bool:
        """Whether it is told in a town of its own: what happens to a store happens to all that is in it."""
        return any(each.kind in STORE for each in self.strikes)

    @property
    def flushed(self) -> bool:
        """Whether the store forgets the run."""
        return any(each.kind.startswith("flush") for each in self.strikes)

    @property
    def ends(self) -> tuple[str, ...]:
        """How the run may end."""
        found = tuple(end for each in self.strikes for end in WORLD.get(each.kind, ()))
        late = any(each.kind in WORLD and _late(each.at) for each in self.strikes)
        return tuple(dict.fromkeys([*found, *(("consensus",) if late or not found else ())]))

    @property
    def goes_on(self) -> bool:
        """Whether the end is to be that of an undisturbed run, word for word."""
        same = {"plain-merge", "delete-comment"}
        return not self.flushed and all(each.kind not in WORLD or each.kind in same for each in self.strikes)

    @property
    def kills(self) -> int:
        """How many attempts may be ended in mid turn: each may ask an agent once more."""
        # A store that is away for longer than the lease ends an attempt, too, and so does a GitHub that is.
        return len(self.strikes) + sum(each.times for each in self.strikes if each.kind in WIRE)

    def __str__(self) -> str:
        return ", ".join(map(str, self.strikes)) + (f" (lease {self.lease:g} s)" if self.lease != SHORT_LEASE else "")


def _late(at: tuple[str, str]) -> bool:
    """Tell whether a run looks at the world no more after a point."""
    return at in {("step", f"/{STEPS - 1}"), ("turn", str(TURNS))}


def draw(seed: int) -> Plan:
    """Return a seed's plan."""
    random = Random(seed)  # noqa: S311 - it is to be the same each time
    first = _strike(KINDS[seed % len(KINDS)], random)
    strikes = [first]
    if random.random() < SECOND_SHARE and first.kind not in WORLD and not first.kind.startswith("flush"):
        strikes.append(_strike(random.choice(["kill", "dropped-after", "disconnect", "tokens", "plain-merge"]), random))
    dies = any(each.kind in {"kill", "kill-at-request", "term"} for each in strikes)
    real = dies and random.random() < REAL_SHARE
    slow = [int(each.at[1]) for each in strikes if each.at[0] == "turn"]
    return Plan(seed, tuple(strikes), REAL_LEASE if real else SHORT_LEASE, slow[0] if slow else 0)


def _strike(kind: str, random: Random) -> Strike:
    silent = random.random() < 0.4
    if kind in WIRE:
        targets = [each for each in TARGETS if each != "a push" or kind not in NOT_OF_GIT]
        return Strike(kind, target=random.choice(targets), times=random.choice([1, 1, 1, 2, 4]))
    if kind == "deaf":
        return Strike(kind)
    if kind == "kill-at-request":
        return Strike(kind, at=("request", str(random.randint(1, EFFECTS - 1))))
    if kind in WORLD or kind == "tokens":
        return Strike(kind, at=_world_point(kind, random), silent=silent)
    if kind == "term":
        return Strike(kind, at=("turn", str(random.randint(1, TURNS))))
    return Strike(kind, at=_point(random), seconds=random.uniform(0.2, 3.0))


def _point(random: Random) -> tuple[str, str]:
    """Draw any point of a run, early and late ones."""
    return random.choice(
        [
            ("step", f"/{random.randrange(STEPS)}"),
            ("before", str(random.randint(1, EFFECTS))),
            ("after", str(random.randint(1, EFFECTS))),
            ("turn", str(random.randint(1, TURNS))),
            ("committed", str(random.randint(1, PUSHES))),
            ("pushed", str(random.randint(1, PUSHES))),
        ]
    )


def _world_point(kind: str, random: Random) -> tuple[str, str]:
    """Draw a point at which people act. A comment can be deleted once the first round has written it."""
    first = 2 if kind == "delete-comment" else 0
    points = [
        ("step", f"/{random.randrange(first, STEPS)}"),
        ("turn", str(random.randint(first + 1, TURNS))),
        ("committed" if random.random() < 0.5 else "pushed", str(2 if first else random.randint(1, PUSHES))),
    ]
    # For a pull request from a fork nothing is pushed.
    return random.choice(points[:2] if kind == "delete-fork" else points)
