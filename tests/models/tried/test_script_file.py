"""Scripts as files, and the program that plays them."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from scripted_models import ModelServer
from scripted_models.asking import Asking
from scripted_models.script_file import ScriptError, play_file

MODELS = Path(__file__).parents[1]


def written(folder: Path, script: Any) -> Path:
    path = folder / "script.json"
    path.write_text(script if isinstance(script, str) else json.dumps(script))
    return path


async def said(ask: Asking, prompt: str) -> str:
    async with ask.openai(prompt, stream=False) as response:
        return str((await response.json())["output"][0]["content"][0]["text"])


async def test_a_file_says_everything_that_a_turn_can(ask: Asking, models: ModelServer, tmp_path: Path) -> None:
    usage = {"input": 9, "cached": 4, "written": 1, "output": 3}
    turns = [
        "a text",
        {"say": "I look.", "calls": [{"Read": {"file_path": "/a"}}], "answer": {"a": 1}, "wait": 0, "chunk": 4},
        {"say": "b", "usage": usage, "stop": "max_tokens"},
        {"fault": {"rate_limited": {"retry_after": 2}}},
        {"fault": "unauthorized"},
    ]
    play_file(written(tmp_path, {"anthropic": turns}), models)
    heard, statuses = [], []
    for _ in turns:
        async with ask.anthropic(stream=False) as response:
            statuses.append(response.status)
            heard.append(await response.json())
    assert statuses == [200, 200, 200, 429, 401]
    assert [block.get("text") for block in heard[1]["content"]] == ["I look.", None, '{"a": 1}']
    assert heard[1]["content"][1]["input"] == {"file_path": "/a"}
    assert (heard[2]["stop_reason"], heard[2]["usage"]["cache_read_input_tokens"]) == ("max_tokens", 4)


async def test_a_file_tells_runs_apart_and_begins_anew(ask: Asking, models: ModelServer, tmp_path: Path) -> None:
    play_file(written(tmp_path, {"openai": {"left": ["1", "2"], "": ["other"]}, "again": True}), models)
    prompts = ["left", "right", "left", "left"]
    assert [await said(ask, prompt) for prompt in prompts] == ["1", "other", "2", "1"]


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ("{", "is not a script. the file: Invalid JSON"),
        ({"openia": []}, "is not a script. openia: Extra inputs are not permitted."),
        ({"openai": [{"fault": "flood"}]}, "There is no fault 'flood'. The faults are refused, "),
        ({"openai": [{"fault": {"cut": {"before": ""}}}]}, "The fault cut cannot be made so: "),
        ({"openai": [{"wait": -1}]}, "openai..0.wait: Input should be greater than or equal to 0."),
    ],
)
def test_what_is_no_script_is_refused_with_a_sentence(tmp_path: Path, script: Any, sentence: str) -> None:
    with pytest.raises(ScriptError, match=re.escape(sentence)):
        play_file(written(tmp_path, script), ModelServer())


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ScriptError, match=r"none\.json cannot be read \(No such file or directory\)\."):
        play_file(tmp_path / "none.json", ModelServer())


async def start(*arguments: str) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    argv = [sys.executable, "-u", "-m", "scripted_models", *arguments]
    return await asyncio.create_subprocess_exec(*argv, cwd=MODELS, stdout=pipe, stderr=pipe)


async def test_the_program_serves_a_file_until_it_is_interrupted(client: aiohttp.ClientSession, tmp_path: Path) -> None:
    program = await start(str(written(tmp_path, {"openai": ["Hello."]})))
    assert program.stdout is not None
    line = (await program.stdout.readline()).decode()
    served = re.fullmatch(r"OpenAI's API for codex: http://127\.0\.0\.1:(\d+)/v1\n", line)
    assert served is not None
    assert await said(Asking(client, ModelServer(port=int(served[1]))), "Say.") == "Hello."
    program.send_signal(signal.SIGINT)
    _, stderr = await asyncio.wait_for(program.communicate(), 5)
    assert program.returncode == 0
    assert stderr.decode().startswith("POST /v1/responses: session s, request 1, Usage(input=")


async def test_the_program_says_what_is_wrong(models: ModelServer, tmp_path: Path) -> None:
    missing = await start(str(tmp_path / "none.json"))
    taken = await start(str(written(tmp_path, {})), "--port", str(models.port))
    for program, sentence in ((missing, "cannot be read"), (taken, "cannot be served")):
        _, stderr = await asyncio.wait_for(program.communicate(), 10)
        assert (program.returncode, sentence in stderr.decode()) == (1, True)
