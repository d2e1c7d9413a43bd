"""Fitting a conversation into a model's window. Pure.

    detail     the levels of detail in which parts of a conversation can be sent, and what each costs
    simulate   every past request of the chat, decided again; what changing a cached prefix costs
    policies   when and how far to prune, summarize, clip and evict
    recall     what of the removed turns is quoted behind the question, and when the tool to look up is offered
    plan       what a plan says: what is sent, what it lacks, which summaries it needs
    draft      one way to send a conversation, and the plan that follows
    planner    plans one request: draft after draft, until one fits

The same history is always planned alike.
"""
