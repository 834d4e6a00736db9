"""Pull requests that workflows make: for each one branch that is overwritten, and one pull request that is edited."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from envwright.github.api import GitHub, GitHubError

BRANCH = "envwright/locks"
TITLE = "Renew the locks of the environments"


def propose(
    github: GitHub,
    base: str,
    files: Mapping[str, str],
    body: str,
    target: str = "main",
    *,
    branch: str = BRANCH,
    title: str = TITLE,
) -> Literal["made", "edited", "unchanged"]:
    """Commit the files, by path, on top of `base`, and make or edit the pull request. Raises `GitHubError`.

    Only the named files differ from `base`. The branch holds nothing else: earlier proposals are replaced.
    """
    entries = [{"path": path, "mode": "100644", "type": "blob", "content": text} for path, text in files.items()]
    tree = github.send("POST", "git/trees", {"base_tree": _tree(github, base), "tree": entries})["sha"]
    known = commit_of(github, f"heads/{branch}")
    is_same = known is not None and _tree(github, known) == tree
    if not is_same:
        commit = github.send("POST", "git/commits", {"message": title, "tree": tree, "parents": [base]})["sha"]
        point(github, f"heads/{branch}", known, commit)
    owner = github.repository.partition("/")[0]
    for pull in github.all("pulls", state="open", head=f"{owner}:{branch}"):
        if is_same:
            return "unchanged"
        github.send("PATCH", f"pulls/{pull['number']}", {"body": body})
        return "edited"
    github.send("POST", "pulls", {"title": title, "head": branch, "base": target, "body": body})
    return "made"


def _tree(github: GitHub, commit: str) -> str:
    return str(github.get(f"git/commits/{commit}")["tree"]["sha"])


def commit_of(github: GitHub, reference: str) -> str | None:
    """What a reference points to; `None` if it does not exist. Raises `GitHubError`."""
    try:
        return str(github.get(f"git/ref/{reference}")["object"]["sha"])
    except GitHubError as error:
        if error.status != 404:
            raise
        return None


def point(github: GitHub, reference: str, known: str | None, commit: str) -> None:
    """Create a reference, or move it from the commit `known`. Raises `GitHubError`."""
    if known is None:
        github.send("POST", "git/refs", {"ref": f"refs/{reference}", "sha": commit})
    else:
        github.send("PATCH", f"git/refs/{reference}", {"sha": commit, "force": True})
