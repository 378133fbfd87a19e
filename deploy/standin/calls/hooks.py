"""Calls about the deliveries of the App's webhook.

https://docs.github.com/en/rest/apps/webhooks
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from http.client import responses
from urllib.parse import urlencode

from deploy.standin.answers import Answer, Refused, not_found
from deploy.standin.rest import Call, Route
from deploy.standin.shapes import Json
from deploy.standin.webhooks import Attempt, Delivery

REDELIVERED = timedelta(days=3)
"""How far back a delivery is sent again (github.md A1)."""


async def list_deliveries(call: Call) -> Answer:
    """GET /app/hook/deliveries: every try, newest first, a page from a cursor on."""
    found = sorted(_attempts(call), key=lambda each: each[1].id, reverse=True)
    wanted = call.query.get("status")
    if wanted is not None:
        found = [each for each in found if _is(each[1], wanted)]
    cursor = call.query.get("cursor", "")
    if re.fullmatch(r"v1_[0-9]{1,18}", cursor):
        found = [each for each in found if each[1].id < int(cursor[3:])]
    size = call.page_size
    page, headers = found[:size], dict[str, str]()
    if len(found) > size:
        query = urlencode(call.query | {"cursor": f"v1_{page[-1][1].id}"})
        headers["Link"] = f'<{call.site.urls.api}/app/hook/deliveries?{query}>; rel="next"'
    return Answer(200, [_item(*each) for each in page], headers)


async def get_delivery(call: Call) -> Answer:
    """GET /app/hook/deliveries/{delivery_id}."""
    delivery, attempt = _found(call)
    shape = _item(delivery, attempt) | {
        "url": call.site.webhooks.url or "",
        "request": {"headers": delivery.headers, "payload": delivery.payload},
        "response": {"headers": {}, "payload": attempt.answer},
    }
    return Answer(200, shape)


async def redeliver(call: Call) -> Answer:
    """POST /app/hook/deliveries/{delivery_id}/attempts: it is sent after the answer."""
    delivery, attempt = _found(call)
    if datetime.now(UTC) - attempt.delivered_at > REDELIVERED:
        raise Refused(422, "Delivery is too old to be redelivered")
    call.site.webhooks.later(call.site.webhooks.redeliver(delivery.guid))
    return Answer(202, {})


def _attempts(call: Call) -> list[tuple[Delivery, Attempt]]:
    return [(delivery, attempt) for delivery in call.site.webhooks.deliveries for attempt in delivery.attempts]


def _found(call: Call) -> tuple[Delivery, Attempt]:
    number = call.number("delivery_id")
    for delivery, attempt in _attempts(call):
        if attempt.id == number:
            return delivery, attempt
    raise not_found()


def _is(attempt: Attempt, wanted: str) -> bool:
    """Tell whether a try belongs to a kind; one without an answer belongs to none."""
    status = attempt.status or 0
    return 200 <= status < 400 if wanted == "success" else 400 <= status < 600


def _item(delivery: Delivery, attempt: Attempt) -> Json:
    """Return `hook-delivery-item`."""
    return {
        "id": attempt.id,
        "guid": delivery.guid,
        "delivered_at": attempt.delivered_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "redelivery": attempt is not delivery.attempts[0],
        "duration": 0.03,
        "status": _told(attempt),
        "status_code": attempt.status or 0,
        "event": delivery.event,
        "action": delivery.payload.get("action"),
        "installation_id": delivery.payload.get("installation", {}).get("id"),
        "repository_id": delivery.payload.get("repository", {}).get("id"),
        "throttled_at": None,
    }


def _told(attempt: Attempt) -> str:
    if attempt.good:
        return "OK"
    if attempt.status is None:
        return "failed to connect to host"
    return f"Invalid HTTP Response: {attempt.status} ({responses.get(attempt.status, 'Unknown')})"


ROUTES = (
    Route("GET", "/app/hook/deliveries", list_deliveries, app=True),
    Route("GET", "/app/hook/deliveries/{delivery_id}", get_delivery, app=True),
    Route("POST", "/app/hook/deliveries/{delivery_id}/attempts", redeliver, app=True),
)
