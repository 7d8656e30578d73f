"""Use cases: what people build, with published lengths, objectives and requests of a user."""

from functools import lru_cache

from pydantic import Field

from advisor.catalog.files import named_records
from advisor.catalog.resolve import resolve
from advisor.catalog.schema.record import Record


class UseCase(Record):
    """Lengths and objectives of one kind of service."""

    profile: str
    """Kind of traffic whose lengths, or whose spread, it has."""
    mean_input_tokens: int | None = Field(default=None, ge=1)
    """Mean prompt [tokens]; None as the profile."""
    mean_output_tokens: int | None = Field(default=None, ge=1)
    """Mean output [tokens]; None as the profile."""
    lengths_source: str = ""
    ttft_p99: str
    """Objective for the p99 time to first token, as it is typed."""
    tpot_p99: str
    """Objective for the p99 time per output token, as it is typed."""
    objectives_source: str
    requests_per_user_day: float | None = Field(default=None, gt=0)
    """Requests that a user sends in a day; None if nothing published says it."""
    requests_source: str = ""


_ALIASES = {
    **dict.fromkeys(
        ("chat", "assistant", "support", "helpdesk", "faq", "conversation", "customer service"), "chatbot"
    ),
    **dict.fromkeys(("coding", "coder", "copilot", "programming", "completion", "developers", "ide"), "code"),
    **dict.fromkeys(("summarize", "summarization", "summarisation", "summary", "summaries"), "summarise"),
    **dict.fromkeys(("agents", "agentic", "tools", "tool use"), "agent"),
    **dict.fromkeys(("search", "document q&a", "documents", "retrieval", "knowledge base"), "rag"),
    **dict.fromkeys(("voice agent", "voicebot", "phone", "call center", "telephony"), "voice"),
}
"""Use cases by other words for them."""


@lru_cache(maxsize=1)
def all_use_cases() -> dict[str, UseCase]:
    """Return every use case by name.

    Source: data/use_cases.toml, each with its own sources.
    """
    return named_records(UseCase, "use_cases.toml")


def get_use_case(name: str) -> tuple[str, UseCase]:
    """Return a use case by name or alias, with its name.

    Raises: UnknownNameError: there is no such use case; `hint` lists near misses.
    Source: data/use_cases.toml.
    """
    found = resolve(name.strip().lower(), all_use_cases(), _ALIASES, "use case").id
    return found, all_use_cases()[found]
