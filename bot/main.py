"""The bot as one process: the web application, and the worker of the queue `events`.

It composes and starts; what happens in between is the other modules'.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from bot.app import create_app
from bot.context import Bot
from bot.github import AppClient, open_session
from bot.handlers import handle_event
from bot.listen import listen
from bot.settings import Settings
from bot.store import EVENTS, Store, StoreAway
from bot.telemetry import Metrics, log

EVENTS_AT_ONCE = 8
"""Events handled at once. They wait for GitHub most of the time."""


async def run_bot(
    settings: Settings, store: Store, *, stop: asyncio.Event, ready: Callable[[int], None] | None = None
) -> None:
    """Take deliveries and handle events until `stop` is set.

    `ready` is called with the port that is listened on. Raises OSError where the port cannot be had, and redis'
    ConnectionError where the store stayed away.
    """
    metrics = Metrics()

    async def missing() -> Sequence[str]:
        try:
            return await store.health.lacks()
        except StoreAway:
            return ["The store does not answer."]

    async with open_session(settings.github_api_url) as session:
        app = AppClient(settings, session, pacer=store.pace)
        bot = Bot(settings, store, app, metrics)
        worker = store.queue.worker(EVENTS, handle_event, concurrency=EVENTS_AT_ONCE, context={"bot": bot})
        secret = settings.github_webhook_secret.get_secret_value()
        web = create_app(secret, store.queue, missing=missing, metrics=metrics)
        listener = await listen(web, settings.host, settings.port)
        try:
            log(__name__).info("bot started", host=settings.host, port=listener.port)
            if ready is not None:
                ready(listener.port)
            await worker.serve(stop)
        finally:
            await listener.close()
            await app.revoke_tokens()
    log(__name__).info("bot ended")
