"""Other people's datasets: where rows come from, which columns mean what, and what is wrong with them.

    rows -> layouts -> records -> FileTask               (one row becomes one problem)
                               -> survey                  (`scalerl data inspect`)

`open` finds out what a path is (a file, a folder, a name on the Hugging Face hub), `jsonl`, `arrow` and `hub` stream
its rows, `layouts` knows the usual schemas, `records` turns rows into prompts and answers. No torch here; pyarrow,
datasets and tokenizers are imported inside functions.
"""
