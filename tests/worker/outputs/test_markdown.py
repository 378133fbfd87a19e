"""What agents wrote is published as Markdown in which nothing is alive (threats.md, inputs 140 to 156)."""

from __future__ import annotations

import html
import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.worker.outputs.judge import hidden
from worker.outputs.markdown import (
    BREAKER,
    Links,
    bullet,
    code,
    fenced,
    holds,
    html_of,
    inline,
    literal,
    permalink,
    plain,
    safe,
)

LINKS = Links("https://github.com", "o/r", "a" * 40, frozenset({"src/a.py", "src/b c.py"}))
BLOB = f"https://github.com/o/r/blob/{'a' * 40}"


# ---- The subset -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "One paragraph with *emphasis*, **weight**, ~~a mistake~~ and `code`.",
        "One.\n\nTwo.",
        "- a\n- b\n  - c",
        "1. a\n2. b",
        "3. a\n4. b",
        "> quoted",
        "```python\nprint(1)\n```",
        "- a\n\n  ```\n  x\n  ```\n\n- b",
        "snake_case, 2 * 3, a - b, x > y, 50 %, “quotes”, it's",
        "",
    ],
)
def test_the_subset_stays_as_it_is(text: str) -> None:
    assert safe(text) == text


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("# Title", "**Title**"),
        ("Title\n===\n\ntext", "**Title**\n\ntext"),
        ("### A **bold** one", "**A bold one**"),
        ("* a\n* b", "- a\n- b"),
        ("a\nb", "a b"),
        ("a  \nb", "a b"),
        ("a\n\n---\n\nb", "a\n\nb"),
        ("    indented", "```\nindented\n```"),
        ("~~~js\nx\n~~~", "```js\nx\n```"),
        ("```\nno end", "```\nno end\n```"),
        ("````\n```\n````", "````\n```\n````"),
        ("- a\n\n* b", "- a\n\n* b"),
        ("[text](https://e.example/x)", "text (`https://e.example/x`)"),
        ("<https://e.example/x>", "`https://e.example/x`"),
        ("see https://e.example/x.", "see `https://e.example/x`."),
        ("see www.e.example", "see `www.e.example`"),
        ("![alt](https://e.example/x.png)", "alt (`https://e.example/x.png`)"),
        ("a <b>c</b>", "a `<b>`c`</b>`"),
        ("<h1>x</h1>", "```\n<h1>x</h1>\n```"),
        ("a | b\n--|--\n1 | 2", "```\na | b\n--|--\n1 | 2\n```"),
        ("commit 5d4463e4d4 did it", "commit `5d4463e4d4` did it"),
    ],
)
def test_what_is_outside_the_subset_is_rewritten(text: str, written: str) -> None:
    assert safe(text) == written


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("@user", f"@{BREAKER}user"),
        ("@org/team", f"@{BREAKER}org/team"),
        ("&commat;user &#64;user", f"@{BREAKER}user @{BREAKER}user"),
        ("mail me@e.example", f"mail me@{BREAKER}e.example"),
        ("Fixes #1", f"Fixes #{BREAKER}1"),
        ("closes o/r#2", f"closes o/r#{BREAKER}2"),
        ("GH-1", f"GH-{BREAKER}1"),
        ("\\# x", "\\# x"),
        ("\\- x", "\\- x"),
        ("1\\. x", "1\\. x"),
        ("\\> x", "\\> x"),
        ("[ ] todo", "\\[ ] todo"),
        ("- [x] done", "- \\[x] done"),
        ("> [!WARNING]\n> x", "> \\[!WARNING] x"),
        ("a < b, a <b", "a < b, a \\<b"),
        ("&lt;b&gt; &amp;amp;", "\\<b> &amp;amp;"),
        ("costs $5 to $6", "costs \\$5 to \\$6"),
        ("a_ _b_", "a\\_ *b*"),
    ],
)
@pytest.mark.threat(140, 141, 142)
def test_what_would_come_alive_is_broken_or_escaped(text: str, written: str) -> None:
    assert safe(text) == written


