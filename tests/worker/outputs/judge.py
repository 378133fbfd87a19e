"""What GitHub sees in a text that we publish: an oracle that knows nothing of how the text was written.

A text is rendered by cmark-gfm, GitHub's own parser, with the extensions that GitHub has on, and its HTML is read by
the standard library's parser. Nothing of the writer is used here, so that both cannot be wrong in the same way.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass, field
from html.parser import HTMLParser

from cmarkgfm import cmark

EXTENSIONS = ("table", "strikethrough", "autolink", "tagfilter", "tasklist")
"""What GitHub Flavored Markdown adds to CommonMark (github.github.com/gfm)."""
PROSE = frozenset({"p", "ul", "ol", "li", "em", "strong", "del", "code", "pre", "blockquote"})
"""What an agent's words may become (decisions.md 6.2)."""
EMPTY = frozenset({"br", "hr", "img", "input"})
"""Elements without an end."""
ATTRIBUTES = {
    "a": {"href"},
    "code": {"class"},
    "ol": {"start"},
    "th": {"align"},
    "td": {"align"},
    "details": {"open"},
}
RUN = re.compile(r"language-(?:suggestion|mermaid|geojson|topojson|stl|math)\b", re.IGNORECASE)
"""Fences that GitHub runs and does not show (docs.github.com: "Creating diagrams", "Writing mathematical expressions").
"""
BREAKER = "\N{ZERO WIDTH SPACE}"
"""The one hidden character that we write ourselves."""

CALLS = re.compile(r"@[A-Za-z0-9]|#[0-9]|\bGH-[0-9]|://|\bwww\.", re.IGNORECASE)
"""What tells somebody, refers to an issue or becomes a link (docs.github.com, "Autolinked references and URLs")."""
HEX = frozenset("0123456789abcdef")


def commits(text: str) -> list[str]:
    """Return the words of a text that become links to commits: 7 to 40 hex digits.

    A commit's id has letters and figures in it, as good as always; a number or a word alone is none.
    """
    words = (word for word in re.split(r"\W+", text) if 7 <= len(word) <= 40 and HEX.issuperset(word.lower()))
    return [word for word in words if not word.isdigit() and not word.isalpha()]


def calls(text: str) -> list[str]:
    """Return what in a plain text, such as a title or a commit's message, calls somebody or refers to something."""
    return CALLS.findall(text)


def hidden(text: str) -> list[str]:
    """Return the characters of a text that a reader cannot see, besides ends of lines, tabs and our own."""
    # By their kind in Unicode, and the letters that have no shape.
    unseen = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    shapeless = set("\u115f\u1160\u17b4\u17b5\u3164\uffa0\u034f") | {chr(each) for each in range(0xFE00, 0xFE0E)}
    ours = {"\n", "\t", BREAKER}
    return [
        ascii(each) for each in text if each not in ours and (unicodedata.category(each) in unseen or each in shapeless)
    ]


@dataclass
class Seen(HTMLParser):
    """What stands in a rendered page."""

    structure: list[str] = field(default_factory=list)
    """The elements that only the host may write, in their order, with where they end."""
    tags: Counter[str] = field(default_factory=Counter)
    """How often each element begins."""
    links: set[str] = field(default_factory=set)
    linked: list[str] = field(default_factory=list)
    """The words of links."""
    prose: list[str] = field(default_factory=list)
    """The words that stand outside of code and links: GitHub looks for calls in these."""
    text: str = ""
    """All words."""
    faults: list[str] = field(default_factory=list)
    _open: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    @classmethod
    def of(cls, markdown: str, *, html: bool = True) -> Seen:
        """Return what GitHub's parser makes of a text; without its `html`, of its Markdown alone."""
        seen = cls()
        options = cmark.Options.CMARK_OPT_FOOTNOTES | (cmark.Options.CMARK_OPT_UNSAFE if html else 0)
        seen.feed(str(cmark.markdown_to_html_with_extensions(markdown, options=options, extensions=EXTENSIONS)))
        seen.close()
        seen.faults += [f"<{each}> is not closed" for each in seen._open]
        return seen

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = ATTRIBUTES.get(tag, set())
        self.faults += [f"<{tag} {name}={value}>" for name, value in attrs if name not in known]
        self.faults += [f"a fence of {value}" for _, value in attrs if tag == "code" and RUN.match(value or "")]
        self.tags[tag] += 1
        if tag == "a":
            self.links.add(dict(attrs).get("href") or "")
        elif tag not in PROSE:
            self.structure.append(tag)
        if tag not in EMPTY:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """The parser writes `<br />` where Markdown makes one; in HTML the stroke of any other element says nothing."""
        self.handle_starttag(tag, attrs)
        if tag in EMPTY:
            self.structure[-1] += "/"

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.faults.append(f"</{tag}> closes nothing")
        elif tag not in PROSE and tag != "a":
            self.structure.append(f"/{tag}")

    def handle_data(self, data: str) -> None:
        self.text += data
        if not {"code", "pre"} & set(self._open):
            (self.linked if "a" in self._open else self.prose).append(data)

    def handle_comment(self, data: str) -> None:
        self.faults.append(f"the comment {data!r}")

    def handle_decl(self, decl: str) -> None:
        self.faults.append(f"the declaration {decl!r}")

    def handle_pi(self, data: str) -> None:
        self.faults.append(f"the instruction {data!r}")

    def unknown_decl(self, data: str) -> None:
        self.faults.append(f"the section {data!r}")

    @property
    def calls(self) -> set[str]:
        """What its prose calls. GitHub reads it node by node, and so do we."""
        return {each for words in self.prose for each in (*calls(words), *commits(words))}


def alive(seen: Seen, *, ours: Seen, links: re.Pattern[str]) -> list[str]:
    """Return what is alive in a page, or hidden in it, that is not the host's own; nothing where all is well.

    The host's own is what stands in `ours`, the same page about words that mean no harm, and links of this shape.
    """
    faults = [*seen.faults, *(f"hidden: {each}" for each in hidden(seen.text))]
    faults += [f"a link to {each}" for each in seen.links - ours.links if not links.fullmatch(each)]
    faults += [f"it calls {each}" for each in seen.calls - ours.calls]
    return faults + [f"an element {each}" for each in set(seen.structure) - set(ours.structure)]
