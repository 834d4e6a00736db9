"""A stand-in for the program `vllm`, which is not installed here.

Assumed of the real one: `vllm serve MODEL` with the options in `SERVE`, `--enable-lora`, `--host` and `--port`, an
OpenAI-compatible API below /v1 that lists the served names and those of `--lora-modules`, and an exit code that is not
0 if the model does not load. It replies with the reversed text or with
`FAKE_VLLM_REPLY`, waits `FAKE_VLLM_SECONDS` before it listens, and fails
if `FAKE_VLLM_FAILS` is set. Its process id and its variables go to the file `FAKE_VLLM_NOTES`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

SERVE = (
    "--served-model-name",
    "--hf-config-path",
    "--tokenizer",
    "--max-lora-rank",
    "--lora-modules",
    "--max-model-len",
    "--default-chat-template-kwargs",
)


def executable(folder: Path) -> Path:
    """The program as an executable file in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "vllm"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {__file__} "$@"\n')
    program.chmod(0o755)
    return program


def running(pids: list[int]) -> list[int]:
    """Those of the processes that have not ended."""
    return [pid for pid in pids if Path(f"/proc/{pid}").exists() and "\nState:\tZ" not in _status(pid)]


def _status(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return "\nState:\tZ"


def write_adapter(folder: Path, rank: int) -> None:
    """An adapter with one tensor, in the format of safetensors: length of the header, header, tensors."""
    folder.mkdir(parents=True)
    header = json.dumps({"lora_A": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    (folder / "adapter_model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": rank}))


class _Api(BaseHTTPRequestHandler):
    names: tuple[str, ...] = ()

    def do_GET(self) -> None:
        self._send(200 if self.path == "/v1/models" else 404, {"data": [{"id": name} for name in self.names]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = str(body["messages"][-1]["content"]).partition("<text>")[2].partition("</text>")[0]
        said = os.environ.get("FAKE_VLLM_REPLY", f"<reversed_text>{text[::-1]}</reversed_text>")
        reply = {"role": "assistant", "content": said}
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        choice = {"index": 0, "message": reply, "finish_reason": "stop"}
        answer = {"id": "1", "object": "chat.completion", "created": 0, "model": body["model"], "usage": usage}
        self._send(200 if body["model"] in self.names else 404, {**answer, "choices": [choice]})

    def _send(self, status: int, value: Any) -> None:
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Print nothing."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["serve"])
    parser.add_argument("model")
    parser.add_argument("--host", required=True, choices=["127.0.0.1"])
    parser.add_argument("--port", required=True, type=int)
    parser.add_argument("--enable-lora", action="store_true")
    for name in SERVE:
        parser.add_argument(name)
    options = parser.parse_args()
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])  # as vLLM's engine is
    if notes := os.environ.get("FAKE_VLLM_NOTES"):
        known = {"pids": [os.getpid(), child.pid], "arguments": sys.argv[1:], "variables": dict(os.environ)}
        Path(notes).write_text(json.dumps(known))
    if os.environ.get("FAKE_VLLM_FAILS"):
        sys.exit("ValueError: no kernel image is available for this GPU")
    time.sleep(float(os.environ.get("FAKE_VLLM_SECONDS", "0")))
    adapter = (options.lora_modules or "").partition("=")[0]
    _Api.names = tuple(filter(None, (options.served_model_name or options.model, adapter)))
    ThreadingHTTPServer((options.host, options.port), _Api).serve_forever()


if __name__ == "__main__":
    main()
