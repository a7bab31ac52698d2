"""The hub's answers, from a real HTTP server on this machine, become one clear line each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tiny_models import save_model

SHA = "0123456789abcdef0123456789abcdef01234567"


class _Hub(BaseHTTPRequestHandler):
    """A small part of the hub: one open model, one gated one, one that answers with an error."""

    folder: Path
    served: list[str]

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def _answer(self, *, body: bool) -> None:
        path = self.path.split("?")[0].strip("/")
        if path.startswith("api/models/team/"):
            self._send(json.dumps(self._description(path)).encode(), body=body)
        elif path.startswith("team/open/resolve/"):
            file = self.folder / path.rpartition("/")[2]
            self.served.append(file.name)
            self._send(file.read_bytes(), body=body)
        elif path.startswith("team/gated/resolve/"):
            self._refuse(403, "GatedRepo")
        elif path.startswith("api/models/down/"):
            self._refuse(500, "Trouble")
        else:
            self._refuse(404, "RepoNotFound")

    def _description(self, path: str) -> dict[str, object] | list[dict[str, object]]:
        names = [file.name for file in self.folder.iterdir()]
        if "/tree/" in path:
            sizes = {name: (self.folder / name).stat().st_size for name in names}
            return [{"type": "file", "path": name, "size": sizes[name], "oid": SHA} for name in names]
        model = "/".join(path.split("/")[2:4])
        return {"id": model, "modelId": model, "sha": SHA, "siblings": [{"rfilename": name} for name in names]}

    def _send(self, content: bytes, *, body: bool) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", f'"{len(content)}"')
        self.send_header("X-Repo-Commit", SHA)
        self.end_headers()
        if body:
            self.wfile.write(content)

    def _refuse(self, status: int, code: str) -> None:
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Print nothing."""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadingHTTPServer]:
    _Hub.folder = save_model(tmp_path_factory.mktemp("hub") / "open", "gpt2")
    (_Hub.folder / "pytorch_model.bin").write_bytes(b"another copy of the weights")
    _Hub.served = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()


def load(hub: ThreadingHTTPServer, cache: Path, model: str, **environment: str) -> str:
    """Load a model in a fresh process, since the hub's address is read when its library is imported."""
    code = (
        "import sys; from energyscope.errors import EnergyscopeError; from energyscope.loading import load_model\n"
        "try: print('loaded', load_model(sys.argv[1], device='cpu').weights)\n"
        "except EnergyscopeError as error: print(type(error).__name__, error)"
    )
    address = {"HF_ENDPOINT": f"http://127.0.0.1:{hub.server_port}", "HF_HOME": str(cache), "HF_HUB_OFFLINE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", code, model],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **address, **environment},
        timeout=500,
    )
    assert done.stderr == ""
    return done.stdout.strip()


def test_model_is_downloaded_once_and_then_cached(hub: ThreadingHTTPServer, tmp_path: Path) -> None:
    """WHEN a hub id is loaded THEN its safetensors are fetched, no second copy; later the cache will do."""
    assert load(hub, tmp_path, "team/open") == "loaded pretrained"
    assert "model.safetensors" in _Hub.served
    assert "pytorch_model.bin" not in _Hub.served
    assert load(hub, tmp_path, "team/open", HF_HUB_OFFLINE="1") == "loaded pretrained"


@pytest.mark.parametrize(
    ("model", "environment", "answer"),
    [
        (
            "team/gated",
            {},
            "ModelError team/gated is gated: accept its terms on its page and run `hf auth login`, or give a",
        ),
        ("nobody/nothing", {}, "ModelError the hub has no model 'nobody/nothing'"),
        ("down/model", {}, "ModelError down/model is not in the local cache and the hub answered: "),
        (
            "team/open",
            {"HF_HUB_OFFLINE": "1"},
            "ModelError team/open is not in the local cache and HF_HUB_OFFLINE",
        ),
        ("bad id/model", {}, "ModelError 'bad id/model' is not a Hugging Face id"),
    ],
)
def test_refusals_say_what_to_do(
    hub: ThreadingHTTPServer, tmp_path: Path, model: str, environment: dict[str, str], answer: str
) -> None:
    """WHEN the hub refuses, fails or may not be asked THEN one line says which and what to do."""
    line = load(hub, tmp_path, model, **environment)
    assert line.startswith(answer)
    assert "\n" not in line


def test_a_gated_model_whose_shape_we_ship_is_offered_by_its_short_name() -> None:
    """GIVEN the hub id of a model that we know THEN its short name is what works without a token."""
    from energyscope.loading.hub import _ungated

    assert _ungated("meta-llama/Llama-3.2-1B") == "llama-3.2-1b"
    assert "energyscope models" in _ungated("someone/else")
