"""A headless Chromium, controlled through its DevTools pipe: opens a page, records console errors and network requests, presses keys
and takes screenshots. It uses only the Python standard library."""
import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def find_chromium():
    return next((found for found in map(shutil.which, NAMES) if found), None)


class Chromium:
    """with Chromium() as browser: browser.open(path). `errors`: console errors and warnings; `requests`: URLs requested except the
    page."""

    def __init__(self, width=1200, height=900):
        self.folder = tempfile.TemporaryDirectory()
        to_browser, self.out = os.pipe()
        self.into, from_browser = os.pipe()
        command = [find_chromium(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                 f"--user-data-dir={self.folder.name}", f"--window-size={width},{height}", "--remote-debugging-pipe"]
        # The browser reads from descriptor 3 and writes to descriptor 4; the shell connects them to the pipes.
        script = f'exec 3<&{to_browser} 4>&{from_browser}; exec "$@"'
        self.process = subprocess.Popen(["bash", "-c", script, "sh", *command], pass_fds=(to_browser, from_browser),
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser), os.close(from_browser)
        self.numbers, self.unread, self.session = itertools.count(1), b"", None
        self.errors, self.requests, self.loaded = [], [], False
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.out), os.close(self.into)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for _ in range(20):  # helper processes of the browser may still write
            try:
                return self.folder.cleanup()
            except OSError:
                time.sleep(0.1)

    def call(self, method, timeout=60, **parameters):
        """Returns the result of a command of the DevTools protocol; records the events that arrive before the result."""
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + timeout
        while True:
            answer = self.receive(until)
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]

    def receive(self, until):
        while b"\0" not in self.unread:
            ready, _, _ = select.select([self.into], [], [], max(0, until - time.monotonic()))
            assert ready, "no message from the browser within the timeout"
            got = os.read(self.into, 1 << 20)
            assert got, "the browser has ended"
            self.unread += got
        text, self.unread = self.unread.split(b"\0", 1)
        message = json.loads(text)
        self.record(message.get("method"), message.get("params"))
        return message

    def record(self, event, parameters):
        if event == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif event == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.errors.append(" ".join(str(a.get("value", a.get("description"))) for a in parameters["args"]))
        elif event == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.errors.append(parameters["entry"]["text"])
        elif event == "Network.requestWillBeSent" and not parameters["request"]["url"].startswith(("data:", "blob:")):
            self.requests.append(parameters["request"]["url"])
        elif event == "Page.loadEventFired":
            self.loaded = True

    def open(self, path, timeout=60):
        """Returns the seconds until the load event and two further frames. `requests` does not contain the page itself."""
        began, until = time.monotonic(), time.monotonic() + timeout
        self.errors.clear(), self.requests.clear()
        self.loaded, url = False, path.resolve().as_uri()
        self.call("Page.navigate", url=url)
        while not self.loaded:
            self.receive(until)
        self.script("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        seconds = time.monotonic() - began
        self.requests = [request for request in self.requests if request != url]
        return seconds

    def script(self, text):
        done = self.call("Runtime.evaluate", expression=text, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def media(self, media="", scheme="light"):
        self.call("Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": scheme}])

    def press(self, key):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def screenshot(self, path, whole=True):
        done = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(done["data"]))

    def pdf(self, path):
        path.write_bytes(base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"]))

    def names(self, role):
        """Returns the accessible names of the elements with this role, as a screen reader announces them."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [n.get("name", {}).get("value", "") for n in nodes
                if not n.get("ignored") and n.get("role", {}).get("value") == role]

    def draw_all(self):
        """Draws every chart of the page, including those outside the viewport."""
        self.script("plots().forEach(draw)")
        self.script("new Promise(done => setTimeout(done, 300))")
