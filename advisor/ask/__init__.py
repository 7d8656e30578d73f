"""Text or numbers turned into a question: shared by the commands and the Python API."""
