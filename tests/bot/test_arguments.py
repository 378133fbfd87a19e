"""One reader for all verbs: what it makes of flags, words and prose, and which fault it names."""

from __future__ import annotations

from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, BeforeValidator

from bot.arguments import Flag, Lead, MisreadError, Prose, Word, example, read, shape, spelled
from bot.options import Approve, Board, CodeDebate, Stop


def _fits(value: object) -> object:
    if value in {"bad", ""}:
        raise ValueError("does not fit")
    return value


Checked = BeforeValidator(_fits)


class Errand(BaseModel):
    """A command that does without prose."""

    where: Annotated[str | None, Checked, Word("<where>", "place", "a place", "home", "the place")] = None
    speed: Annotated[str | None, Checked, Flag("S", "a speed up to {max_rounds}", "fast", "how fast")] = None
    from_: Annotated[str, Flag("P", "a place", "town", "where it begins")] = ""
    no_stop: Annotated[bool, Flag("", "", "", "go on")] = False


class Speech(BaseModel):
    """A command that takes prose."""

    loud: Annotated[bool, Flag("", "", "", "loudly")] = False
    tone: Annotated[str | None, Checked, Flag("T", "a tone", "kind", "how")] = None
    side: Annotated[str | None, Lead("L|R", ("L", "R"), "which side")] = None
    text: Annotated[str, Checked, Prose("<text>", "a text", "hear me", "the text")]


def errand(rest: str) -> Errand:
    return read(Errand, rest, below="not read", start="/do errand", max_rounds=6)


def speech(rest: str, below: str = "") -> Speech:
    return read(Speech, rest, below=below, start="/do speech", max_rounds=6)


def fault(rest: str, below: str = "", *, model: type[BaseModel] = Errand) -> str:
    with pytest.raises(MisreadError) as found:
        read(model, rest, below=below, start=f"/do {model.__name__.lower()}", max_rounds=6)
    return found.value.reply


# ---- Flags and words ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("", Errand()),
        (" \t", Errand()),
        ("home", Errand(where="home")),
        ("--speed fast home", Errand(speed="fast", where="home")),
        ("home --speed=fast", Errand(speed="fast", where="home")),
        ('home --from "the town" --no-stop', Errand(where="home", from_="the town", no_stop=True)),
        ('"--speed"', Errand(where="--speed")),
        ('--from "--speed"', Errand(from_="--speed")),
        ("--from=--speed", Errand(from_="--speed")),
        ("--no-stop home", Errand(where="home", no_stop=True)),
    ],
)
def test_flags_and_words_in_any_order(rest: str, expected: Errand) -> None:
    assert errand(rest) == expected


@pytest.mark.parametrize(
    ("rest", "part"),
    [
        ("--sped fast", "`errand` has no flag `--sped`; nothing was started. Perhaps you meant `--speed fast`."),
        ("--sped=fast x", "Perhaps you meant `--speed fast`."),
        ("--sped --no-stop", "Perhaps you meant `--speed`."),
        ('--sped "no end', "Perhaps you meant `--speed`."),
        ("--no-stopp x", "Perhaps you meant `--no-stop`."),
        ("--wholly-other", "Its flags: `/codex-debate help errand`."),
        ("--no-stop=1", "`--no-stop` takes no value"),
        (
            "--no-stop --no-stop",
            "`--no-stop` is given twice; nothing was started. Give it once, for example `/do errand --no-stop`.",
        ),
        ("--speed a --speed b", "Give it once, for example `/do errand --speed fast`."),
        ("--speed bad", "`--speed` takes a speed up to 6; nothing was started. For example `/do errand --speed fast`."),
        (
            "bad",
            "`errand` does not take `bad`; nothing was started. Text of several words goes between quotation marks",
        ),
        ("home town", "`errand` takes one place; nothing was started. Write a comment for each."),
        ('"home', "A quoted text does not end"),
        ("--speed 'x'y", "A quoted text does not end"),
    ],
)
def test_what_is_wrong_is_named(rest: str, part: str) -> None:
    assert part in fault(rest)


@pytest.mark.parametrize(
    ("rest", "part"),
    [
        ("bad --else", "does not take `bad`"),
        ("--else bad", "has no flag `--else`"),
        ("--speed bad bad", "`--speed` takes"),
        ("bad --speed bad", "does not take `bad`"),
        ("bad bad", "does not take `bad`"),
        ("--speed bad --speed bad", "`--speed` takes"),
    ],
)
def test_the_first_fault_of_a_line_is_named(rest: str, part: str) -> None:
    assert part in fault(rest)


def test_a_command_without_flags_is_shown_without() -> None:
    assert fault("now", model=Stop) == "`stop` does not take `now`; nothing was started. Write it without: `/do stop`."
    assert fault("--now", model=Stop) == (
        "`stop` has no flag `--now`; nothing was started. Write it without: `/do stop`."
    )
    assert fault("97636d1 --now", model=Approve).endswith("Write it without: `/do approve 97636d1`.")


@pytest.mark.parametrize("rest", ["", "x", "97636g1", "'97636d1 '", "x y"])
def test_a_word_that_is_needed(rest: str) -> None:
    assert fault(rest, model=Approve) == (
        "`approve` takes 7 to 40 hex digits, the beginning of the commit's name; nothing was started. For example "
        "`/do approve 97636d1c27`."
    )