def test_code_stays_code_to_the_letter() -> None:
    assert safe("`@user #1 <b> [x](y) a|b \\`") == "`@user #1 <b> [x](y) a|b \\`"
    assert safe("`` a`b ``") == "``a`b``"
    assert safe("`` `a` ``") == "`` `a` ``"


def test_code_side_by_side_does_not_run_together() -> None:
    assert safe("<b><i>x") == "`<b>` `<i>`x"


@pytest.mark.threat(152)
@pytest.mark.parametrize("language", ["suggestion", "mermaid", "geojson", "math", "a b`c", "x" * 40])
def test_a_fence_that_github_would_run_loses_its_language(language: str) -> None:
    assert safe(f"~~~{language}\nx\n~~~").startswith(("```\n", "```a\n"))


@pytest.mark.threat(148)
@pytest.mark.parametrize("mark", ["`", "~"])
def test_a_long_run_is_capped(mark: str) -> None:
    assert safe(f"{mark * 256}\nx\n{mark * 256}") == "```\nx\n```"
    assert fenced(f"{mark * 256}\nx").endswith(f"text\n{mark * 8}\nx\n{fenced(mark * 8)[: 9 if mark == '`' else 3]}")


@pytest.mark.threat(146, 147, 151)
def test_hidden_characters_and_secrets_go() -> None:
    assert safe("a\u202eb\x0bc \x1b[31mred\x1b[0m ghs_1_" + "a" * 40) == "a\ufffdb c red \\[redacted]"
    assert safe("`sk-ant-api03-abcdefghijk`") == "`[redacted]`"
    assert safe("g&#104;p_" + "a" * 36) == "\\[redacted]"
    assert plain("g&#104;p_" + "a" * 36) == plain("ghp\\_" + "a" * 36) == "[redacted]"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a&#x202e;b", "a\ufffdb"),
        ("a&ZeroWidthSpace;&#8203;b", "a\ufffdb"),
        ("a&#xE0041;b", "a\ufffdb"),
        ("a&shy;b", "a\ufffdb"),
        ("a&NewLine;&NewLine;- b", "a  - b"),
        ("a&#10;| b |", "a | b |"),
        ("a&#13;b&#x2028;c&Tab;d", "a b c d"),
    ],
)
@pytest.mark.threat(142, 147)
def test_an_entity_brings_nothing_back_that_was_taken_out(text: str, written: str) -> None:
    assert safe(text) == written
    assert inline(text, cell=False) == written
    assert plain(text) == " ".join(written.split())


def test_a_text_that_nests_too_deep_is_shown_as_it_is() -> None:
    text = "> " * 40 + "x"
    assert safe(text) == f"```text\n{text}\n```"


@pytest.mark.threat(149)
def test_a_long_text_is_cut_at_a_word() -> None:
    cut = safe("word " * 100, budget=52)
    assert cut == ("word " * 10).rstrip() + " …"
    assert len(safe("x" * 1000, budget=52).encode()) < 60
    assert plain("\x1b[31m" * 200 + "x", budget=20) == "…", "no more of it is looked at than it takes"


# ---- Permalinks -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("see src/a.py:12.", f"see [`src/a.py:12`]({BLOB}/src/a.py#L12)."),
        ("see `src/a.py:12`", f"see [`src/a.py:12`]({BLOB}/src/a.py#L12)"),
        ("see `src/a.py:12-15`", f"see [`src/a.py:12-15`]({BLOB}/src/a.py#L12-L15)"),
        ("see `src/b c.py:3`", f"see [`src/b c.py:3`]({BLOB}/src/b%20c.py#L3)"),
        ("!src/a.py:1", f"\\![`src/a.py:1`]({BLOB}/src/a.py#L1)"),
        ("see a.py:12 and src/a.py and src/a.py:0", "see a.py:12 and src/a.py and src/a.py:0"),
        ("`other.py:3` `src/a.py`", "`other.py:3` `src/a.py`"),
        ("xsrc/a.py:12, ../src/a.py:12", "xsrc/a.py:12, ../src/a.py:12"),
    ],
)
def test_a_line_of_a_known_file_becomes_our_own_link(text: str, written: str) -> None:
    assert safe(text, links=LINKS) == written


