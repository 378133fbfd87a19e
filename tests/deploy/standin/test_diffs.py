"""Changed files out of git's own words."""

from __future__ import annotations

from deploy.standin.diffs import ChangedFile, changed_files

A, B, NONE = "a" * 40, "b" * 40, "0" * 40


def test_each_kind_of_change_has_github_s_word_and_its_own_hunks() -> None:
    raw = "\0".join(
        [
            f":100644 100644 {A} {B} M", "a.py",
            f":000000 100644 {NONE} {B} A", "new name.txt",
            f":100644 000000 {A} {NONE} D", "gone.txt",
            f":100644 100644 {A} {A} R100", "old.txt", "moved.txt",
            f":100644 100644 {A} {B} M", "image.png",
            "2\t1\ta.py", "1\t0\tnew name.txt", "0\t3\tgone.txt", "0\t0\t", "old.txt", "moved.txt", "-\t-\timage.png",
            "",
        ]
    )  # fmt: skip
    patch = (
        "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1,1 +1,2 @@\n-diff --git\n+one\n+two\n"
        "diff --git a/new name.txt b/new name.txt\nnew file mode 100644\n@@ -0,0 +1 @@\n+x\n"
        "diff --git a/gone.txt b/gone.txt\n@@ -1,3 +0,0 @@\n-1\n-2\n-3\n"
        "diff --git a/old.txt b/moved.txt\nsimilarity index 100%\n"
        "diff --git a/image.png b/image.png\nBinary files differ\n"
    )
    assert changed_files(raw.encode(), patch.encode()) == (
        ChangedFile("a.py", "modified", B, 2, 1, None, "@@ -1,1 +1,2 @@\n-diff --git\n+one\n+two"),
        ChangedFile("new name.txt", "added", B, 1, 0, None, "@@ -0,0 +1 @@\n+x"),
        ChangedFile("gone.txt", "removed", A, 0, 3, None, "@@ -1,3 +0,0 @@\n-1\n-2\n-3"),
        ChangedFile("moved.txt", "renamed", A, 0, 0, "old.txt", None),
        ChangedFile("image.png", "modified", B, 0, 0, None, None),
    )


def test_no_change_is_no_file() -> None:
    assert changed_files(b"", b"") == ()
