"""What a user may do with a topic: the permissions in virtual host `/`, where a stream queue and its topic have the same name.

`write` is for publishing, `read` for reading, `configure` for administration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.http.problems import Problem

if TYPE_CHECKING:
    from headrace.broker.vhosts.users import User

VHOST = "/"
ADMINISTRATOR, MONITORING = "administrator", "monitoring"


def monitors(user: User) -> bool:
    """Whether they see what is not theirs."""
    return ADMINISTRATOR in user.tags or MONITORING in user.tags


def check_monitors(user: User) -> None:
    """For what concerns the server as a whole. Raises Problem."""
    if not monitors(user):
        raise Problem(403, "forbidden", f"user '{user.name}' needs one of these tags: {ADMINISTRATOR}, {MONITORING}")


def check_administers(user: User) -> None:
    """Raises Problem."""
    if ADMINISTRATOR not in user.tags:
        raise Problem(403, "forbidden", f"user '{user.name}' needs the tag {ADMINISTRATOR}")


def check_topic_access(user: User, what: str, topic: str) -> None:
    """`what` is "configure", "write" or "read". Raises Problem."""
    permissions = user.permissions.get(VHOST)
    if permissions is None or not permissions.allows(what, topic):
        raise Problem(403, "forbidden", f"{what} access to topic '{topic}' refused for user '{user.name}'")
