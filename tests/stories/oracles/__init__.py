"""The nine oracles (threats.md 1.4): what has to hold in whatever story is told, looked at from outside the product.

`court` judges every test of this folder; each other module holds oracles that can be asked by themselves, and
`test_oracles.py` shows that each of them can fail.
"""
