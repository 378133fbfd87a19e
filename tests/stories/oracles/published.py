"""O4 and O5: what stands on GitHub: check runs that end once, and texts in which nothing is alive.

A text is read as the tests of `worker/outputs` read one: by GitHub's own parser, and with nothing of what wrote it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from deploy.standin import CheckRun, Request
from tests.worker.outputs.judge import Seen

# ---- O4 -------------------------------------------------------------------------------------------------------------

CHECK = re.compile(r"/(?:repos/[^/]+/[^/]+|repositories/\d+)/check-runs(?:/(?P<id>\d+))?")


def check_runs(requests: Iterable[Request], runs: Iterable[CheckRun]) -> Iterator[str]:
    """Yield what is wrong with the ends of check runs, given all requests since before they were created."""
    ends = [each for each in requests if _completes(each)]
    for run in runs:
        name = f"check run {run.id} ({run.external_id})"
        mine = [each for each in ends if _of(each, run)]
        if run.status != "completed":
            yield f"{name} is {run.status} and not completed"
        if len({each.body.get("conclusion") for each in mine}) > 1:
            yield f"{name} got several conclusions"
        # One whose answer was lost may be sent once more: nobody knew.
        told = [each for each in mine if each.fault is None]
        if len(told) > 1:
            yield f"{name} was completed {len(told)} times"


def twins(runs: Iterable[CheckRun]) -> Iterator[str]:
    """Yield the names that several check runs have."""
    for name, times in Counter(run.external_id for run in runs).items():
        if times > 1:
            yield f"{times} check runs have the external id {name!r}"


def _completes(request: Request) -> bool:
    """Tell whether a request, which had its effect, completes a check run."""
    if request.method not in {"POST", "PATCH"} or not CHECK.fullmatch(request.path):
        return False
    done = request.status in {200, 201} or "after" in (request.fault or "")
    return done and isinstance(request.body, dict) and "conclusion" in request.body


def _of(request: Request, run: CheckRun) -> bool:
    match = CHECK.fullmatch(request.path)
    if match is not None and match["id"]:
        return int(match["id"]) == run.id
    return (request.body.get("external_id"), request.body.get("head_sha")) == (run.external_id, run.head_sha)


# ---- O5 -------------------------------------------------------------------------------------------------------------

RESULT = re.compile(r"## Debate: ")
"""How a comment with a debate's result begins (interface.md 7)."""
FACTS = re.compile(r"run `([0-9a-z]{8})`")
"""How a comment's last line names its run."""
MARKDOWN = {
    *("h2", "h3", "p", "ul", "ol", "li", "em", "strong", "del", "code", "pre", "blockquote", "a", "br", "hr"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}
"""What Markdown may become."""
OWN_HTML = {"details", "summary", "br"}
"""What may be written as HTML."""
CALL = re.compile(r"@[A-Za-z0-9][A-Za-z0-9-]*|#\d+|\bGH-\d+", re.IGNORECASE)
"""A mention, or a reference to an issue (docs.github.com, "Autolinked references and URLs")."""


def alive(text: str, is_ours: Callable[[str], bool]) -> Iterator[str]:
    """Yield what in a text is alive on GitHub and must not be; `is_ours` knows the addresses that may be linked to."""
    page = Seen.of(text)
    for tag in sorted(page.tags.keys() - MARKDOWN - OWN_HTML):
        yield f"<{tag}>"
    yield from page.faults
    # Without HTML the parser leaves what Markdown makes: what is there beyond it was written as HTML.
    written = page.tags - Seen.of(text, html=False).tags
    for tag in sorted(written.keys() & MARKDOWN - OWN_HTML):
        yield f"<{tag}> as HTML"
    for link in sorted(page.links):
        if not is_ours(link):
            yield f"a link to {link}"
    yield from calls("\n".join([*page.prose, *page.linked]))


def calls(words: str) -> Iterator[str]:
    """Yield the mentions and references of plain words."""
    yield from (f"a call, {call}" for call in CALL.findall(words))


def results(bodies: Iterable[str], runs: Iterable[str]) -> Iterator[str]:
    """Yield what is wrong with the number of result comments in one repository, given the ids of its runs.

    In this version what does not fit into a run's one comment goes to its check run, and to no further comment.
    """
    known, left = set(runs), 0
    found = Counter(FACTS.findall(body)[-1] if FACTS.search(body) else "" for body in bodies if RESULT.match(body))
    folded = found.pop("", 0)
    for run, times in found.items():
        left += run in known
        if run not in known or times > 1:
            yield f"{times} comments of run {run}"
    # An older debate's comment is folded, and names no run any more.
    if folded > len(known) - left:
        yield f"{folded} folded comments besides those of {left} of {len(known)} runs"
