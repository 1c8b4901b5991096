"""Adapters: the protocol of ``protocol.py`` for implementations that exist."""
