"""Every threat, hostile input and fault has its test: held here, so that none is lost when tests are renamed or moved.

A test says what it proves with ``@pytest.mark.threat("T8", 113, "R1")``: threats, inputs and faults keep the numbers of
the security design. The table below says which threats have a test of a given name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent

NAMED = {
    "T1": "test_signature_matrix test_empty_secret_refuses_start",
    "T2": "test_replay_new_delivery_id test_event_header_swap",
    "T3": "test_slowloris_200",
    "T4": "test_command_corpus",
    "T5": "test_authz_matrix",
    "T6": "test_bot_ignored test_self_loop",
    "T7": "test_head_moves_after_command",
    "T8": "test_fork_never_writes_base",
    "T9": "test_ref_corpus",
    "T10": "test_git_trap_repo",
    "T11": "test_nested_git_refused",
    "T12": "test_import_attacks",
    "T13": "test_git_bomb",
    "T14": "test_agent_config_canaries",
    "T15": "test_no_secret_in_sandbox",
    "T16": "test_no_secret_in_sandbox",
    "T17": "test_remount_escape test_refuse_root",
    "T18": "test_syscall_matrix",
    "T19": "test_egress_matrix",
    "T20": "test_fork_bomb test_memory_hog test_disk_fill test_infinite_stdout test_never_ends",
    "T21": "test_daemon_does_not_survive",
    "T22": "test_forged_records",
    "T23": "test_diff_hiding_attr test_injected_approve",
    "T24": "test_workflow_edit_dropped test_push_rejected_by_github",
    "T25": "test_token_in_commit",
    "T26": "test_output_corpus",
    "T27": "test_commit_message_corpus",
    "T28": "test_forged_marker",
    "T29": "test_pickle_job_rejected",
    "T30": "test_no_token_on_disk",
    "T31": "test_two_tenants_parallel",
    "T33": "test_budget_cap_ends_run test_flood_coalesces",
    "T34": "test_cli_pinned",
    "T35": "test_no_bwrap_refuses test_userns_off_refuses test_seccomp_missing_refuses",
}
"""The tests that prove a threat's control, by their names."""

INPUTS = range(75, 157)
"""What git, agents and outputs meet. Webhooks, commands and permissions (1 to 74) are held where they are read."""

ORACLES = frozenset(f"O{number}" for number in range(1, 10))


FAULTS = frozenset(f"R{number}" for number in range(1, 31))
"""What breaks: workers, stores, networks, GitHub, disks, and what people do in the middle."""


@cache
def _proofs() -> dict[str | int, set[str]]:
    """Return which tests prove what."""
    found: dict[str | int, set[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for function, row in _marked(ast.parse(path.read_text("utf-8"))):
            found.setdefault(row, set()).add(function)
    return found


def _marked(module: ast.Module) -> Iterator[tuple[str, str | int]]:
    for node in ast.walk(module):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.threat":
                yield from ((node.name, ast.literal_eval(row)) for row in decorator.args)


@pytest.mark.parametrize("threat", NAMED)
def test_a_threat_has_the_tests_that_are_named_for_it(threat: str) -> None:
    assert set(NAMED[threat].split()) <= _proofs().get(threat, set())


@pytest.mark.parametrize("row", [*INPUTS, *sorted(ORACLES), *sorted(FAULTS)])
def test_a_hostile_input_a_fault_or_an_oracle_has_a_test(row: str | int) -> None:
    assert _proofs().get(row)


def test_the_readme_links_each_promise_to_a_test_that_is_there() -> None:
    readme = (TESTS.parent / "README.md").read_text("utf-8")
    promises = readme.partition("<!-- promises")[2].partition("<!-- end of promises -->")[0]
    numbered = [line for line in promises.splitlines() if line[:1].isdigit()]
    assert len(numbered) == 8
    for line in numbered:
        links = re.findall(r"\[`(test_\w+)`\]\(([\w./]+)\)", line)
        assert links, line
        for name, place in links:
            assert re.search(rf"^(async )?def {name}\(", (TESTS.parent / place).read_text("utf-8"), re.MULTILINE), name


def test_no_test_claims_a_row_that_is_not_there() -> None:
    assert set(_proofs()) <= {*NAMED, *range(1, 168), *ORACLES, *FAULTS}
