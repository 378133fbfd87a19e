"""`codex-debate try` under the watch, for `test_watch.py`: the last line of standard error tells what was found."""

from __future__ import annotations

import json
import sys

from deploy.cli import main
from github_contract import Watch

watch = Watch()
with watch.everywhere():
    try:
        main(["try", "--json"])
    finally:
        told = {"judged": watch.seen, "violations": [str(each) for each in watch.taken()]}
        sys.stderr.write(f"\n{json.dumps(told)}\n")
