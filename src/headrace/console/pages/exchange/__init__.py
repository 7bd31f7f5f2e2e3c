"""One exchange: /exchanges/{vhost}/{exchange}. Its bindings, both ways, and where a message would go.

page     puts it together
trial    "where would this message go?": nothing is published
"""

from headrace.console.frame import Page
from headrace.console.pages.exchange.page import exchange

PAGES = [Page("/exchanges/{rest:path}", "Exchange", exchange)]
