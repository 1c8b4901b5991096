"""Triton runs under its interpreter where there is no CUDA device; that must be said before Triton is imported."""

import os

import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
