class Laws:
    def __init__(self, world): pass
    def check(self): return []
