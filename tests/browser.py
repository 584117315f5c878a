"""A headless Chromium for tests, spoken to in plain WebDriver (https://www.w3.org/TR/webdriver2)."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")

KEYS = {"Enter": "\ue007", "ArrowLeft": "\ue012", "ArrowRight": "\ue014", " ": " ", "Tab": "\ue004"}


class Browser:
    """One window with a profile, and a folder for its downloads, below `folder`."""

    def __init__(self, folder: Path) -> None:
        self.downloads = folder / "downloads"
        self.downloads.mkdir()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self._log = (folder / "driver.log").open("wb")
        self._process = subprocess.Popen(
            [str(DRIVER), f"--port={port}"], stdout=self._log, stderr=subprocess.STDOUT
        )
        self._url = f"http://127.0.0.1:{port}"
        arguments = ["--headless=new", f"--user-data-dir={folder / 'profile'}", "--disable-gpu",
                     "--disable-dev-shm-usage", "--no-first-run"]  # fmt: skip
        if os.geteuid() == 0:
            arguments.append("--no-sandbox")
        options = {"binary": CHROMIUM, "args": arguments,
                   "prefs": {"download.default_directory": str(self.downloads)}}  # fmt: skip
        try:
            self._await_driver()
            session = self._call("POST", "/session", {
                "capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}
            })  # fmt: skip
        except BaseException:
            self._end()
            raise
        self._session = f"/session/{session['sessionId']}"

    def open(self, path: Path) -> None:
        self._call("POST", f"{self._session}/url", {"url": path.as_uri()})

    def run(self, script: str) -> Any:
        """Value of a JavaScript function body, such as ``return document.title``."""
        return self._call("POST", f"{self._session}/execute/sync", {"script": script, "args": []})

    def press(self, *keys: str) -> None:
        steps = [
            {"type": kind, "value": KEYS.get(key, key)}
            for key in keys
            for kind in ("keyDown", "keyUp")
        ]
        actions = [{"type": "key", "id": "keyboard", "actions": steps}]
        self._call("POST", f"{self._session}/actions", {"actions": actions})

    def reload(self) -> None:
        self._call("POST", f"{self._session}/refresh", {})

    def downloaded(self, seconds: float = 20.0) -> Path:
        """The file that was downloaded, once it is whole."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            files = list(self.downloads.glob("*.json"))
            if files:
                return files[0]
            time.sleep(0.1)
        raise AssertionError(f"nothing was downloaded within {seconds} s")

    def close(self) -> None:
        try:
            self._call("DELETE", self._session, None)
        finally:
            self._end()

    def _end(self) -> None:
        self._process.terminate()
        self._process.wait(20)
        self._log.close()

    def _await_driver(self) -> None:
        end = time.monotonic() + 60
        while True:
            try:
                if self._call("GET", "/status", None)["ready"]:
                    return
            except (urllib.error.URLError, ConnectionError):
                if time.monotonic() > end or self._process.poll() is not None:
                    raise
            time.sleep(0.1)

    def _call(self, method: str, path: str, body: Any) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self._url + path, data, {"Content-Type": "application/json"}, method=method
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=120) as response:
                return json.load(response)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(error.read().decode("utf-8", "replace")[:2000]) from None
