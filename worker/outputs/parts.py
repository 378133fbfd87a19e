"""The parts that comment and check run share: finding table, round table, a round in both sides' words, facts.

It owns layout, and where a link goes; sentences come from `words`, agents' prose through `markdown`. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from posixpath import basename

from worker.debate.findings import Finding, LedgerEntry, Position, Round, State, Turn
from worker.debate.flow import Tokens
from worker.debate.task import ChangedFile
from worker.outputs.markdown import Links, bullet, code, fenced, inline, permalink, safe
from worker.outputs.report import Report
from worker.outputs.story import AUTHOR, REVIEWER, agent, author_line, round_line, rounds
from worker.outputs.terms import count, duration, join_words, natural, short, shown_id, stopped, used
from worker.outputs.words import entries, left_to_a_person, outcome_word, unjudged

NAMED_FILES = 3
"""Files that the coverage line names; the others are counted."""
PUT_BACK = 20
"""Files that were put back in a round and are named; the others are counted."""


@dataclass(frozen=True, slots=True)
class Page:
    """A report on its way to one place: a comment, where GitHub links a bare commit, or a check run, where we must."""

    report: Report
    linked: bool = False
    """Commits are written as links."""
    raw: bool = False
    """Agents' prose is shown as fenced blocks: what is left where GitHub's parser reads a body otherwise than meant."""

    @property
    def home(self) -> str:
        """The repository's address."""
        return f"{self.report.task.server_url}/{self.report.task.repository}"

    def commit(self, sha: str) -> str:
        """Return a commit as people see it here."""
        return f"[{short(sha)}]({self.home}/commit/{sha})" if self.linked else short(sha)

    def compare(self, tip: str, number: int) -> str:
        """Return the link to the commits from the debated one to `tip`."""
        return f"[{count(number, 'commit')}]({self.home}/compare/{self.report.task.head_sha}...{tip})"

    def links(self, sha: str, more: frozenset[str] = frozenset()) -> Links:
        """Return what may be linked at a commit: the change's files, and those that the debate touched."""
        known = {each.path for each in self.report.task.files if each.status != "D"} | more
        # A path that is shown escaped has no address that we know.
        paths = frozenset(path for path in known if "\\" not in path)
        return Links(self.report.task.server_url, self.report.task.repository, sha, paths)

    @property
    def head(self) -> Links:
        """What may be linked at the debated commit."""
        return self.links(self.report.task.head_sha)

    def prose(self, text: str, links: Links, lead: str = "") -> str:
        """Return an agent's words, after the host's `lead`."""
        if self.raw:
            return "\n\n".join(filter(None, [lead.rstrip(), fenced(text) if text else ""]))
        return safe(text, links=links, lead=lead)

    def item(self, links: Links, lead: str, *texts: str) -> str:
        """Return an agent's words as an item of a list."""
        if self.raw:
            return f"- {lead.rstrip()}\n\n  " + fenced("\n".join(texts)).replace("\n", "\n  ")
        return bullet(lead, *(texts or ("",)), links=links)


# ---- Tables ---------------------------------------------------------------------------------------------------------


def finding_table(page: Page, limit: int | None = None) -> str:
    """Return the table of findings: id, title, severity and place, outcome and commit. At most `limit` rows."""
    rows = ["| | Finding | Outcome |", "|:--|:--|:--|"]
    for entry in entries(page.report)[:limit]:
        place = permalink(entry.location, page.head, shown=_name(entry.location), cell=True) if entry.location else ""
        about = ", ".join(filter(None, [entry.severity, place]))
        outcome = outcome_word(entry, page.report)
        outcome = outcome.replace("open", "**open**", 1) if outcome.startswith("open") else outcome
        proof = _proof(entry, page)
        cell = f"{outcome}<br>{proof}" if proof else outcome
        rows.append(f"| {shown_id(entry.id)} | {inline(entry.title)}<br>{about} | {cell} |")
    return "\n".join(rows)


def _name(location: str) -> str:
    return basename(location.rpartition(":")[0]) or location


def _proof(entry: LedgerEntry, page: Page) -> str:
    """Return the commit in which a finding was fixed, or where else its fix is."""
    if not (entry.state is State.FIXED or (unjudged(entry, page.report) and entry.commits)):
        return ""
    if page.report.pushed and entry.commits:
        return page.commit(entry.commits[-1][1])
    return "patch" if page.report.patch is not None else ""


def round_table(page: Page) -> str:
    """Return the table of rounds: number, what happened, commit."""
    rows = ["| Round | What happened | Commit |", "|:--|:--|:--|"]
    for each in rounds(page.report):
        end = _column(each, page)
        rows.append(f"| {each.number} | {round_line(each, page.report)} | {end} |" if end else _open_row(each, page))
    return "\n".join(rows)


def _open_row(each: Round, page: Page) -> str:
    return f"| {each.number} | {round_line(each, page.report)} | |"


