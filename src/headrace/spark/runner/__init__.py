"""`headrace pipeline`: finds a pipeline, runs it, shows and publishes how it gets on, remembers it.

    finding     from what was typed to a function: a name of the gallery, a module, a file;  settings: what it can be told
    home        the folder of a pipeline under the data folder: checkpoints, tables, log, the record and the lock of its run
    running     one run, from the session to its end;  watching: polls the queries;  starting: one by one
    progress    Spark's progress in our words;  publishing: the same in a topic;  failing: the line of an error that matters
    telling     that a run lives, and its log, as topics;  log_lines: a log file as entries
    feeding     writes the events of the gallery's generators

Nothing here prints: a run tells a `Spectator` what happens, and the command line is one.
"""
