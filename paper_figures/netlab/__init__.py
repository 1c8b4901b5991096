"""The network lab beside the theory: measured bytes and step times against the formulas. ``onebit netlab``."""
