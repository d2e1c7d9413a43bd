"""A real Open WebUI of two workers on PostgreSQL and Redis, with users, whose servers fail; and an audit of its bills.

proxy    connections that are cut, refused, or lose the answer to a COMMIT
users    who chats, and how
audit    what the stand-in has billed, beside the rows, sums, holds and markers that are left
run      the servers, the faults by a seed, and what is printed
"""