def test_a_place_is_linked_to_its_first_line() -> None:
    assert permalink("src/a.py:86-91", LINKS) == f"[`src/a.py:86`]({BLOB}/src/a.py#L86)"
    assert permalink("src/a.py:86-91", LINKS, shown="a.py") == f"[`a.py:86`]({BLOB}/src/a.py#L86)"
    assert permalink("src/gone.py:8", LINKS) == "`src/gone.py:8`"
    assert permalink("src/a.py", LINKS) == "`src/a.py`"


@pytest.mark.threat(154)
@pytest.mark.parametrize("path", ["x](http://evil.example).py", "`a`.py", "@team.md", "a|b.py", "a b\\.py"])
def test_a_hostile_path_is_a_code_span_and_its_link_goes_to_our_server(path: str) -> None:
    links = Links("https://github.com", "o/r", "a" * 40, frozenset({path}))
    shown = permalink(f"{path}:3", links, cell=True)
    rendered = html_of(f"| a |\n|--|\n| {shown} |\n")
    assert re.findall(r'href="([^"]*)"', rendered) == re.findall(rf'href="({re.escape(BLOB)}/[^"]*#L3)"', rendered)
    assert f"<code>{html.escape(path)}:3</code>" in rendered.replace(BREAKER, "")


# ---- The other forms ------------------------------------------------------------------------------------------------


def test_an_item_holds_its_blocks_and_what_follows_flows_on() -> None:
    assert bullet("`F1`: ", "it fails", "Suggestion: do it.") == "- `F1`: it fails. Suggestion: do it."
    assert bullet("`F1`: ", "it fails!", "Suggestion: do it.") == "- `F1`: it fails! Suggestion: do it."
    assert bullet("`F1`: ", "a\n\n```\nx\n```", "Suggestion: b") == "- `F1`: a\n\n  ```\n  x\n  ```\n\n  Suggestion: b"
    assert bullet("`F1`: ", "```\nx\n```") == "- `F1`:\n\n  ```\n  x\n  ```"


def test_a_line_has_no_blocks_and_a_cell_no_pipes() -> None:
    assert inline("a\n- b | `c|d` *e*") == "a - b \\| `c\\|d` *e*"
    assert inline("a | b", cell=False) == "a | b"
    assert [inline(text) for text in ("# a", "- a", "1. a", "> a")] == ["\\# a", "\\- a", "1\\. a", "\\> a"]
    assert code("a`b") == "``a`b``"
    assert code("a\nb") == "`a b`"
    assert code("") == "` `"


def test_a_lead_stands_before_the_first_words() -> None:
    assert safe("said so.", lead="**codex** approved. ") == "**codex** approved. said so."
    assert safe("```\nx\n```", lead="**codex** approved. ") == "**codex** approved.\n\n```\nx\n```"
    assert safe("", lead="**codex** approved. ") == "**codex** approved."


def test_a_fenced_text_ends_in_a_newline_and_cannot_leave() -> None:
    assert fenced("```\nx") == "````text\n```\nx\n````"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("`attempt()` makes *a* [key](https://e.example)", f"attempt() makes a key (https:{BREAKER}//e.example)"),
        ("Fixes #1, closes o/r#2 @user", f"Fixes #{BREAKER}1, closes o/r#{BREAKER}2 @{BREAKER}user"),
        (
            "fixes https://github.com/o/r/issues/1",
            f"fixes https:{BREAKER}//github.com/o/r/issues/1",
        ),
        ("[skip ci] [ci skip] [no ci]", f"[{BREAKER}skip ci] [{BREAKER}ci skip] [{BREAKER}no ci]"),
        ("[skip actions] [actions skip]", f"[{BREAKER}skip actions] [{BREAKER}actions skip]"),
        ("[skip\n\nci] [ci-skip] [skip netlify]", f"[{BREAKER}skip ci] [{BREAKER}ci-skip] [{BREAKER}skip netlify]"),
        ("[no effect] [skip] [x]", "[no effect] [skip] [x]"),
        ("skip-checks: true request-checks: true", f"skip-checks{BREAKER}: true request-checks{BREAKER}: true"),
        ("on-behalf-of: @acme", f"on-behalf-of{BREAKER}: @{BREAKER}acme"),
        ("Co-authored-by: A <a@e.example>", f"Co-authored-by{BREAKER}: A a@{BREAKER}e.example"),
        ("Signed-off-by: A", f"Signed-off-by{BREAKER}: A"),
        ("Debate-Run: x", f"Debate-Run{BREAKER}: x"),
        ("\\# not a comment", f"{BREAKER}# not a comment"),
        ("a\n\nb\n\n- c", "a b c"),
        ("a\x1b[31mb\u202e", "ab\ufffd"),
    ],
)
@pytest.mark.threat(140, 141, 153)
def test_plain_text_calls_nobody_and_steers_nothing(text: str, written: str) -> None:
    assert plain(text) == written


