"""Runnable training scripts, each started by ``torchrun``; the first lines of each file say how."""
