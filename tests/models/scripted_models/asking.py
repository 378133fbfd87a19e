"""A program that asks both APIs in the shortest way, for tests that need no real one."""

from __future__ import annotations

from typing import Any

import aiohttp

from scripted_models.server import ModelServer

PROMPT = "one two three"


class Asking:
    """A program that asks both APIs in the shortest way."""

    def __init__(self, client: aiohttp.ClientSession, models: ModelServer) -> None:
        self.client, self.models = client, models

    def openai(self, prompt: str = PROMPT, **more: Any) -> Any:
        message = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": prompt}]}
        body = {"model": "gpt-5.5", "stream": True, "input": [message], "prompt_cache_key": "s"} | more
        headers = {"Authorization": "Bearer sk-1"}
        return self.client.post(
            f"{self.models.openai_url}/responses", json=body, headers=headers, allow_redirects=False
        )

    def anthropic(self, prompt: str = PROMPT, **more: Any) -> Any:
        body = {"model": "claude-sonnet-5", "stream": True, "messages": [{"role": "user", "content": prompt}]} | more
        url = f"{self.models.anthropic_url}/v1/messages?beta=true"
        return self.client.post(url, json=body, headers={"x-api-key": "sk-2"}, allow_redirects=False)
