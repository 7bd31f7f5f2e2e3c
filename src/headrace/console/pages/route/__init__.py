"""One route: how it gets on (`page`), what it can be told (`acting`), its filter tried out (`trial`), and of one that sends
webhooks what it has sent (`attempts`) and how the receiver knows it (`secrets`)."""

from headrace.console.frame import Page
from headrace.console.pages.route.page import route

PAGES = [Page("/routes/{route}", "Route", route)]
