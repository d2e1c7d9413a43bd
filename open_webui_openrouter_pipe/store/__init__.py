"""What is kept in the database: artifacts, summaries, system prompts, the audit, the ledger and calibrations.

    database   statements with retries, time limits and our errors
    schema     the tables, the shape of their rows, and their creation
    sealing    keys, encryption and compression of what is stored
    table      the queries of sealed rows; those of artifacts
    artifacts  artifacts sealed into rows and opened again; those of unsaved chats, in memory
    kept       summaries and system prompts, sealed into rows and opened again
    cache      the read cache of rows in Redis
    bills      a row of the audit for each request, the sums of these rows, and what is held under limits
    ledger     what requests have cost, by chat and by account
    beside     work beside requests: batches of rows, and leases
    sweep      the deletion of what nobody needs
    tokens     a tokenizer whose vocabulary is on this machine, and what bills have taught of each model's tokens

Nothing here decides what a request contains.
"""
