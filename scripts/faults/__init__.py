"""A real Open WebUI of two workers on PostgreSQL and Redis, with users, whose servers fail; and audits of what is left.

proxy     connections that are cut, refused, or lose the answer to a COMMIT
upstream  the stand-in, which writes down what each request held
probe     how a worker fares, from inside
servers   all of these, and how they fail
users     who chats over HTTP and the websocket, and how
pages     who chats at a browser
samples   memory, connections, tasks, rows and times, again and again
curves    these as a picture
audit     what the stand-in has billed, beside the rows, sums, holds and markers that are left
chats     what the stand-in has answered, beside each user's chats
run       one run of all this: many faults in a row (`__main__`), or a long one by the clock (`soak`)
"""
