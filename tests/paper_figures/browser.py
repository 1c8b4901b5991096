"""A headless Chromium driven over its DevTools pipe: enough to load a page, ask it questions, and print it."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE = 1800.0
"""Seconds until an answer of the browser counts as lost."""
PRINT_PATIENCE = (60.0, 120.0, 240.0, 480.0, 960.0)
"""The same for a print, of one browser after the other."""

BECOME = """
import fcntl, os, sys
inp, out = (fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3])
os.dup2(inp, 3)
os.dup2(out, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""The browser reads commands from descriptor 3 and answers on 4."""


def find_browser() -> str | None:
    """The first of ``NAMES`` on the path."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class NoAnswerError(RuntimeError):
    """The browser does not answer."""


class Browser:
    """One page in one browser. ``events`` holds what the page reported; every call returns its result."""

    def __init__(self, program: str, profile: Path) -> None:
        (theirs_in, ours_out), (ours_in, theirs_out) = os.pipe(), os.pipe()
        flags = "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --hide-scrollbars"
        command = [program, *flags.split(), f"--user-data-dir={profile}", "--remote-debugging-pipe"]
        self.process = subprocess.Popen(
            [sys.executable, "-c", BECOME, str(theirs_in), str(theirs_out), *command],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self.out, self.inp, self.unread = ours_out, ours_in, b""
        self.count, self.session, self.events = 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Log", "Runtime", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, *, patience: float = PATIENCE, **params: Any) -> dict[str, Any]:
        """One DevTools command."""
        self.count += 1
        message = {"id": self.count, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while (answer := self.read(patience)).get("id") != self.count:
            self.events.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def read(self, patience: float = PATIENCE) -> dict[str, Any]:
        """The next message of the browser."""
        end = time.monotonic() + patience
        while b"\0" not in self.unread:
            ready, _, _ = select.select([self.inp], [], [], max(0.0, end - time.monotonic()))
            chunk = os.read(self.inp, 1 << 20) if ready else b""
            if not chunk:
                raise NoAnswerError("the browser does not answer")
            self.unread += chunk
        message, _, self.unread = self.unread.partition(b"\0")
        return json.loads(message)

    def open(self, page: Path, *, width: int, height: int = 844, dark: bool = False) -> None:
        """Load a file, ``width`` CSS pixels wide; what earlier pages reported is forgotten."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.events = []
        self.call("Page.navigate", url=page.resolve().as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.read())

    def ask(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page; a promise is waited for."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def complaints(self) -> list[str]:
        """Errors and warnings in the console, and exceptions that nobody caught."""
        self.ask("new Promise(done => setTimeout(done, 200))")
        found = []
        for event in self.events:
            what, params = event.get("method"), event.get("params", {})
            if what == "Log.entryAdded" and params["entry"]["level"] in {"error", "warning"}:
                found.append(params["entry"]["text"])
            if what == "Runtime.consoleAPICalled" and params["type"] in {"error", "warning", "assert"}:
                found.append(str(params["args"]))
            if what == "Runtime.exceptionThrown":
                found.append(str(params["exceptionDetails"]))
        return found

    def requests(self) -> list[str]:
        """Addresses that the page asked for, itself included, pictures inside it excluded."""
        sent = [event["params"]["request"]["url"] for event in self.events
                if event.get("method") == "Network.requestWillBeSent"]  # fmt: skip
        return [url for url in sent if not url.startswith("data:")]

    def screenshot(self, file: Path, *, whole: bool = False) -> None:
        """A PNG of what is in view, or of the whole page."""
        answer = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(answer["data"]))

    def pdf(self, patience: float) -> bytes:
        """The page as it prints."""
        answer = self.call("Page.printToPDF", patience=patience, preferCSSPageSize=True)
        return base64.b64decode(answer["data"])

    def close(self) -> None:
        """Ask it to go, and make sure that it has."""
        self.session = None
        with contextlib.suppress(RuntimeError, OSError):
            self.call("Browser.close", patience=10)
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, 9)
            self.process.wait()
        os.close(self.out)
        os.close(self.inp)


def print_page(program: str, page: Path, folder: Path, *, width: int) -> bytes:
    """A page as a browser with a dark screen prints it; ``folder`` is for profiles.

    On a busy machine Chromium 150 once started a print and never answered; another one is asked then.
    """
    for patience in PRINT_PATIENCE:
        started = Browser(program, folder / f"profile-{patience:.0f}")
        with contextlib.closing(started) as browser, contextlib.suppress(NoAnswerError):
            browser.open(page, width=width, dark=True)
            return browser.pdf(patience)
    raise NoAnswerError(f"none of {len(PRINT_PATIENCE)} browsers printed the page")
