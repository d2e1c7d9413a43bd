"""From Open WebUI's messages to the conversation that is sent: pure, the same bytes for the same chat.

    build          the conversation of a whole chat: instructions, volatile text, turns
    turn           one turn's entries become its items
    reading        the host's messages become typed entries, with their origins and repairs
    continuation   a round that the pipe has answered itself, at the end of a history that was read before
    answer_images  images that answers show by Markdown
    additions      what the host and filters add to a chat: volatile text, summaries
    steady_prompt  the system prompt that a chat keeps sending, and what has changed in it
    host_output    a stored answer's items, unfolded as the host does it
    commands       the commands among a chat's messages, taken out with our answers
    folded         blocks of tool calls and reasoning folded into text
    markers        the lines in assistant text that name artifacts
    carriers       what names them elsewhere: details beside the reasoning, and ids of calls
    artifacts      stored items made valid, and to whom reasoning may be sent
    tool_calls     tool calls matched with their results
    parts          message parts and tool values in every form

It knows neither the store nor the model's window; whoever calls loads the artifacts.
"""
