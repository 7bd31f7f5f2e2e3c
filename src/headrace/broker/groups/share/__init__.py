"""Share groups (KIP-932): a topic read as a queue. Any number of members share its partitions record by record; each record
is acquired under a lock, and accepted, released, rejected or renewed by the one who holds it.

    runs          states of records, and runs of offsets that have one
    window        which records of a partition are available, acquired, done: runs of offsets, a pure state machine
    partition     a window on its log partition: acquiring what is read (`reading`), lock timeouts, waking those who wait
    state_rows    how a window is kept in the table `__share_group_state`, in Kafka's own format
    state_store   writes those rows, many at a time, and dead letters together with the row that says so
    dead_letters  what is rejected or was delivered too often goes to another topic, in the spirit of KIP-1191;
                  `dead_letter_records` says how it looks there
    assignor      which member reads which partitions (KIP-932's simple assignor)
    group         members, epochs, assignments; `member_rows` keeps them in `__consumer_offsets`
    sessions      share sessions: what a member fetches, told once
    coordinator   what the front end calls

Imports the rest of `broker.groups`, `log`, `record` and `clock`; imported by the broker and, through it, the front ends.
"""
