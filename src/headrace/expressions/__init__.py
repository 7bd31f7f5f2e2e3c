"""Filters and transforms of records, written in CEL, the Common Expression Language.

    expressions   what somebody wrote: a filter, and what becomes of value, key and headers
    program       the same compiled (by Google's cel-cpp): records in, records or reasons out
    here          evaluates in this process
    child         evaluates in a process of its own: what runs there
    processes     the same: who starts it, and what becomes of a record that it does not survive
    later         the same, loaded with the first expression

An expression can't do anything but compute, but what it computes may take seconds or gigabytes: the library bounds iterations
(10,000) and nesting (32), not the work in each of them. So a server evaluates in processes with a limit on time and memory.

Imports `record` and nothing else of Headrace.
"""
