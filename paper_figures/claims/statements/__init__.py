"""The claims, one a file, each with ``CLAIM = Claim(...)``: a new one is a new file, listed nowhere."""
