"""The properties, one a file; each file defines ``PROPERTY`` and is found by ``verification.registry``."""