def _column(each: Round, page: Page) -> str:
    if each.edited is None:
        under_way = page.report.status is None and each is page.report.record.rounds[-1]
        return "" if under_way else "none"
    if each.edited.gap or each.number in page.report.record.commit_gaps:
        return "not committed"
    if not each.edited.changed:
        return "none"
    if each.edited.commit and page.report.pushed:
        return page.commit(each.edited.commit)
    return "patch"


# ---- A round in their words -----------------------------------------------------------------------------------------


def told_rounds(report: Report) -> tuple[Round, ...]:
    """Return the rounds in which somebody said something."""
    return tuple(each for each in report.record.rounds if each.verdict is not None or each.section is not None)


def section(each: Round, page: Page) -> str:
    """Return one round in both sides' words, with the host's line about checks and commit below them."""
    return "\n\n".join([*_reviewed(each, page), *_answered(each, page)])


def _reviewed(each: Round, page: Page) -> list[str]:
    if each.verdict is None:
        return []
    name, links = agent(page.report, REVIEWER), _before(each, page)
    lead = f"**{name}** {'approved' if each.verdict.approved else 'did not approve'}. "
    now = {entry.id: entry for entry in entries(page.report)}
    said = sorted(each.verdict.findings, key=lambda finding: natural(finding.id))
    items = [_finding(finding, each, page, now=now.get(finding.id)) for finding in said]
    parts = [page.prose(each.verdict.summary, links, lead), "\n".join(filter(None, items))]
    if each.verdict.response_to_rebuttal.strip():
        parts.append(page.prose(each.verdict.response_to_rebuttal, links, f"**{name}** on the answers: "))
    return [part for part in parts if part]


def _finding(finding: Finding, each: Round, page: Page, *, now: LedgerEntry | None) -> str:
    """Return a finding as one verdict puts it: whole when it is new, else its status and what is said anew."""
    links, name = _before(each, page), shown_id(finding.id)
    before = _last_said(finding.id, each, page.report)
    if before is None:
        place = permalink(finding.location, links) if finding.location else ""
        lead = f"`{name}` {', '.join(filter(None, [finding.severity, place]))}: "
        more = [f"Suggestion: {finding.suggestion}"] if finding.suggestion.strip() else []
        return page.item(links, lead, finding.issue, *more)
    said = finding.issue if finding.issue != before.issue else ""
    word = _status(finding, each, page.report, entry=now)
    if finding.status == "resolved" and not said and (word == "resolved" or before.status != "open"):
        return ""
    # "deferred to the release" reads on from its word.
    joint = " " if said.startswith("to ") else ": "
    return page.item(links, f"`{name}` {word}{joint}", said) if said else f"- `{name}` {word}."


def _status(finding: Finding, each: Round, report: Report, *, entry: LedgerEntry | None) -> str:
    if finding.status == "deferred" and entry is not None and entry.state is State.OPEN:
        return f"open, since {agent(report, AUTHOR)} named no step outside this change"
    if finding.status == "resolved" and entry is not None and entry.settled == each.number:
        if entry.state is State.DEFERRED:
            return "deferred"
        if entry.state is State.CONCEDED:
            return "resolved, left to a person" if left_to_a_person(entry, report) else "resolved, conceded"
    return finding.status


def _last_said(finding_id: str, each: Round, report: Report) -> Finding | None:
    said = [
        finding
        for earlier in report.record.rounds
        if earlier.number < each.number and earlier.verdict is not None
        for finding in earlier.verdict.findings
        if finding.id == finding_id
    ]
    return said[-1] if said else None


def _answered(each: Round, page: Page) -> list[str]:
    if each.section is None:
        return []
    name, links = agent(page.report, AUTHOR), _after(each, page)
    intro = each.section.intro.strip()
    if not intro:
        intro = f"{author_line(each)}."
    parts = [page.prose(intro, links, f"**{name}** " if intro[:1].islower() else f"**{name}**: ")]
    positions = sorted(each.section.positions, key=lambda position: natural(position.id))
    parts.append("\n".join(_position(position, page, links) for position in positions))
    parts.append(_below(each, page))
    return [part for part in parts if part]


def _position(position: Position, page: Page, links: Links) -> str:
    lead = f"`{shown_id(position.id)}` **{position.word.value}**"
    return page.item(links, f"{lead}: ", position.text) if position.text.strip() else f"- {lead}"


def _below(each: Round, page: Page) -> str:
    """Return the host's own line below a round: what the checks said, what was put back, and the commit."""
    if each.edited is None:
        return ""
    said: list[str] = []
    if each.edited.checks:
        results = [
            f"{code(check.command)} {check.result}" + (f" ({inline(check.detail, cell=False)})" if check.detail else "")
            for check in each.edited.checks
        ]
        said.append(f"Checks: {', '.join(results)}.")
    if each.edited.refused:
        # What became of the file is said before the first one.
        named = [(code(one.path), one.reason.partition(":")[0]) for one in each.edited.refused[:PUT_BACK]]
        put_back = [f"{path} ({inline(reason, cell=False)})" for path, reason in named]
        more = len(each.edited.refused) - PUT_BACK
        put_back += [f"{more} more"] if more > 0 else []
        said.append(f"Put back: {', '.join(put_back)}.")
    if each.edited.gap:
        said.append(stopped(f"Not committed: {inline(each.edited.gap, cell=False)}"))
    if each.edited.commit and page.report.pushed:
        said.append(f"Commit {page.commit(each.edited.commit)}.")
    return " ".join(said)


