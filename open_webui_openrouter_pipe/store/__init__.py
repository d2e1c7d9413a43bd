"""What is kept in the database: artifacts, summaries, system prompts, the audit, the ledger and calibrations.

    artifacts  artifacts sealed into rows and opened again, with their limits
    batches    what is written beside requests: the audit of contexts, and what bills teach about our counts
    cache      the read cache of rows in Redis, and the composition of rows
    database   statements with retries, time limits and our errors
    ledger     what requests have cost, by chat and by account
    prompts    the system prompts that chats keep sending, sealed into rows and opened again
    rows       the rows of artifacts: their shape and their queries
    schema     the tables and their creation
    sealing    keys, encryption and compression of what is stored
    sealed_text  a user's short secret, sealed where settings are kept
    summaries  summaries sealed into rows and opened again, and those of temporary chats
    sweep      the deletion of what nobody needs
    tasks      work beside requests: background tasks and leases
    tokenizer  a tokenizer whose vocabulary is on this machine
    unsaved    rows of chats that the host does not save, in memory

Nothing here decides what a request contains.
"""
