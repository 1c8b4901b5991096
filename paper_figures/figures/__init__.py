"""The figures, one a file, each with ``FIGURE = PaperFigure(...)``: a new one is a new file, listed nowhere."""