def test_plain_lines_keep_what_stands_on_lines_of_its_own() -> None:
    assert plain("a\n\n```\nx = 1\n# y\n```", lines=True) == f"a\nx = 1\n{BREAKER}# y"


@pytest.mark.parametrize("value", ["src/__init__.py:3", "a`b`.py", "*.py", "a\\_b", "<b>.py", "&#x202e;.py", "``.py"])
def test_a_value_loses_nothing_as_plain_text(value: str) -> None:
    assert literal(value) == value
    assert literal("@team.md") == f"@{BREAKER}team.md"


# ---- The properties -------------------------------------------------------------------------------------------------

WORDS = """\
` `` ``` ~~~ * ** _ __ ~~ [ ] ( ) ! ![ ]( < > </details> <details> <script> <!-- --> <b> </b> <h1> <table> @user
@org/team #1 GH-2 o/r#3 http://e.example https://github.com/o/r/issues/1 www.e.example a@b.example mailto:a@b.example
xmpp:a@b.example/d \\ | --- === # ## - * + 1. 2) > [x] [!NOTE] [^1] [^1]: [a]: &lt; &#64; &commat; &#96; &amp; $x$
src/a.py:3 `src/a.py:3-4` 5d4463e4d4 word x é 日本 ⚠️ <![CDATA[ <?php <x@y.example> <http://q.example> : :// http https:
www www. . com ../../settings javascript:x &NewLine; &#10; &#x202e; &ZeroWidthSpace; &#xE0041; &Tab;"""
ATOMS = WORDS.split()
TAGS = ["<a href=x>", "<img src=x>", "<svg onload=x>", "<img\nsrc=x>"]
SPACES = ["\n", "\n\n", "\n    ", "\n\n    ", "\t", " ", "  \n", "\\\n", "\n|-|-|\n", "\n---\n", "\r\n", "\r"]
ODD = ["\x0b", "\u2028", "\u202e", "\u200b", "\x00", "\ud800", "\x1b[31m", "`" * 256, "~" * 300, "ghs_1_" + "a" * 40]
FENCES = ["```suggestion\nx\n```", "[ ] ", "- [ ] ", "[a]: http://e.example\n", "> ", "- ", "1. ", "# "]
EVERY = [*ATOMS, *TAGS, *SPACES, *ODD, *FENCES]

ALLOWED = {"p", "ul", "ol", "li", "em", "strong", "del", "code", "pre", "blockquote", "a"}
BEFORE, AFTER = "<details>\n<summary>s</summary>\n", "</details>\n<p>end</p>\n"


def faults(fragment: str) -> str:
    """What GitHub's parser finds alive in a fragment within a folded section; empty where nothing is."""
    rendered = html_of(f"{BEFORE}\n{fragment}\n\n</details>\n\nend\n")
    if not (rendered.startswith(BEFORE) and rendered.endswith(AFTER)):
        return "the skeleton is broken"
    inner = rendered[len(BEFORE) : -len(AFTER)]
    foreign = set(re.findall(r"<[/]?([A-Za-z0-9!]+)", inner)) - ALLOWED
    if foreign:
        return f"foreign elements {foreign}"
    if any(not href.startswith(BLOB) for href in re.findall(r'href="([^"]*)"', inner)):
        return "a link that is not ours"
    words = html.unescape(re.sub(r"<code[^>]*>.*?</code>|<[^>]*>", " ", inner, flags=re.DOTALL))
    if hidden(fragment):
        return f"hidden: {hidden(fragment)}"
    calls = re.findall(r"@[A-Za-z0-9]|#\d|\bGH-\d|://|www\.", words, re.IGNORECASE)
    return f"alive: {calls}" if calls else ""


