"""Every fault over the wire, on both APIs, and that none of them keeps the server from its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest

from scripted_models import ModelServer, Turn, Usage, faults
from scripted_models.asking import Asking
from scripted_models.script_file import FAULTS

MEGABYTE = 1024 * 1024
Ask = Callable[..., Any]


@pytest.fixture(params=["openai", "anthropic"])
def plays(request: pytest.FixtureRequest, ask: Asking, models: ModelServer) -> Callable[[Turn], Ask]:
    """Let one of the APIs play a fault; return how to ask it."""

    def play(turn: Turn) -> Ask:
        getattr(models, request.param).plays([turn])
        asking: Ask = getattr(ask, request.param)
        return asking

    return play


REFUSALS = {
    "unauthorized": (401, "invalid_api_key", "authentication_error"),
    "forbidden": (403, "model_not_allowed", "permission_error"),
    "not_found": (404, "model_not_found", "not_found_error"),
    "bad_request": (400, None, "invalid_request_error"),
    "rate_limited": (429, "rate_limit_exceeded", "rate_limit_error"),
    "insufficient_quota": (429, "insufficient_quota", "insufficient_quota"),
    "server_error": (500, None, "api_error"),
    "unavailable": (503, "service_unavailable", "api_error"),
    "overloaded": (529, None, "overloaded_error"),
    "credit_balance": (400, None, "invalid_request_error"),
    "prompt_too_long": (400, None, "invalid_request_error"),
}


@pytest.mark.parametrize("name", REFUSALS)
async def test_a_refusal_is_of_the_apis_own_kind(ask: Asking, models: ModelServer, name: str) -> None:
    status, code, kind = REFUSALS[name]
    models.openai.plays([FAULTS[name]()])
    models.anthropic.plays([FAULTS[name]()])
    async with ask.openai() as response:
        error = (await response.json())["error"]
        assert (response.status, error["code"]) == (status, code)
    async with ask.anthropic() as response:
        told = await response.json()
        assert (response.status, told["type"], told["error"]["type"]) == (status, "error", kind)
    assert models.openai.usage == models.anthropic.usage == Usage(calls=0), "nobody pays for a refusal"


async def test_a_refusal_says_when_to_come_back(plays: Callable[[Turn], Ask]) -> None:
    async with plays(faults.rate_limited(retry_after=1.5))() as response:
        assert response.headers["Retry-After"] == "1.5"


STREAMED = ["stream_rate_limited", "stream_insufficient_quota", "context_length_exceeded", "stream_server_error"]


@pytest.mark.parametrize("name", [*STREAMED, "stream_overloaded"])
async def test_an_error_in_the_stream_ends_it(plays: Callable[[Turn], Ask], name: str) -> None:
    async with plays(FAULTS[name]())() as response:
        *_, last, end = (await response.text()).split("\n\n")
    assert (response.status, end) == (200, "")
    assert last.startswith(("event: response.failed", "event: error"))
    assert f'"{faults_kind(name)}"' in last


def faults_kind(name: str) -> str:
    return str(getattr(FAULTS[name]().fault, "kind"))  # noqa: B009 - a union of faults, of which these have one


async def test_without_a_stream_its_error_is_a_status(plays: Callable[[Turn], Ask]) -> None:
    async with plays(faults.stream_overloaded())(stream=False) as response:
        assert response.status == 529


async def test_a_cut_loses_the_end(plays: Callable[[Turn], Ask]) -> None:
    async with plays(faults.cut("The first"))() as response:
        first = await response.content.readuntil(b"The first")
        with pytest.raises(aiohttp.ClientPayloadError):
            await response.read()
    assert first.startswith(b"event: ")


async def test_a_clean_cut_looks_like_an_end(plays: Callable[[Turn], Ask]) -> None:
    async with plays(faults.cut("The first", clean=True))() as response:
        heard = await response.text()
    assert "The first" in heard
    assert "completed" not in heard
    assert "message_stop" not in heard


async def test_silence_comes_after_some_words(plays: Callable[[Turn], Ask], models: ModelServer) -> None:
    async with plays(faults.silence("Word"))() as response:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(response.content.readuntil(b"never"), 0.2)
    await left(models)


async def test_signs_of_life_may_be_all_that_comes(plays: Callable[[Turn], Ask]) -> None:
    async with plays(faults.silence("Word", pings=0.02))() as response:
        heard = b""
        while heard.count(b"event: ping") + heard.count(b"event: keepalive") < 4:
            heard += await response.content.readany()


@pytest.mark.parametrize("fault", [faults.hang(), faults.silence()], ids=["hang", "silence"])
async def test_not_even_headers_come(plays: Callable[[Turn], Ask], models: ModelServer, fault: Turn) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2), plays(fault)(stream=False):
            pass
    await left(models)


@pytest.mark.parametrize("line", [False, True])
async def test_text_without_end_is_as_much_as_is_read(
    plays: Callable[[Turn], Ask], models: ModelServer, *, line: bool
) -> None:
    async with plays(faults.endless(line=line))() as response:
        heard = await response.content.readexactly(MEGABYTE)
    assert (heard[-MEGABYTE // 2 :].count(b"\n") == 0) is line
    await left(models)
    assert (models.openai.usage + models.anthropic.usage).output > (0 if line else MEGABYTE // 8)


async def test_garbage_is_what_it_is(plays: Callable[[Turn], Ask]) -> None:
    async with plays(faults.garbage(b"\xff\x00", content_type="text/plain"))() as response:
        assert (response.status, response.content_type) == (200, "text/plain")
        assert await response.read() == b"\xff\x00"


async def test_a_redirect_names_another_place(plays: Callable[[Turn], Ask]) -> None:
    async with plays(faults.redirected("http://127.0.0.1:1/", status=308))() as response:
        assert (response.status, response.headers["Location"]) == (308, "http://127.0.0.1:1/")


@pytest.mark.parametrize("name", ["hang", "silence", "endless"])
async def test_the_server_ends_whoever_still_listens(client: aiohttp.ClientSession, name: str) -> None:
    async with ModelServer.start() as models:
        models.openai.plays([FAULTS[name]()])
        asking = asyncio.create_task(drain(Asking(client, models)))
        while not models.openai.requests:
            await asyncio.sleep(0.01)
        ending = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - ending < 3
    await asyncio.wait([asking], timeout=3)
    assert asking.done()
    asking.exception()


async def drain(ask: Asking) -> None:
    async with ask.openai() as response:
        async for _ in response.content.iter_any():
            pass


async def left(models: ModelServer) -> None:
    """Wait until the server knows that the program went away."""
    (request,) = models.openai.requests + models.anthropic.requests
    async with asyncio.timeout(3):
        while not request.left:
            await asyncio.sleep(0.01)
    assert not request.finished
