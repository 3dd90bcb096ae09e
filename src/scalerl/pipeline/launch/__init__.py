"""Launchers: which processes there are and how groups get from the generator to the trainer.

`feed` is the protocol that the training loop knows, `open` makes one; `inline` and `local` are its two forms.
Nothing is imported here: the generator's process starts sooner.
"""
