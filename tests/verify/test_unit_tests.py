"""Unit tests in the notations of the usual files, and when an output counts as the expected one."""

import json
from typing import Any

import pytest

from scalerl.errors import InputError
from scalerl.verify.unit_tests import read_tests


@pytest.mark.parametrize(
    ("data", "given", "expected"),
    [
        ({"inputs": ["1 2\n"], "outputs": ["3\n"]}, {"stdin": "1 2\n"}, "3\n"),
        ({"inputs": [["1", "2"]], "outputs": [["3"]]}, {"stdin": "1\n2"}, "3"),
        ({"fn_name": "f", "inputs": [[1, "a"]], "outputs": [[3]]}, {"call": "f", "arguments": [1, "a"]}, [3]),
        ({"fn_name": None, "inputs": ["1"], "outputs": ["3"]}, {"stdin": "1"}, "3"),
        ([{"type": "stdin_stdout", "input": "1\n", "output": "3\n"}], {"stdin": "1\n"}, "3\n"),
        ([{"type": "function_call", "fn_name": "f", "input": [1], "output": [3]}],
         {"call": "f", "arguments": [1]}, [3]),
        ([{"testtype": "stdin", "input": "1\n", "output": "3\n", "metadata": {"func_name": None}}],
         {"stdin": "1\n"}, "3\n"),
        ([{"testtype": "functional", "input": '[1, 2]\n"a"', "output": "[3]", "metadata": {"func_name": "f"}}],
         {"call": "f", "arguments": [[1, 2], "a"]}, [3]),
        ([{"input": "1", "output": 3}], {"stdin": "1"}, "3"),
    ],
)  # fmt: skip
def test_notations(data: Any, given: dict[str, Any], expected: Any) -> None:
    (test,) = read_tests(json.dumps(data))
    assert (test.given, test.expected) == (given, expected)


@pytest.mark.parametrize(
    "text",
    [
        "", "42", "[]", "{}", "null", '"abc"', '{"inputs": [], "outputs": []}', '{"inputs": ["1"], "outputs": []}',
        '{"inputs": ["1"]}', '[{"input": "1"}]', "[1]", '[{"type": "function_call", "input": [1], "output": 1}]',
        '[{"type": "riddle", "fn_name": "f", "input": "1", "output": "1"}]',
        '{"fn_name": "f", "inputs": [1], "outputs": [1]}',
        '[{"testtype": "functional", "input": "x", "output": "1", "metadata": {"func_name": "f"}}]', "[" * 100_000,
    ],
)  # fmt: skip
def test_references_that_are_no_tests(text: str) -> None:
    with pytest.raises(InputError, match="no unit tests") as caught:
        read_tests(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("output", "expected", "passed"),
    [
        ("3\n", "3", True), ("3", "3\n\n", True), ("3 \n4\n", "3\n4", True), ("1  2", "1 2", True), ("", "", True),
        ("0.3333333333", "0.333333333", True), ("1e-3", "0.001", True), ("2.0", "2.000", True), ("-0.0", "0.0", True),
        ("4", "3", False), ("3 4", "3\n4", False), ("34", "3 4", False), ("3\n4", "3", False), ("", "3", False),
        ("yes", "YES", False), ("2.0", "2", False), ("0.34", "0.33", False), ("nan", "0.5", False),
        ("3.0x", "3.0", False),
    ],
)  # fmt: skip
def test_outputs(output: str, expected: str, passed: bool) -> None:
    (test,) = read_tests(json.dumps({"inputs": [""], "outputs": [expected]}))
    assert test.passed(output) is passed


@pytest.mark.parametrize(
    ("result", "expected", "passed"),
    [
        ("3", 3, True), ("3", [3], True), ("[3]", [3], True), ("[1, 2]", [[1, 2]], True), ("true", True, True),
        ("0.30000000000000004", 0.3, True), ('{"a": [1]}', {"a": [1.0]}, True), ("null", None, True), ("[]", [], True),
        ("4", 3, False), ("[3, 3]", [3], False), ("1", True, False), ("true", 1, False), ('"3"', 3, False),
        ("", 3, False), ("[2, 1]", [1, 2], False), ('{"a": 1}', {"b": 1}, False), ("[" * 100_000, [3], False),
        ("null", 0, False), ("1" * 5000, 1, False),
    ],
)  # fmt: skip
def test_results(result: str, expected: Any, passed: bool) -> None:
    (test,) = read_tests(json.dumps({"fn_name": "f", "inputs": [[]], "outputs": [expected]}))
    assert test.passed(result) is passed


@pytest.mark.parametrize("output", ["1" + "0" * 400, "[" * 900 + "]" * 900], ids=["beyond floats", "deep"])
def test_results_that_cannot_be_compared_are_wrong(output: str) -> None:
    expected = "0.5" if output.startswith("1") else output
    (test,) = read_tests(f'{{"fn_name": "f", "inputs": [[1]], "outputs": [{expected}]}}')
    assert not test.passed(output)
