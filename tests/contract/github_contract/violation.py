"""What an exchange or a delivery does that GitHub would not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Violation:
    """One breach of the contract. A request is the caller's; an answer and a webhook are the stand-in's."""

    side: Literal["request", "answer", "webhook"]
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.side} {self.where}: {self.what}"
