"""A scripted model server: both model APIs on 127.0.0.1, so that one can tell the real codex and claude what to do.

In a test::

    async with ModelServer.start() as models:
        models.openai.plays([calls("exec_command", cmd="cat app.py"), answers({"approved": True})])
        models.anthropic.plays([calls("Edit", file_path=…, old_string="a", new_string="b"), says("Done.")])
        …  # codex against models.openai_url (its own provider, gpt-5.5), claude against models.anthropic_url
        assert models.openai.usage.cached > 0
        assert "canary" not in models.openai.requests[0].prompt_text()

Each request takes the next turn; a function instead of a turn, or of the whole list, decides by what is asked, and
`by_prompt` tells several runs apart by a text in their prompts. What a request holds is in `Request`, what can go wrong
in `faults`, and how tokens are counted in `usage`.

For development, ``python -m scripted_models SCRIPT.json [--port N]``, from tests/models, plays a file::

    {"openai": [turn, …], "anthropic": {"a text in the prompt": [turn, …], "": [turn, …]}, "again": true}

An API plays one list, or the first list whose text stands in the prompt; with ``again`` from its beginning when it is
at its end. A turn is a text that is said, or an object of:

``say``
    a text
``calls``
    a list of tool calls, each as name → arguments: ``{"Read": {"file_path": "/a"}}``; codex's apply_patch takes
    ``{"apply_patch": {"input": "*** Begin Patch…"}}``
``answer``
    what is given where a schema was asked for
``fault``
    the name of a function of `faults`, or name → arguments: ``{"rate_limited": {"retry_after": 2}}``
``wait``, ``pause``, ``chunk``
    seconds before the answer, seconds before each streamed piece, characters of a piece
``stop``
    ``max_tokens`` or ``refusal``: why the model broke off
``usage``
    ``input`` (all of it), ``cached``, ``written``, ``output``: what is told instead of what was counted
"""

from scripted_models import faults
from scripted_models.model import Deciding, Model, NotInTheScriptError, Script, by_prompt
from scripted_models.request import Request
from scripted_models.server import ModelServer
from scripted_models.turns import Answer, Call, Turn, answers, calls, says
from scripted_models.usage import Usage

__all__ = [
    "Answer",
    "Call",
    "Deciding",
    "Model",
    "ModelServer",
    "NotInTheScriptError",
    "Request",
    "Script",
    "Turn",
    "Usage",
    "answers",
    "by_prompt",
    "calls",
    "faults",
    "says",
]
