"""One answer, many faces: terminal, JSON, CSV, Markdown, HTML."""
