"""The safe Markdown writer: what agents wrote, as Markdown in which nothing is alive (decisions.md 6.2).

Agent prose becomes paragraphs, lists, emphasis, code, fences and quotations; headings become bold lines; HTML and
tables become fences; links and pictures become their words and the address as code; mentions and references are broken;
token shapes and hidden characters go. Each result is parsed once more with cmark-gfm, GitHub's own parser; where it is
not what was meant, the text is sent as one fenced block. The only links are permalinks made here. Pure, and the same
text gives the same bytes.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from cmarkgfm import cmark

from bot.redact import redact, visible
from worker.outputs import writer
from worker.outputs.writer import BREAKER, LONGEST_RUN, Block, Links, TooDeep, fence, indented, span

__all__ = ["BREAKER", "Links", "bullet", "code", "fenced", "holds", "inline", "literal", "permalink", "plain", "safe"]

SECTION = 32_000
"""Bytes of one text that are published (decisions.md 6.1: a section)."""
LINE = 1_000
"""Bytes of a text that stands on one line."""
READ = 8
"""Times the bytes that are published: of a longer text only so much is cleaned, which takes time."""
CUT = "…"
"""Stands where a text was cut."""


def safe(text: str, *, budget: int = SECTION, links: Links | None = None, lead: str = "") -> str:
    """Return prose as safe blocks. `lead` is the host's own Markdown, put before the first paragraph."""
    return writer.joined(_led(lead, _blocks(text, budget, links)))


def bullet(lead: str, text: str, *more: str, links: Links | None = None, budget: int = SECTION) -> str:
    """Return prose as one item of a list: the host's `lead`, the text, and further texts behind it, in its flow."""
    parts = _led(lead, _blocks(text, budget, links))
    for other in more:
        word, _, rest = other.partition(" ")
        parts = _followed(parts, _led(f"{word} ", _blocks(rest, budget, links)))
    return indented(writer.joined(parts), 2, "- ")


def inline(text: str, *, budget: int = LINE, links: Links | None = None, cell: bool = True) -> str:
    """Return prose on one line, for titles and, with its pipes escaped, for the cells of tables."""
    written = writer.inline(_prepared(text, budget), links, cell=cell)
    if _intact(written, links):
        return written
    return code(text, budget=budget, cell=cell)


def code(text: str, *, budget: int = LINE, cell: bool = False) -> str:
    """Return a value of one line (a path, a command, a branch) as a code span."""
    return span(" ".join(_prepared(text, budget).split("\n")), cell=cell)


def fenced(text: str, *, budget: int = SECTION, language: str = "text") -> str:
    """Return a text as one fenced block, word for word besides what must not be shown."""
    return fence(_prepared(text, budget), language)


def permalink(location: str, links: Links, *, shown: str | None = None, cell: bool = False) -> str:
    """Return a finding's place as a link to its first line, or as code where it is no line of a known file."""
    found = writer.LOCATION.fullmatch(visible(location))
    if found is None:
        return code(location if shown is None else shown, cell=cell)
    name = f"{found['path'] if shown is None else shown}:{found['first']}"
    if found["path"] not in links.paths:
        return code(name, cell=cell)
    return f"[{code(name, cell=cell)}]({links.url(found['path'], found['first'])})"


# docs.github.com, "Skipping workflow runs"; other servers take other names for `ci`, and a dash for the space.
_STEERS = r"skip[\s_-]{1,20}[\w-]{1,40}|no[\s_-]+(?:ci|actions)|[\w-]{1,40}[\s_-]{1,20}skip"
_SKIPS = rf"\[(?=\s*(?:{_STEERS})\s*\])|\*\*\*(?=NO_CI\*\*\*)"
# docs.github.com: "Creating a commit with multiple authors", "Creating a commit on behalf of an organization", "About
# status checks"; git-interpret-trailers(1).
_TRAILERS = r"\b(?:[a-z]+-by|on-behalf-of|(?:skip|request)-checks|debate-[a-z]+|(?:reviewed|authored)-with)(?=\s*:)"
_PLAIN = re.compile(
    rf"@(?=\S)|\#(?=\d)|\bGH-(?=\d)|:(?=//)|www(?=\.|\Z)|{_SKIPS}|{_TRAILERS}",
    re.IGNORECASE,
)


def plain(text: str, *, budget: int = LINE, lines: bool = False) -> str:
    """Return prose as plain text, for commit messages, annotations and titles; on one line unless `lines`.

    Markup goes, its words stay. Mentions, references, addresses, trailers and words that steer CI are broken by an
    invisible character; no line begins with ``#``, which git takes for a comment.
    """
    written = [" ".join(line.split()) for line in writer.words(_prepared(text, budget))]
    if not lines:
        # First one line, then broken: what steers CI may begin on one line and end on the next.
        written = [" ".join(written)]
    written = [_PLAIN.sub(lambda found: found[0] + BREAKER, line) for line in written]
    return "\n".join(BREAKER + line if line.startswith("#") else line for line in written)


