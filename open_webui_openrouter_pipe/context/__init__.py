"""The picture of what the next request holds, for `/context`. Pure.

    report   the picture as values, and as text
    page     the same as HTML

It decides nothing about a request.
"""
