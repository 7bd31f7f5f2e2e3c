"""The classic group protocol (JoinGroup, SyncGroup, Heartbeat, LeaveGroup), as Kafka's GroupMetadataManager runs it.

    member    one member: its protocols, assignment, parked answers and session
    group     one group: members, leader, generation, votes; no timers of its own will, no storage
    rebalance the steps from generation to generation
    joining   what a JoinGroup does
    syncing   what a SyncGroup does
    staying   heartbeats, leaving, and what happens when a session runs out

Answers are given through callbacks, because most of them wait for other members. Imports `broker.groups`' values, store
and countdown; imported by its coordinator alone.
"""
