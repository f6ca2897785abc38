"""browser.py: a real browser without a window, for tests of the page: Debian's chromium, driven by chromedriver's HTTP."""
import base64
import json
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.request

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--lang=en")
START_WAIT_S, WAIT_S = 60, 60
# Skips a test class that needs a browser if none is installed.
needs_one = unittest.skipUnless(CHROMIUM and DRIVER, "SKIPPED: no chromium and chromedriver (Debian: chromium chromium-driver): the page is looked at by no browser")


class Browser:
    """One browser window. `with Browser() as browser: …`"""

    def __init__(self):
        self.profile = tempfile.mkdtemp(prefix="tarry-browser-")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.driver = subprocess.Popen([DRIVER, f"--port={self.port}", "--allowed-ips=127.0.0.1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.session = None

    def _ask(self, method, path, body=None):
        data = json.dumps(body if body is not None else {}).encode() if method == "POST" else None
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data=data, method=method, headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as refused:
            with refused:
                raise AssertionError(refused.read().decode()) from None

    def __enter__(self):
        end = time.monotonic() + START_WAIT_S
        while True:
            try:
                if self._ask("GET", "/status")["ready"]:
                    break
            except OSError:
                pass
            if time.monotonic() > end:
                raise AssertionError("chromedriver does not start")
            time.sleep(0.05)
        options = {"binary": CHROMIUM, "args": [*FLAGS, f"--user-data-dir={self.profile}"]}
        wanted = {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}
        self.session = "/session/" + self._ask("POST", "/session", {"capabilities": wanted})["sessionId"]
        return self

    def __exit__(self, *_):
        try:
            if self.session:
                self._ask("DELETE", self.session)
        finally:
            self.driver.send_signal(signal.SIGTERM)
            self.driver.wait()
            shutil.rmtree(self.profile, ignore_errors=True)

    def open(self, url):
        self._ask("POST", self.session + "/url", {"url": url})

    def run(self, script, *arguments):
        """Runs the script, and returns its result."""
        return self._ask("POST", self.session + "/execute/sync", {"script": script, "args": list(arguments)})

    def wait(self, script, *arguments, what=None):
        end = time.monotonic() + WAIT_S
        while not (found := self.run(script, *arguments)):
            if time.monotonic() > end:
                raise AssertionError(f"{what or script}: not within {WAIT_S} s; the page says: {self.run('return document.body.innerText')[:800]}")
            time.sleep(0.05)
        return found

    def keys(self, text):
        """Types the text at the focus; \ue004 is Tab, \ue007 Enter."""
        actions = [{"type": kind, "value": key} for key in text for kind in ("keyDown", "keyUp")]
        self._ask("POST", self.session + "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def media(self, **features):
        found = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self._ask("POST", self.session + "/goog/cdp/execute", {"cmd": "Emulation.setEmulatedMedia", "params": {"features": found}})

    def size(self, width, height, mobile=False):
        params = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
        self._ask("POST", self.session + "/goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride", "params": params})

    def log(self):
        """Returns new console messages: errors, and refusals by the content security policy."""
        return [entry["message"] for entry in self._ask("POST", self.session + "/se/log", {"type": "browser"})]

    def picture(self):
        """Returns a screenshot as PNG in base64."""
        return self._ask("GET", self.session + "/screenshot")

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.picture()))
