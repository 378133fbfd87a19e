"""The writer of the safe subset: parsed agent prose back into Markdown in which nothing is alive.

It owns the way from markdown-it's tokens to paragraphs, lists, emphasis, code, fences and quotations, and the escaping
of everything that would become a link, a table, a mention or a reference. It writes no sentence of the host's own, and
trusts no text: what it returns is checked again by `markdown`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from urllib.parse import quote

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode

from bot import commonmark
from bot.redact import redact, visible

BREAKER = "\N{ZERO WIDTH SPACE}"
"""Stands after ``@`` and ``#`` so that GitHub sees neither a mention nor a reference: an entity would be decoded first
(docs.github.com, "Autolinked references and URLs"; github.md A10)."""
LONGEST_RUN = 8
"""Backticks or tildes in a row. cmark clamps fences at 255 and code spans at 80: a longer one breaks out."""
NESTING = 16
"""Levels of quotations and lists. The parser drops what is deeper than 20; such a text is shown as it is."""
LANGUAGE = re.compile(r"[A-Za-z0-9_+#.-]{1,20}")
RENDERED = frozenset({"suggestion", "mermaid", "geojson", "topojson", "stl", "math"})
"""Languages of fences that GitHub does not show but runs (docs.github.com, "Creating diagrams"; suggestions)."""


class TooDeep(ValueError):  # noqa: N818 - it says what the text is, and is answered by a fence
    """The text nests deeper than the parser reads."""


@dataclass(frozen=True, slots=True)
class Links:
    """What the host may link to: files of one commit. Where a text names a line of one of `paths`, it gets a link."""

    server: str
    repository: str
    sha: str
    paths: frozenset[str] = frozenset()

    def url(self, path: str, first: str, last: str = "") -> str:
        """Return the permalink of a line, or of a range of lines."""
        lines = f"#L{first}-L{last}" if last and last != first else f"#L{first}"
        return f"{self.blob}{quote(path, safe='/')}{lines}"

    def of(self, location: str) -> str:
        """Return the permalink of a finding's place, all its lines; empty where it is no line of a known file."""
        found = LOCATION.fullmatch(location)
        if found is None or found["path"] not in self.paths:
            return ""
        return self.url(found["path"], found["first"], found["last"] or "")

    @property
    def blob(self) -> str:
        """The beginning of every permalink."""
        return f"{self.server}/{self.repository}/blob/{self.sha}/"


LOCATION = re.compile(r"(?P<path>[^\s:][^:\n]*):(?P<first>[1-9]\d{0,6})(?:-(?P<last>[1-9]\d{0,6}))?(?::\d{1,6})?")
"""``path:line``, ``path:first-last`` or ``path:line:column``."""


@dataclass(frozen=True, slots=True)
class Block:
    """A written block."""

    text: str
    kind: str = "fence"
    """The parser's word for it."""

    @property
    def flows(self) -> bool:
        """Whether words may be put before or behind it."""
        return self.kind == "paragraph"


@cache
def parser() -> MarkdownIt:
    """Return the parser of agent prose: CommonMark, with tables and strike-through, as GitHub reads it.

    Definitions of links stay words, where they stand: an address would be shown again at each of its uses.
    """
    return commonmark.parser().enable("strikethrough").disable("reference")


def blocks(text: str, links: Links | None) -> list[Block]:
    """Return prepared prose as blocks. Raises `TooDeep`."""
    tokens = parser().parse(text)
    if any(token.level >= NESTING for token in tokens):
        raise TooDeep
    return _blocks(SyntaxTreeNode(tokens).children, _Ink(text.split("\n"), links))


def joined(parts: Iterable[Block]) -> str:
    """Return blocks as one text."""
    return "\n\n".join(part.text for part in parts)


