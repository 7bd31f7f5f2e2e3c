"""A page that shows events as they come, with server-sent events. No library in the page, and no code for lost connections.

    python sse_page.py                   starts a server of its own and a small web server for the page; open what it prints
    python sse_page.py --every 0.2       a measurement every 0.2 s

The page is yours, so it comes from a web server of yours, and Headrace has to be told that it may ask:
`headrace serve --set headrace.http.origins=http://127.0.0.1:8000` (here `HeadraceServer(settings=…)`). The browser does the
rest: an EventSource that loses its connection comes back by itself, says which event it has seen last, and goes on behind it.
Kill the server and start it again: nothing is missing on the page, and nothing is there twice.

What is lost when nobody has the page open? Everything, with `from=latest`: a new page knows of no last event. One option makes
up for it: the page keeps the id of the last event (`localStorage`) and begins with `position=<id>`. Open `/` and it goes on
where it was; open `/?forget` to see what it is like without.
"""

from __future__ import annotations

import argparse
import json
import math
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from headrace.testing import HeadraceServer

TOPIC = "temperatures"
PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Temperatures</title>
<style>
  body { font: 16px system-ui, sans-serif; max-width: 40rem; margin: 2rem auto; }
  li { font-variant-numeric: tabular-nums; }
</style>
<h1>Temperatures</h1>
<p id="state">connecting …</p>
<ol id="events" reversed></ol>
<script>
  const remember = !location.search.includes("forget");
  const last = remember && localStorage.getItem("last");
  const where = last ? "position=" + encodeURIComponent(last) : "from=latest";
  const source = new EventSource("HEADRACE/v1/topics/TOPIC/stream?" + where);
  const state = document.getElementById("state");

  source.onopen = () => { state.textContent = last ? "going on where it was" : "from now on"; };
  source.onerror = () => { state.textContent = "the server is away; the browser tries again"; };
  source.onmessage = message => {
    const event = JSON.parse(message.data);
    const item = document.createElement("li");
    item.value = event.value.number;
    item.textContent = event.key + ": " + event.value.celsius + " °C";  // text, whatever somebody published
    document.getElementById("events").prepend(item);
    if (remember) localStorage.setItem("last", message.lastEventId);
  };
  source.addEventListener("gap", notice => { state.textContent = "some are too old to be had: " + notice.data; });
</script>
"""


def serve_page(port: int) -> ThreadingHTTPServer:
    """A web server with one page. What Headrace is called is filled in when it is known."""

    class OnePage(BaseHTTPRequestHandler):
        page = b""

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(self.page)

        def log_message(self, format: str, *args: object) -> None:
            """Nobody has to know."""

    return ThreadingHTTPServer(("127.0.0.1", port), OnePage)


def measure(headrace: str, every_s: float, stop: threading.Event) -> None:
    """Publishes one measurement after the other."""
    number = 0
    while not stop.wait(every_s):
        number += 1
        value = {"number": number, "celsius": round(20 + 5 * math.sin(number / 10), 1)}
        request = urllib.request.Request(f"{headrace}/v1/topics/{TOPIC}/events", method="POST")
        request.add_header("content-type", "application/json")
        request.add_header("idempotency-key", f"measurement-{number}")  # a second try stores nothing twice
        try:
            urllib.request.urlopen(request, json.dumps({"key": "cellar", "value": value}).encode(), timeout=10).close()
        except OSError:
            number -= 1  # the server is away: the same again


def main() -> None:
    parser = argparse.ArgumentParser(description="A page that shows events as they come.")
    parser.add_argument("--port", type=int, default=8000, help="of the page; 0 takes a free one")
    parser.add_argument("--every", type=float, default=1.0, help="seconds between two measurements")
    options = parser.parse_args()
    web = serve_page(options.port)
    page_url = f"http://127.0.0.1:{web.server_address[1]}"
    stop = threading.Event()
    with HeadraceServer(settings={"headrace.http.origins": page_url, "num.partitions": 1}) as server:
        filled = PAGE.replace("HEADRACE", server.http).replace("TOPIC", TOPIC)
        web.RequestHandlerClass.page = filled.encode()  # type: ignore[attr-defined]
        measuring = threading.Thread(target=measure, args=(server.http, options.every, stop))
        measuring.start()
        print(f"Headrace is at {server.http}; open {page_url}/ in a browser. Ctrl-C ends it.", flush=True)
        try:
            web.serve_forever()
        except KeyboardInterrupt:
            print("bye")
        finally:
            stop.set()
            measuring.join()


if __name__ == "__main__":
    main()
