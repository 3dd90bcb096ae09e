"""Other trainers' logs: many metrics against steps, written over days, restarted, torn. They are read leniently.

What is readable is read, what is not is counted and said. `records` has the contract, each format its own file, `open`
finds out which one a path is, `curve` makes a `Series` of it.
"""
