"""How far apart two versions are."""

from __future__ import annotations

from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

MINOR = 1
"""Place of the minor number: a step at this place or before it is at least a minor one."""


@dataclass(frozen=True)
class VersionStep:
    """The way from one version to another."""

    before: Version
    after: Version

    @property
    def direction(self) -> int:
        """Above zero where the version rises, below where it falls."""
        return (self.after > self.before) - (self.after < self.before)

    @property
    def place(self) -> int | None:
        """Which number rises by one while those after it become zero (0 is the major one).

        `None` where that is not what happens. Between two forms of one release, as from a
        release candidate to the release, it is 0: whatever changed, nobody had the release.
        """
        before, after = self._numbers(self.before), self._numbers(self.after)
        if before == after:
            return 0 if self.before.is_prerelease or self.after.is_postrelease else None
        return next((place for place in range(len(before)) if after == _raised(before, place)), None)

    def _numbers(self, version: Version) -> tuple[int, ...]:
        length = max(3, len(self.before.release), len(self.after.release))
        return version.release + (0,) * (length - len(version.release))


def version_step(before: str, after: str) -> VersionStep | None:
    """The step between two versions; `None` where one of them is no version."""
    try:
        return VersionStep(Version(before), Version(after))
    except InvalidVersion:
        return None


def next_versions(version: str) -> tuple[str, str, str]:
    """The next patch, minor and major version.

    Raises `InvalidVersion`.
    """
    parsed = Version(version)
    numbers = (*parsed.release, 0, 0)[: max(3, len(parsed.release))]
    # What comes after a pre-release is the release that it came before.
    patch = numbers if parsed.is_prerelease else _raised(numbers, len(numbers) - 1)
    texts = (patch, _raised(numbers, 1), _raised(numbers, 0))
    return (_text(texts[0]), _text(texts[1]), _text(texts[2]))


def _raised(numbers: tuple[int, ...], place: int) -> tuple[int, ...]:
    return (*numbers[:place], numbers[place] + 1, *(0 for _ in numbers[place + 1 :]))


def _text(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))
