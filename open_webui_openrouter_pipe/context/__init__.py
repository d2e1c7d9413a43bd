"""Fitting a conversation into a model's window, without waiting for anything.

The way of a request through this folder: `turns` makes a Conversation of items, `tokens` counts it
(`estimate`, `media`), `budget` says what fits, and `plan` decides by `fold`ing the policies (`retention`,
`clip`, `landing`) over the chat's past; `forms` and `tool_facts` say how parts look when they are
shortened, `pins` what survives. `audit` records, `calibration` learns from what was billed, `breakpoints`
tells the provider what to cache.
"""
