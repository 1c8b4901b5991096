"""``onebit report``: everything that was proved, checked, drawn and decided, on one page that needs nothing else.

``evidence.py`` keeps what takes minutes to find out, ``stages.py`` finds it out, ``committed.py`` reads what other machines
found, and ``page.py`` makes the page from all of it. Only the stages compute; the page is a pure function of evidence.
"""
