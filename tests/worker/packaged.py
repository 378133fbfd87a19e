"""Packages as an installer leaves them, made for tests: files, and a list of them with their hashes."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path


def package(site: Path, name: str, version: str, files: dict[str, bytes]) -> None:
    """Install a package into a folder of packages (packaging.python.org, recording installed projects)."""
    about = f"{name.replace('-', '_')}-{version}.dist-info"
    rows = []
    for path, content in files.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_bytes(content)
        (site / path).chmod(0o755)
        mark = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        rows.append(f"{path},sha256={mark},{len(content)}")
    (site / about).mkdir(parents=True, exist_ok=True)
    (site / about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (site / about / "RECORD").write_text("\n".join([*rows, f"{about}/METADATA,,", f"{about}/RECORD,,"]) + "\n")
