"""Results as Markdown, for a pull request or a page of a wiki."""

import re

from paceline.compare import Difference
from paceline.report.text.difference import signed
from paceline.report.text.difference_words import basis_lines, cause_words, verdict_line
from paceline.report.text.quantities import duration, share


def difference_markdown(found: Difference, top: int = 5) -> str:
    """Verdict, causes and classes: about a dozen lines."""
    lines = [f"**{escaped(verdict_line(found))}**", ""]
    if found.causes:
        lines += ["| what changed most | time | of the change |", "| --- | ---: | ---: |"]
        for cause in found.causes[:top]:
            part = share(cause.share_ns, found.change_ns)
            lines.append(f"| {escaped(cause_words(cause))} | {signed(cause.share_ns)} | {part} |")
        lines.append("")
    lines += ["| a step | before | after | change |", "| --- | ---: | ---: | ---: |"]
    for row in found.classes[:top]:
        cells = (duration(row.before_ns), duration(row.after_ns), signed(row.change_ns))
        lines.append(f"| {escaped(row.name)} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", *(f"{escaped(line)}  " for line in basis_lines(found)), ""])


def escaped(text: str) -> str:
    """Names of layers and operators are anybody's text."""
    return re.sub(r"([\\`*_{}\[\]<>|#])", r"\\\1", text.replace("\n", " "))
