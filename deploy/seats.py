"""Who sits in the seats of `codex-debate try`: whom the person named, else the agents that can be started here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bot.settings import Settings
from deploy.source import NoDebate
from worker import agents
from worker.isolation import Isolation
from worker.quarters import Lack, Programs
from worker.unwalled import isolation_of

BOTH = {"reviewer": "codex", "author": "claude"}
"""The seats where nobody chose and both can be started."""
WITHOUT = "codex-debate try --reviewer lint --author lint"


@dataclass(frozen=True, slots=True)
class Seats:
    """Who reviews, who writes, and a line about it where nobody chose."""

    reviewer: str
    author: str
    note: str = ""


async def seats(reviewer: str | None, author: str | None, settings: Settings, *, folder: Path) -> Seats:
    """Return the seats, each agent of which can be started. Raises `NoDebate` where one that was named cannot.

    `folder` is the machine's: what is laid out there to see whether agents can be isolated is used again.
    """
    look = _Look(settings, folder)
    chosen, note = {"reviewer": reviewer, "author": author}, ""
    if None in chosen.values():
        lack = await look.both()
        spare = dict.fromkeys(BOTH, "lint") if lack else BOTH
        if lack:
            where = "both seats" if reviewer is None and author is None else "the other seat"
            note = f"lint sits in {where}: {lack.sentence}."
        chosen = {seat: name or spare[seat] for seat, name in chosen.items()}
    for seat, name in chosen.items():
        if lack := await look.at(seat, str(name)):
            raise NoDebate(f"{lack.sentence}.\n{lack.repair}")
    return Seats(str(chosen["reviewer"]), str(chosen["author"]), note)


def tools(settings: Settings, folder: Path) -> Path:
    """Return where the pinned programs are kept from one trial to the next, if the sandbox's user can see them there.

    For a worker that is root that is another user, to whom root's home is closed.
    """
    return settings.state_dir / "tools" if Isolation.is_own_user() else folder / "tools"


class _Look:
    """What can be started here."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self._isolation = isolation_of(settings.model_copy(update={"state_dir": folder}))
        self._programs = Programs(settings, tools(settings, folder))

    async def both(self) -> Lack | None:
        """Return why codex and claude are not the default; None where they are."""
        lacks = [await self._programs.lack(agents.AGENTS[name]) for name in BOTH.values()]
        if found := [lack for lack in lacks if lack]:
            return Lack("; ".join(lack.sentence for lack in found), found[0].repair)
        return await self._open()

    async def at(self, seat: str, name: str) -> Lack | None:
        """Return why an agent cannot sit in a seat, and what to do; None where it can."""
        try:
            agent, _ = agents.find(name)
        except agents.UnknownAgent as error:
            return Lack(str(error), f"For example: {WITHOUT}")
        lack = await self._programs.lack(agent) or (await self._open() if agent.box else None)
        if lack is None:
            return None
        named = f"{agent.name} cannot be the {seat}: {lack.sentence}"
        if lack.predicate:
            named = f"the {seat}, {agent.name}, {lack.predicate}"
        return Lack(named, f"{lack.repair[:1].upper()}{lack.repair[1:]}, or try without any key: {WITHOUT}")

    async def _open(self) -> Lack | None:
        missing = await self._isolation.lack()
        return Lack(str(missing), missing.repair) if missing else None
