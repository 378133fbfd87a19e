"""The oracle of the tests: what goes to the stand-in GitHub and comes from it is held against GitHub's own description.

`Watch` is what a test run uses. The descriptions are cuts of those that GitHub publishes, below `tests/data`.
"""

from github_contract.violation import Violation
from github_contract.watch import Watch

__all__ = ["Violation", "Watch"]
