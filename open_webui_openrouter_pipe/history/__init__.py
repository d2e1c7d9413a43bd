"""From Open WebUI's messages to the conversation that is sent: pure, the same bytes for the same chat.

    build      the conversation of a whole chat: instructions, volatile text, turns
    turn       one turn's entries become its items
    reading    the host's messages become typed entries, with their origins and repairs; commands are taken out
    additions  what the host and filters add to a chat: volatile text, summaries
    steady     the system prompt that a chat keeps sending, and what has changed in it
    folded     tool calls and reasoning folded into text, and stored output unfolded
    markers    what names artifacts: lines in assistant text, details beside the reasoning, ids of calls
    artifacts  stored items made valid, and to whom reasoning may be sent
    calls      tool calls matched with their results
    parts      message parts and tool values in every form

It knows neither the store nor the model's window; whoever calls loads the artifacts.
"""
