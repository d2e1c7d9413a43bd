"""What commands show of a chat and of what was spent. Pure.

    report     the picture of what the next request holds, for `/context`: as values, and as text
    page       the same as HTML, and what all pages share
    spending   what was spent, for `/spending`: as values, text and HTML

It decides nothing about a request.
"""