# ---- Prose ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rest", "below", "expected"),
    [
        ("hear me", "", Speech(text="hear me")),
        ("  hear   me ", "", Speech(text="hear   me")),
        ("hear", "me\n\nall", Speech(text="hear\nme\n\nall")),
        ("", "hear me", Speech(text="hear me")),
        ("", "\n  \n\thear me\n\n", Speech(text="\thear me")),
        ("--loud hear me", "", Speech(text="hear me", loud=True)),
        ("--tone kind --loud", "hear me", Speech(text="hear me", loud=True, tone="kind")),
        ("--tone=kind hear --loud", "--tone x", Speech(text="hear --loud\n--tone x", tone="kind")),
        ('"hear me"', "", Speech(text="hear me")),
        ("“hear", "me”\n", Speech(text="hear\nme")),
        ('"--loud"', "", Speech(text="--loud")),
        ("", "--loud", Speech(text="--loud")),
        ('"hear" or "me"', "", Speech(text='"hear" or "me"')),
        ('"hear', "", Speech(text='"hear')),
        ("it's me", "", Speech(text="it's me")),
        ("hear\u200bme", "", Speech(text="hear\u200bme")),
    ],
)
def test_prose_is_all_that_follows_the_flags(rest: str, below: str, expected: Speech) -> None:
    assert speech(rest, below) == expected


@pytest.mark.parametrize(
    ("rest", "below", "side", "text"),
    [
        ('L "hear me"', "", "L", "hear me"),
        ("R “hear", "me”", "R", "hear\nme"),
        ("L", "hear me", "L", "hear me"),
        ("--loud R \t", "\nhear me", "R", "hear me"),
        ("L hear me", "", None, "L hear me"),
        ('L "hear" me', "", None, 'L "hear" me'),
        ('L "hear me"', "and more", None, 'L "hear me"\nand more'),
        ('"L"', "", None, "L"),
        ("l", "hear me", None, "l\nhear me"),
        ("LR", "hear me", None, "LR\nhear me"),
        ("", "L\nhear me", None, "L\nhear me"),
    ],
)
def test_a_word_that_leads_counts_before_a_quotation_or_alone(
    rest: str, below: str, side: str | None, text: str
) -> None:
    assert speech(rest, below) == Speech(side=side, text=text, loud="--loud" in rest)


@pytest.mark.parametrize(
    ("rest", "below", "part"),
    [
        ("", "", "`speech` takes a text; nothing was started. For example `/do speech hear me`."),
        ("", " \n\n", "`speech` takes a text"),
        ("--loud", "", "`speech` takes a text"),
        ("bad", "", "`speech` takes a text"),
        (
            "--tone bad hear me",
            "",
            "`--tone` takes a tone; nothing was started. For example `/do speech --tone kind hear me`.",
        ),
        ("--tone", "hear me", "`--tone` takes a tone"),
        ("--tone x --tone y hear me", "", "`--tone` is given twice"),
        ("--else hear me", "", "`speech` has no flag `--else`"),
        ("--", "hear me", "`speech` has no flag `--`"),
        ('--tone "hear me', "", "A quoted text does not end"),
    ],
)
def test_what_is_wrong_before_prose(rest: str, below: str, part: str) -> None:
    assert part in fault(rest, below, model=Speech)


def test_nothing_behind_a_verb_that_takes_prose() -> None:
    assert fault("", model=Board).endswith("For example `/do board which limit should it be?`.")
    assert fault("A", model=CodeDebate).endswith('For example `/do codedebate "one queue or two"`.')


# ---- What a model says of itself ------------------------------------------------------------------------------------


def test_a_field_and_its_flag() -> None:
    assert spelled("max_rounds") == "--max-rounds"
    assert spelled("continue_") == "--continue"
    assert list(shape(Errand).flags) == ["--speed", "--from", "--no-stop"]
    assert not shape(Errand).needs_word
    assert shape(Approve).needs_word
    assert shape(Speech).prose is not None


def test_how_a_command_is_written() -> None:
    assert example(Errand, "/do errand") == "/do errand"
    assert example(Errand, "/do errand", "--from") == "/do errand --from town"
    assert example(Errand, "/do errand", "--no-stop") == "/do errand --no-stop"
    assert example(Speech, "/do speech") == "/do speech hear me"
    assert example(Speech, "/do speech", "--tone") == "/do speech --tone kind hear me"
    assert example(Approve, "/do approve") == "/do approve 97636d1c27"


@given(st.text(alphabet=st.characters(exclude_characters="\r\n")), st.text())
def test_prose_is_kept_as_it_was_written(line: str, below: str) -> None:
    assert speech(f"x {line}", below).text == f"x {line}\n{below}".rstrip()


@given(st.text(alphabet=st.sampled_from("ab -=\"'“”\\\t\x00é"), max_size=40), st.text(max_size=10))
def test_any_words_are_read_or_answered(rest: str, below: str) -> None:
    for reader in (Errand, Speech, CodeDebate, Board, Approve, Stop):
        try:
            found = read(reader, rest, below=below, start="/do it", max_rounds=6)
        except MisreadError as error:
            assert "nothing was started" in error.reply
        else:
            assert isinstance(found, reader)
