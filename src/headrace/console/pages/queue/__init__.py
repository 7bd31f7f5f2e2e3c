"""One queue: /queues/{vhost}/{queue}. How full it is, what it was told, who consumes, what is in it, and what can be done.

page       puts it together, and shows its state
messages   looking at what is in it (nothing is consumed), and getting messages out of it
acting     move, purge, delete
"""

from headrace.console.frame import Page
from headrace.console.pages.queue.page import queue

PAGES = [Page("/queues/{rest:path}", "Queue", queue)]
