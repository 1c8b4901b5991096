"""One theorem a file; each module exports THEOREM or THEOREMS (collected by theory.registry)."""
