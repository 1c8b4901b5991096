"""``onebit report``: everything that was proved, checked, drawn and decided, on one page that needs nothing else.

``stages.py`` finds out, ``evidence.py`` keeps what was found until the code changes, ``committed.py`` reads what
other machines found, ``page.py`` makes the page of all that, a pure function, with ``views.py`` to regroup.
"""
