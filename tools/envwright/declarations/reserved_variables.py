"""Variables that no environment's code may see, whatever a registry declares."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_RESERVED: Mapping[str, str] = {
    r"PRIME_.*": "it belongs to the client of the Hub and the platform",
    r"ENVWRIGHT_.*": "it is a setting of this tool",
    r"(GITHUB|GH|ACTIONS|RUNNER|INPUT)_.*|CI": "it belongs to GitHub's runner, often as a token",
    r"(SSH|GPG|DBUS|SUDO|DOCKER)_.*|KUBECONFIG|XAUTHORITY|NETRC": "it gives access to programs or accounts of the user",
    r"HOME|PATH|PWD|OLDPWD|SHELL|USER|LOGNAME|TMPDIR|TMP|TEMP|TERM|LANG|LC_.*|XDG_.*": "a worker has its own value",
    r"(LD|DYLD|BASH|MALLOC|GLIBC|OPENSSL)_.*|ENV|IFS|LOCPATH|GCONV_PATH": "it decides which code programs load",
    r"NODE_(OPTIONS|PATH)|RUBY(OPT|LIB)|PERL5(OPT|LIB)|JAVA_TOOL_OPTIONS": "it decides which code programs load",
    r"PYTHON.*|PYENV_.*|PYTEST_.*|COVERAGE_.*|VIRTUAL_ENV.*|CONDA_.*": "it decides which code Python loads",
    r"(UV|PIP|PIPX|POETRY|PDM|HATCH|TWINE|NOX|GIT)_.*": "it is a setting of an installer or of git",
    r"(HTTPS?|ALL|NO|FTP)_PROXY|(SSL|REQUESTS_CA|CURL_CA)_.*|SSLKEYLOGFILE": "it decides how the network is reached",
}
"""The pattern of a name, and why it is reserved."""


def reason_against(name: str) -> str:
    """Why an environment's code may not see this variable, or nothing."""
    return next((why for pattern, why in _RESERVED.items() if re.fullmatch(pattern, name)), "")
