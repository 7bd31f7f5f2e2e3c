"""Consumer groups as KIP-848 defines them and Apache Kafka 4.3 runs them: the server assigns, members reconcile.

A heartbeat is all there is. It tells the server what a member wants to read and which partitions it holds, and tells the
member which partitions it should hold. Three epochs carry it:

    group epoch        grows with every change that calls for a new assignment (a member, a subscription, a topic)
    assignment epoch   the group epoch that the target assignment was made for
    member epoch       the assignment epoch that a member has reached; it moves on when it has given up what it must

    heartbeat          what a ConsumerGroupHeartbeat does, step by step
    reconciliation     how one member moves towards its target: revoke first, then take what others have released
    targets            when a new target assignment is made; `uniform` and `range_assignor` make it
    fencing            members leave, time out, and are removed
    patterns           subscriptions by regular expression; `pattern_syntax` and `automaton` are RE2
    classic_members    members that still speak the classic protocol within such a group
    migration          a classic group becomes such a group, and back
    group, member      the books; `change` alters them together with the table; `rows` are Kafka's own record formats

Imports `broker.groups`' values, store and countdown, and `groups.classic` for migration; imported by the coordinator.
"""