def fence(text: str, language: str = "") -> str:
    """Return a text as a fenced block that it cannot leave. Runs of backticks are capped by whoever prepared it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    mark = "`" * max(3, longest + 1)
    body = text if text.endswith("\n") else f"{text}\n"
    return f"{mark}{language}\n{body}{mark}"


def span(text: str, *, cell: bool = False) -> str:
    """Return a text as a code span on one line."""
    text = " ".join(text.split("\n")).replace("\t", " ")
    if cell:
        # A pipe ends a cell unless exactly one backslash escapes it; one of the text's own would take that one's place.
        text = re.sub(r"(?<!\\)((?:\\\\)*)\\\|", rf"\g<1>\\{BREAKER}|", text).replace("|", "\\|")
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    mark = "`" * (longest + 1)
    if text.startswith("`") or text.endswith("`") or (text.strip(" ") and text[0] == text[-1] == " "):
        text = f" {text} "
    return f"{mark}{text or ' '}{mark}"


def indented(text: str, width: int, first: str = "") -> str:
    """Return a text with `first` before its first line and `width` spaces before the others."""
    head, *rest = text.split("\n")
    return "\n".join([first + head, *((" " * width + line) if line else "" for line in rest)])


# ---- Blocks ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Ink:
    lines: list[str]
    links: Links | None
    cell: bool = False
    bold: bool = False


def _blocks(nodes: Sequence[SyntaxTreeNode], ink: _Ink) -> list[Block]:
    written: list[Block] = []
    alternate = False
    for before, node in zip([None, *nodes], nodes, strict=False):
        # Two lists side by side stay two only with different marks.
        alternate = before is not None and before.type == node.type and node.type in _LISTS and not alternate
        block = Block(_block(node, ink, alternate=alternate), node.type)
        if block.text:
            written.append(block)
    return written


_LISTS = frozenset({"bullet_list", "ordered_list"})


def _block(node: SyntaxTreeNode, ink: _Ink, *, alternate: bool) -> str:
    text = ""
    match node.type:
        case "paragraph":
            text = _start(_inline(node, ink))
        case "heading":
            words = _inline(node, replace(ink, bold=True))
            text = f"**{words}**" if words else ""
        case "bullet_list":
            text = _list(node, ink, "*" if alternate else "-")
        case "ordered_list":
            text = _list(node, ink, ")" if alternate else ".")
        case "blockquote":
            inner = joined(_blocks(node.children, ink))
            text = "\n".join(f"> {line}".rstrip() for line in inner.split("\n")) if inner else ""
        case "fence":
            language = node.info.strip().split(" ")[0]
            known = LANGUAGE.fullmatch(language) and language.lower() not in RENDERED
            text = fence(node.content, language if known else "")
        case "code_block" | "html_block":
            text = fence(node.content.rstrip("\n"))
        case "table":
            first, last = node.map or (0, 0)
            text = fence("\n".join(re.sub(r"^[ >]*", "", line) for line in ink.lines[first:last]))
        # Nothing else is left but a thematic break: it says nothing, and the subset has none.
    return text


def _list(node: SyntaxTreeNode, ink: _Ink, mark: str) -> str:
    ordered = node.type == "ordered_list"
    start = int(node.attrs.get("start", 1)) if ordered else 1
    tight = all(each.hidden for item in node.children for each in item.children if each.type == "paragraph")
    items: list[str] = []
    for number, item in enumerate(node.children, start):
        # Nine digits are the most that CommonMark reads as a number.
        lead = f"{min(number, 999_999_999)}{mark} " if ordered else f"{mark} "
        text, before = "", ""
        for part in _blocks(item.children, ink):
            close = tight and (before, part.kind) == ("paragraph", "bullet_list")
            text += f"{'' if not text else chr(10) if close else chr(10) * 2}{part.text}"
            before = part.kind
        items.append(indented(text, len(lead), lead).rstrip())
    return ("\n" if tight else "\n\n").join(items)


_STARTS = re.compile(
    r"(?P<mark>[-+=>](?=[\s=-]|$)|>|#(?=#{0,5}(?:\s|$))|\|)|(?P<number>\d{1,9})(?P<point>[.)])(?=\s|$)",
)


def _start(text: str) -> str:
    """Return a paragraph whose first characters do not make it a list, a heading, a quotation or a rule."""
    text = text.strip(" ")
    found = _STARTS.match(text)
    if found is None:
        return text
    return f"\\{text}" if found["mark"] else f"{found['number']}\\{text[found.end('number') :]}"


# ---- Words ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Piece:
    kind: str
    """``text``, ``code``, ``open`` or ``close``."""
    text: str


_MARKS = {"em": "*", "strong": "**", "s": "~~"}


def inline(text: str, links: Links | None, *, cell: bool) -> str:
    """Return prepared prose on one line, with emphasis and code, without blocks: also where it begins a paragraph."""
    tokens = parser().parseInline(" ".join(text.split()))
    return _start(_written(_pieces(tokens[0].children or []), _Ink([], links, cell=cell)).strip())


def words(text: str) -> list[str]:
    """Return prepared prose as plain lines: what a reader of the rendered text would read."""
    lines: list[str] = []
    for token in parser().parse(text):
        if token.type == "inline":
            pieces = _pieces(token.children or [])
            lines.append(_spelled("".join(piece.text for piece in pieces if piece.kind in {"text", "code"})))
        elif token.type in {"fence", "code_block", "html_block"}:
            lines.extend(token.content.rstrip("\n").split("\n"))
    return [line for line in lines if line.strip()]


def _inline(node: SyntaxTreeNode, ink: _Ink) -> str:
    tokens = [token for child in node.children for token in (child.to_tokens()[0].children or [])]
    return _written(_pieces(tokens), ink)


def _pieces(tokens: Sequence[Token]) -> list[_Piece]:
    """Return tokens as text, code and emphasis. Links and pictures become their words and the address as code."""
    pieces: list[_Piece] = []
    targets: list[tuple[str, int]] = []
    for token in tokens:
        match token.type:
            case "text" | "text_special":
                pieces.append(_Piece("text", token.content))
            case "softbreak" | "hardbreak":
                pieces.append(_Piece("text", " "))
            case "code_inline" | "html_inline":
                pieces.append(_Piece("code", token.content))
            case "image":
                alt = f"{token.content} (" if token.content else "("
                pieces += [_Piece("text", alt), _Piece("code", str(token.attrs.get("src", ""))), _Piece("text", ")")]
            case "link_open":
                targets.append((str(token.attrs.get("href", "")), len(pieces)))
            case "link_close":
                href, start = targets.pop()
                pieces[start:] = _link(pieces[start:], href)
            case kind:
                name, _, side = kind.rpartition("_")
                pieces.append(_Piece(side, name))
    return pieces


def _link(shown: list[_Piece], href: str) -> list[_Piece]:
    said = "".join(piece.text for piece in shown if piece.kind in {"text", "code"})
    if said in {href, href.removeprefix("mailto:")} or not said.strip():
        return [_Piece("code", said.strip() or href)]
    return [*shown, _Piece("text", " ("), _Piece("code", href), _Piece("text", ")")]


class _Line:
    """A line that is being written, piece by piece."""

    def __init__(self, ink: _Ink) -> None:
        self.ink = ink
        self.out: list[str] = []
        self.stack: list[tuple[str, int]] = []

    def add(self, piece: _Piece) -> None:
        """Write a piece. Text comes whole: two pieces of it never stand side by side."""
        match piece.kind:
            case "text":
                self.out.append(_prose(piece.text, self.ink))
            case "code":
                self.out.append(_code(redact(piece.text), self.ink))
            case "open" if piece.text in _MARKS:
                again = (piece.text == "strong" and self.ink.bold) or any(name == piece.text for name, _ in self.stack)
                self.stack.append((piece.text, len(self.out)))
                self.out.append("" if again else _MARKS[piece.text])
            case "close" if piece.text in _MARKS and self.stack:
                name, start = self.stack.pop()
                if not "".join(self.out[start + 1 :]).strip():
                    self.out[start] = ""
                elif self.out[start]:
                    self.out.append(_MARKS[name])


def _written(pieces: list[_Piece], ink: _Ink) -> str:
    line = _Line(ink)
    for kind, group in groupby(pieces, key=lambda piece: piece.kind):
        if kind == "text":
            line.add(_Piece("text", "".join(piece.text for piece in group)))
        else:
            for piece in group:
                line.add(piece)
    return _apart(line.out)


def _apart(fragments: Iterable[str]) -> str:
    """Return fragments as one text: two code spans do not run into one, and no ``!`` makes a link a picture."""
    text = ""
    for fragment in fragments:
        if text.endswith("`") and fragment.startswith("`"):
            text += " "
        elif text.endswith("!") and fragment.startswith("["):
            text = f"{text[:-1]}\\!"
        text += fragment
    return text


def _code(text: str, ink: _Ink) -> str:
    found = LOCATION.fullmatch(text)
    if found is not None and ink.links is not None and found["path"] in ink.links.paths:
        url = ink.links.url(found["path"], found["first"], found["last"] or "")
        return f"[{span(text, cell=ink.cell)}]({url})"
    return span(text, cell=ink.cell) if text.strip() else ""


_SPECIAL = re.compile(
    r"""(?P<url>(?<![A-Za-z0-9])(?:https?|ftp)://[^\s<>`]+|(?<![A-Za-z0-9])www\.[^\s<>`]+)"""
    # A commit is linked by 7 to 40 hex digits; a word or a number that only looks like one stays as it is.
    r"""|(?P<sha>\b(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{7,40}\b)"""
    r"""|(?P<place>(?<![\w.@+~/-])[\w.@+~/-]*+(?<=\w):[1-9]\d{0,6}(?:-[1-9]\d{0,6})?(?![\w:-]))""",
    re.IGNORECASE,
)
_TAIL = ".,;:!?'\"*_~)]"


