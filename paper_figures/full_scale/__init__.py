"""The paper's experiments on real hardware: ResNet-18 on CIFAR-10, and masked-language pre-training of BERT.

Data are local files; nothing is downloaded. One call runs every algorithm with every seed and may be interrupted:

    torchrun --nproc-per-node 8 -m paper_figures.full_scale cifar10 --data FOLDER
    python -m paper_figures.full_scale tokens --text FOLDER --vocabulary vocab.txt --data DATA
    torchrun --nproc-per-node 8 -m paper_figures.full_scale bert-large --data DATA

``recipes.py`` has the settings, ``train.py`` the loop, ``results.py`` the files that figures and claims read. No number
from a run of these is in this repository: on machines without accelerators only small stand-ins have been run.
"""