def _before(each: Round, page: Page) -> Links:
    """Return what may be linked in the tree that a round's reviewer read."""
    return _at(each.number - 1, page)


def _after(each: Round, page: Page) -> Links:
    """Return what may be linked in the tree that a round's author left."""
    return _at(each.number, page)


def _at(number: int, page: Page) -> Links:
    edits = [each.edited for each in page.report.record.rounds if each.number <= number and each.edited]
    done = [each for each in edits if each.commit]
    if not (done and page.report.pushed):
        return page.head
    return page.links(done[-1].commit or "", frozenset(path for each in done for path in each.changed))


# ---- Facts ----------------------------------------------------------------------------------------------------------


def seats(report: Report) -> str:
    """Return who took part: agents, models, effort."""
    found = report.record.rounds
    reviewed = any(each.verdict is not None for each in found)
    wrote = any(each.section is not None for each in found)
    reviewer = f"{_seat(report, REVIEWER)} {'reviewed' if reviewed else 'gave no verdict'}"
    # A turn without a section is one that failed.
    idle = "gave no answer" if _turns(report, AUTHOR) else "had nothing to do"
    return f"{reviewer}, {_seat(report, AUTHOR)} {'wrote' if wrote else idle}"


def _seat(report: Report, seat: str) -> str:
    chosen = report.task.seats.get(seat)
    turns = [turn for turn in _turns(report, seat) if turn.used.model]
    model = turns[-1].used.model if turns else chosen.model if chosen else None
    effort = f"effort {code(chosen.effort)}" if chosen and chosen.effort else ""
    detail = ", ".join(filter(None, [inline(model or "", cell=False), effort]))
    return f"{agent(report, seat)} ({detail})" if detail else agent(report, seat)


def _turns(report: Report, seat: str) -> list[Turn]:
    found = [each.review if seat == REVIEWER else each.author for each in report.record.rounds]
    closing = report.record.closing if seat == REVIEWER else None
    return [turn for turn in (*found, closing) if turn is not None]


def time_of(report: Report) -> str:
    """Return how long the turns took, all together."""
    return duration(sum(turn.seconds for seat in (REVIEWER, AUTHOR) for turn in _turns(report, seat)))


def cost_of(report: Report, *seats: str) -> float:
    """Return what the turns of these seats cost, in US dollars."""
    return sum(turn.used.usd for seat in seats or (REVIEWER, AUTHOR) for turn in _turns(report, seat))


def used_by(report: Report) -> str:
    """Return the tokens that all turns used, in words; nothing where none were counted."""
    return used(sum((turn.used.tokens for seat in (REVIEWER, AUTHOR) for turn in _turns(report, seat)), Tokens()))


def unpriced(report: Report) -> str:
    """Return which models the table of prices does not have, for the reader of a cost; nothing where it has all."""
    turns = (turn for seat in (REVIEWER, AUTHOR) for turn in _turns(report, seat) if turn.used.unpriced)
    names = list(dict.fromkeys(inline(turn.used.model or "a model", cell=False) for turn in turns))
    return f"no price is known for {join_words(names)}, counted as the dearest" if names else ""


NARROWED = "The tree is too large: only the folders of changed files were read"
"""The coverage line's words for a tree above decisions.md 2.3's ceiling."""
TWINS = "Names differ in case or composition alone: "
"""The coverage line's words for files that not every disk can hold beside each other (threats.md, input 92)."""


def tree_notes(report: Report) -> tuple[str, ...]:
    """Return what the coverage line says of the tree, besides what was read of it; sentences without their stops."""
    twins = [code(each) for each in report.task.twins[:NAMED_FILES]]
    narrowed = [NARROWED] if report.task.narrowed else []
    return (*narrowed, TWINS + join_words(twins)) if twins else tuple(narrowed)


def read_files(report: Report) -> tuple[int, int]:
    """Return how many changed files were read, wholly or in part, and how many there are.

    Without a verdict nobody is told that anything was.
    """
    total = report.coverage.total
    if not any(each.verdict for each in report.record.rounds):
        return 0, total
    return total - sum(each.coverage == "skipped" for each in report.coverage.lacking), total


def unread(report: Report, coverage: str) -> str:
    """Return the files of one coverage, named up to `NAMED_FILES`: `` `uv.lock` (generated)``."""
    found = [each for each in report.coverage.lacking if each.coverage == coverage]
    named = [_file(each) for each in found[:NAMED_FILES]]
    more = len(found) - len(named)
    return join_words([*named, f"{more} more"]) if more > 0 else ", ".join(named)


def _file(each: ChangedFile) -> str:
    return f"{code(each.path)} ({inline(each.why, cell=False)})" if each.why else code(each.path)
