"""Check that every relative link in the documents leads to a file."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")


def main() -> int:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    broken = [
        f"{page.relative_to(ROOT)}: {link}"
        for page in pages
        for link in LINK.findall(page.read_text())
        if not (page.parent / link).exists()
    ]
    print("\n".join(broken) or f"{len(pages)} documents, all links lead somewhere")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
