"""A study's results as Markdown, for pull requests and notes. Called by the study report command.

The content is that of `study_sections`; text from configs and logs is escaped, so that a name stays a name.
"""

from __future__ import annotations

from scalerl.report.markdown import table, text
from scalerl.report.study_sections import Section, sections
from scalerl.report.study_words import Document, about, answer


def study_markdown(results: Document, title: str | None = None) -> str:
    """The whole report."""
    lines = [f"# {text(title or 'Study ' + results['study'])}", ""]
    if results["question"]:
        lines += [text(results["question"]), ""]
    lines += [f"- {text(words, 2000)}" for words in answer(results)]
    lines += ["", f"{text(about(results))}.", ""]
    for section in sections(results):
        lines += _section(section)
    return "\n".join(lines).rstrip() + "\n"


def _section(section: Section) -> list[str]:
    lines = [f"## {text(section.title)}", ""]
    for words in section.lines:
        lines += [text(words, 2000), ""]
    for one in section.tables:
        lines += table(one.head, ([text(cell) if cell else "" for cell in row] for row in one.rows))
    return lines