def in_a_cell(text: str) -> str:
    rendered = html_of(f"| a | b |\n|--|--|\n| {text} | z |\n\nend\n")
    whole = rendered.endswith("<td>z</td>\n</tr>\n</tbody>\n</table>\n<p>end</p>\n") and rendered.count("<td>") == 2
    return "" if whole and "<a" not in rendered and "<img" not in rendered else rendered


def test_thousands_of_random_inputs_bring_nothing_alive() -> None:
    chance = random.Random(20_000)  # noqa: S311 - seeded, so that a failure comes back
    for number in range(4_000):
        text = "".join(chance.choice(EVERY) for _ in range(chance.randint(1, 24)))
        assert not faults(safe(text, links=LINKS)), repr(text)
        if number % 4 == 0:
            assert not in_a_cell(inline(text)), repr(text)
            assert not in_a_cell(code(text, cell=True)), repr(text)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(EVERY), st.text(max_size=6)), max_size=30).map("".join))
def test_nothing_that_an_agent_writes_comes_alive(text: str) -> None:
    written = safe(text, links=LINKS)
    assert not faults(written)
    assert not faults(bullet("`F1`: ", text, f"Suggestion: {text}", links=LINKS))
    assert not faults(fenced(text))
    assert not in_a_cell(inline(text))
    assert safe(text, links=LINKS) == written
    assert all(fence.endswith("\n") for fence in re.findall(r"(?ms)^```\n(.*?)^```$", written))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(EVERY), st.text(max_size=6)), max_size=30).map("".join))
def test_plain_text_is_one_line_that_calls_nobody(text: str) -> None:
    written = plain(text)
    assert "\n" not in written
    assert not re.search(r"@[A-Za-z0-9]|#\d|\bGH-\d|://|www\.|^#", written, re.IGNORECASE)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 20_000,
        "*a **b " * 4_000,
        "` `` ``` " * 3_000,
        "![" * 10_000,
        "[a](b" * 4_000,
        "- a\n" * 8_000,
        "> " * 9_000,
    ],
)
def test_a_text_made_to_be_slow_comes_to_an_end(text: str) -> None:
    assert safe(text, budget=8_000)


@pytest.mark.threat(127, 146)
@pytest.mark.parametrize("text", ["+~" * 100_000, "http://a" + ")" * 300_000 + "a"])
def test_a_long_run_is_gone_through_once(text: str) -> None:
    """Where it was gone through again from each character this test would not end."""
    assert len(safe(text, budget=len(text))) < 2 * len(text)
    assert len(plain(text, budget=len(text))) < 2 * len(text)


@pytest.mark.threat(146)
def test_what_is_written_once_is_shown_once() -> None:
    text = f"[a]: /{'b' * 1_000}\n\n" + "[a]" * 300
    assert safe(text, budget=8_000) == f"\\[a]: /{'b' * 1_000}\n\n" + "\\[a]" * 300
    assert plain(text, budget=8_000) == f"[a]: /{'b' * 1_000} " + "[a]" * 300


# ---- Whole bodies ---------------------------------------------------------------------------------------------------


def test_a_body_holds_exactly_the_hosts_own_elements() -> None:
    body = "## T\n\n| a |\n|--|\n| b<br>c |\n\n<details>\n<summary>s</summary>\n\nx\n\n</details>\n\nend\n"
    skeleton = {"h2": 1, "table": 1, "details": 1}
    assert holds(body, skeleton)
    assert not holds(body.replace("x", "</details>"), skeleton)
    assert not holds(body.replace("x", "```"), skeleton)
    assert not holds(body.replace("x", "# x"), skeleton)
    assert not holds(body.replace("x", "![a](b)"), skeleton)
    assert not holds(body, {"h2": 1, "table": 2, "details": 1})