def literal(value: str, *, budget: int = LINE) -> str:
    """Return a value of one line (a path, a command, a branch) as plain text: as `plain`, and nothing in it is markup.

    As prose, ``src/__init__.py`` would be ``src/init.py``.
    """
    return plain(code(value, budget=budget), budget=2 * budget)


# ---- Preparing ------------------------------------------------------------------------------------------------------

_RUNS = re.compile(rf"`{{{LONGEST_RUN + 1},}}|~{{{LONGEST_RUN + 1},}}")


def _prepared(text: str, budget: int) -> str:
    """Return text without hidden characters, secrets and long runs, cut to `budget` bytes."""
    seen = text[: READ * budget]
    cleaned = _RUNS.sub(lambda run: run[0][:LONGEST_RUN], redact(visible(seen))).strip("\n")
    raw = cleaned.encode()
    if len(raw) <= budget:
        return cleaned if seen == text else f"{cleaned} {CUT}"
    kept = raw[:budget].decode("utf-8", "ignore")
    # At the end of a word, where there is one in reach.
    return kept[: max(kept.rfind(" "), kept.rfind("\n"), len(kept) - 200)].rstrip() + f" {CUT}"


def _blocks(text: str, budget: int, links: Links | None) -> list[Block]:
    text = _prepared(text, budget)
    try:
        parts = writer.blocks(text, links)
    except TooDeep:
        return [Block(fence(text, "text"))]
    return parts if _intact(writer.joined(parts), links) else [Block(fence(text, "text"))]


def _led(lead: str, parts: list[Block]) -> list[Block]:
    """Return blocks with the host's words before them: in the first paragraph, else in one of their own."""
    if not lead:
        return parts
    if parts and parts[0].flows:
        return [replace(parts[0], text=lead + parts[0].text), *parts[1:]]
    return [Block(lead.rstrip(), "lead" if parts else "paragraph"), *parts]


def _followed(parts: list[Block], more: list[Block]) -> list[Block]:
    """Return blocks with others behind them, in one paragraph where both are words."""
    if not (parts and more and parts[-1].flows and more[0].flows):
        return [*parts, *more]
    before = parts[-1].text
    stop = "." if re.search(r"[\w`)\]\"*]$", before) and not before.endswith(("**", ".`")) else ""
    return [*parts[:-1], replace(more[0], text=f"{before}{stop} {more[0].text}"), *more[1:]]


# ---- Checking -------------------------------------------------------------------------------------------------------

_EXTENSIONS = ("table", "autolink", "tagfilter", "strikethrough", "tasklist")
_ALLOWED = frozenset({"p", "ul", "ol", "li", "em", "strong", "del", "code", "pre", "blockquote", "a"})
_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9]*|!)([^>]*)>")
_MUTE = re.compile(r"<code[^>]*>.*?</code>|<[^>]*>", re.DOTALL)
_CALLS = re.compile(r"@[A-Za-z0-9]|#\d|\bGH-\d|://|www\.", re.IGNORECASE)
_BEFORE, _AFTER = "<details>\n<summary>s</summary>\n", "</details>\n<p>end</p>\n"


def html_of(text: str) -> str:
    """Return Markdown as GitHub's parser renders it, raw HTML included."""
    options = cmark.Options.CMARK_OPT_UNSAFE | cmark.Options.CMARK_OPT_FOOTNOTES
    return str(cmark.markdown_to_html_with_extensions(text, options=options, extensions=_EXTENSIONS))


def _intact(text: str, links: Links | None) -> bool:
    """Return whether GitHub's parser sees nothing but the subset in a text, and nothing of it reaches past its end."""
    rendered = html_of(f"{_BEFORE}\n{text}\n\n</details>\n\nend\n")
    if not (rendered.startswith(_BEFORE) and rendered.endswith(_AFTER)):
        return False
    inner = rendered[len(_BEFORE) : -len(_AFTER)]
    blob = f' href="{html.escape(links.blob)}' if links is not None else None
    stack: list[str] = []
    for end, name, rest in _TAG.findall(inner):
        if name not in _ALLOWED or (name == "a" and not end and not (blob and rest.startswith(blob))):
            return False
        if not end:
            stack.append(name)
        elif not stack or stack.pop() != name:
            return False
    return not stack and not _CALLS.search(html.unescape(_MUTE.sub(" ", inner)))


def holds(body: str, skeleton: Mapping[str, int] | Iterable[str]) -> bool:
    """Return whether a whole body, as GitHub's parser reads it, has exactly the host's own elements, well nested.

    `skeleton` counts ``h2``, ``h3``, ``table`` and ``details``; anything else that only the host may write is foreign.
    """
    wanted = Counter(skeleton)
    seen: Counter[str] = Counter()
    stack: list[str] = []
    for end, name, _ in _TAG.findall(html_of(body)):
        if name in {"br", "hr", "img", "input"}:
            seen[name] += 1
        elif not end:
            stack.append(name)
            seen[name] += 1
        elif not stack or stack.pop() != name:
            return False
    watched = ("h1", "h2", "h3", "h4", "h5", "h6", "table", "details", "hr", "img", "input", "script", "section", "!")
    return not stack and all(seen[name] == wanted[name] for name in watched) and seen["summary"] == wanted["details"]
