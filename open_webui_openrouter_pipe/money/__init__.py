"""What requests cost, as values. Pure.

    prices   what a request costs, which providers cache at breakpoints, and what the next one will cost
    limits   spending limits: what the valve says, and when one is reached
    prefix   where a request differs from the last one of its chat, why, and what that costs
    audit    what is recorded of each request, and the metrics derived from it

Who may spend, and what is written down, is decided elsewhere.
"""
