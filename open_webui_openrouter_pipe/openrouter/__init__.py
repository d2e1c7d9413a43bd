"""The adapter to OpenRouter: the only folder that speaks HTTP with it.

`client` sends and receives, `request` builds bodies (pure), `errors` turns failures into our error tree
(pure) and `catalog` keeps the list of models.
"""
