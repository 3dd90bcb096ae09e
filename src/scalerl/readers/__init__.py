"""Readers: other people's logs and tables in, `Series` out.

They stream, they name the file and line of whatever is wrong, and they know nothing about laws, reports or trainers.
"""

from scalerl.readers.curves import read_curves, read_table
from scalerl.readers.examples import Example, example_names, load_example

__all__ = ["Example", "example_names", "load_example", "read_curves", "read_table"]
