"""Client quotas: how much a client may send, receive, compute and change, and how long it has to pause when it did more.

    rate       Kafka's windowed rate and its token bucket: amounts in, milliseconds to wait out
    entity     whom a quota is for: a user, a client id, both, an address, or the default of any
    store      which quotas there are, in the table `__headrace_client_quotas`
    quotas     which of them holds for a client, and what that client has used

Nothing here knows a connection: a front end asks how long to pause and does it (`headrace.kafka.throttle`). Imports `log`,
`clock` and the settings; imported by the front ends.
"""

from headrace.broker.quotas.entity import CLIENT_ID, IP, USER, Alteration, Entity, EntityFilter
from headrace.broker.quotas.quotas import ClientMeters, ClientQuotas

__all__ = ["CLIENT_ID", "IP", "USER", "Alteration", "ClientMeters", "ClientQuotas", "Entity", "EntityFilter"]