def _prose(text: str, ink: _Ink) -> str:
    """Return plain words so that nothing in them is alive; addresses, commits and places become code or permalinks."""
    text = _spelled(text)
    out: list[str] = []
    at = 0
    for found in _SPECIAL.finditer(text):
        shown = found[0]
        if found["url"]:
            shown = shown.rstrip(_TAIL)
        place = found["place"] and LOCATION.fullmatch(shown)
        if place and (ink.links is None or place["path"] not in ink.links.paths):
            continue
        out += [_escaped(text[at : found.start()], ink), _code(shown, ink)]
        at = found.start() + len(shown)
    out.append(_escaped(text[at:], ink))
    return _apart(out)


def _spelled(text: str) -> str:
    """Return what entities and backslashes spelled, cleaned anew: a hidden character, an end of a line, a secret."""
    return redact(re.sub(r"[\t\n]", " ", visible(text)))


_ALIVE = re.compile(
    r"(?P<escape>[\\`~\[]"
    r"|(?<!\s)\*|\*(?!\s)|\A\*"
    r"|(?<![^\W_])_|_(?![^\W_])"
    r"|<(?![\s\d=])"
    r"|\$(?=\S|\Z))"
    r"|(?P<entity>&(?=[#A-Za-z]|\Z))"
    r"|(?P<broken>@(?=\S|\Z)|\#(?=\d|\Z)|\bGH-(?=\d|\Z)|:(?=//)|www(?=\.|\Z))",
    re.IGNORECASE,
)


def _escaped(text: str, ink: _Ink) -> str:
    def dead(found: re.Match[str]) -> str:
        if found["escape"]:
            return "\\" + found[0]
        return "&amp;" if found["entity"] else found[0] + BREAKER

    text = _ALIVE.sub(dead, text)
    return text.replace("|", "\\|") if ink.cell else text
