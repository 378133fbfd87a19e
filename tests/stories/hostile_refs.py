"""Names that are no branch's, or that somebody calls a branch in order to mislead git (threats.md T9)."""

from __future__ import annotations

REFUSED_BRANCHES = [
    # Options of git (inputs 49 and 50).
    *("--upload-pack=touch /tmp/x", "--output=/tmp/x", "--upload-pack=x", "-x", "--", "-", "-O/tmp/x", "--exec=x"),
    # Revisions and ranges (input 51).
    *("a..b", "a...b", "..", "@{-1}", "@{u}", "main@{1}", "HEAD~1", "HEAD^", "HEAD", "@", ":/t", "^x", "x^{/r}", "x^!"),
    *("main~2", "main^{tree}", ":main", "main:README.md", "a^-1"),
    # Full names, refspecs, and what is no name of a branch (inputs 51 and 53).
    *("refs/pull/1/head", "refs/heads/main", "refs/tags/v1", "refs/", "main:refs/heads/x", "+main", "+a:b", "*", "a*"),
    *("x.lock", "x.lock/y", "x/", "/x", "//", "a//b", ".", ".a", "a/.b", "a.", "a/b.", "", "x" * 201, "x" * 300),
    # Characters that some reader takes for something else.
    *("a\x00b", "a\nb", "a\rb", "a b", "a\tb", "a\\b", "a?", "a[b", "a{b", "%2e%2e"),
    *("a;b", "$(id)", "`id`", "a|b", "a&b", "'main'", '"main"', "<x>", "~/x"),
    *("ma\u0456n", "main\u200b", "\u202emain", "main\u00a0", "ma\u00efn", "a\x1b[31m", "\ud800"),
    *("https://example.com/x.git", "ext::sh", "file:///x", "host:path"),
]
"""None of them may stand behind `--base`. A repository's own branches may be called so where git takes the name."""


def that_run(marker: str) -> list[str]:
    """Return names of branches that would make a file where they were run, or taken for an option."""
    touch = f"touch${{IFS}}{marker}"
    return [
        *(f"--upload-pack={touch}", f"--receive-pack={touch}", f"--exec={touch}", f"--output={marker}", f"-o{marker}"),
        *(f"$({touch})", f"`{touch}`", f";{touch};", f"|{touch}", f"&{touch}&", f"';{touch};'", f'";{touch};"'),
    ]
