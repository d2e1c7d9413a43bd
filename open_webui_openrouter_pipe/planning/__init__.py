"""Fitting a conversation into a model's window. Pure.

    detail         the levels of detail in which parts of a conversation can be sent, and what each costs
    simulate       every past request of the chat, decided again; what changing a cached prefix costs
    policies       when and how far to prune, summarize, clip and evict
    retrieved      the head of retrieved text that is too long
    recalled       what of the removed turns is quoted beside the question
    reductions     what a request lacks of its conversation, for its user to know
    recall_offer   from which request on the model may look up what was removed
    plan           what a plan says: what is sent, what was done to make it fit, which summaries it needs
    draft          one way to send a conversation, and the plan that follows
    planner        plans one request: draft after draft, until one fits
    cache_marks    where the provider caches, and the key of a chat's cache
    prefix         where a request differs from the last one of its chat, and why
    price          what requests cost, and what the next one will
    limits         spending limits: what the valve says, and when one is reached
    context_report  what the next request is made of, as values for whoever shows it
    context_text    the same as text
    audit          what is recorded of each request, and the metrics derived from it

The same history is always planned alike.
"""
