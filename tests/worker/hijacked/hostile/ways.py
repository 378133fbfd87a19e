"""Tries every way out of a sandbox; prints where it got through, and with what the gateway answered each request.

``ways.py FACTS`` with FACTS as JSON: ``tcp`` and ``udp`` (hosts and ports), ``unix`` (paths, or names behind ``@``),
``names`` to be resolved, and ``asks``: method, path, headers and body of requests to the gateway.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import sys
from typing import Any

GATEWAY = ("127.0.0.1", 8080)
SECONDS = 0.5


def main(argv: list[str]) -> int:
    facts: dict[str, Any] = json.loads(argv[0])
    reached = [f"tcp {host}:{port}" for host, port in facts["tcp"] if connects((host, port))]
    reached += [f"udp {host}:{port}" for host, port in facts["udp"] if told(host, port)]
    reached += [f"unix {path}" for path in facts["unix"] if connects(path.replace("@", "\0"))]
    reached += [f"name {name}" for name in facts["names"] if resolved(name)]
    answers = [asked(*each) for each in facts["asks"]]
    sys.stdout.write(json.dumps({"reached": reached, "answers": answers}) + "\n")
    return 0


def connects(address: Any) -> bool:
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as way, contextlib.suppress(OSError):
        way.settimeout(SECONDS)
        way.connect(address)
        return True
    return False


def told(host: str, port: int) -> bool:
    """Tell whether a datagram left, as far as can be seen here: nobody refused it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way, contextlib.suppress(OSError):
        way.settimeout(SECONDS)
        way.connect((host, port))
        way.send(b"hello")
        with contextlib.suppress(TimeoutError):
            way.recv(100)
        return True
    return False


def resolved(name: str) -> bool:
    with contextlib.suppress(OSError):
        return bool(socket.getaddrinfo(name, 80))
    return False


def asked(method: str, path: str, headers: dict[str, str], body: str) -> int:
    """Return the status of an answer; 0 where there was none."""
    way = http.client.HTTPConnection(*GATEWAY, timeout=10)
    try:
        way.request(method, path, body=body.encode() or None, headers=headers)
        return way.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        way.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
