"""nginx before replicas: whoever has the fewest requests gets the next, in the pool for its length of prompt."""

from collections.abc import Mapping
from typing import Final

from advisor.catalog.launch import PORT

FILE: Final = "nginx.conf"
IMAGE: Final = "nginx:1.29"
BYTES_PER_TOKEN: Final = 4
"""Of a request's body. Source: OpenAI, What are tokens and how to count them: about 4 characters of English."""
_CONNECTIONS: Final = 16_384
"""Of one worker, two for a request under way: 8192 requests at once, where nginx by itself takes 256. Files may be open
for as many, which takes no root below the hard limit.
"""
_LEADING: Final = 2
"""Digits of a number of bytes that are not zero, so that an expression tells smaller ones."""
_WRITTEN: Final = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
"""Of what nginx makes folders as it starts."""
_PROXY: Final = (
    "      proxy_buffering off;\n"
    "      proxy_read_timeout 1h;\n"
)  # fmt: skip


def bytes_of(prompt_tokens: int) -> int:
    """Bytes of a request up to which its prompt is taken to have at most so many tokens, two digits of it."""
    size = BYTES_PER_TOKEN * prompt_tokens
    step: int = 10 ** max(0, len(str(size)) - _LEADING)
    return round(size / step) * step


def below(limit: int) -> str:
    """A regular expression of the whole numbers below one of two digits and zeros."""
    digits = str(limit).rstrip("0")
    rest = len(str(limit)) - len(digits)
    found = [f"[0-9]{{1,{len(str(limit)) - 1}}}"] if limit > 9 else []
    for place, digit in enumerate(digits):
        least = 0 if place else 1
        if int(digit) > least:
            free = rest + len(digits) - place - 1
            found.append(f"{digits[:place]}[{least}-{int(digit) - 1}]" + (f"[0-9]{{{free}}}" if free else ""))
    return f"^({'|'.join(found)})$"


def conf(
    words: str, upstreams: Mapping[str, str], max_prompt_tokens: int | None = None, port: int = PORT
) -> str:
    """A configuration; upstreams are lines such as `server HOST:PORT;`, by name. Of two, the first gets prompts up to a
    length, and what it refuses as too long goes to the second.
    """
    groups = "".join(
        f"  upstream {name} {{\n    least_conn;\n    {servers}\n  }}\n" for name, servers in upstreams.items()
    )
    first, last = next(iter(upstreams)), list(upstreams)[-1]
    choice, goal, more = "", first, ""
    if max_prompt_tokens is not None:
        choice = (
            f"  # Bytes of a request; without a length, as with GET, it goes to {last}.\n"
            "  map $content_length $pool {\n"
            f"    default {last};\n"
            f'    "~{below(bytes_of(max_prompt_tokens))}" {first};\n'
            "  }\n"
        )
        goal = "$pool"
        more = f"      proxy_intercept_errors on;\n      error_page 400 = @{last};\n"
    again = f"    location @{last} {{\n      proxy_pass http://{last};\n{_PROXY}    }}\n" if choice else ""
    files = "".join(f"  {name}_temp_path /var/tmp/nginx-{port}-{name};\n" for name in _WRITTEN)
    return (
        f"# {words}; whoever has the fewest open requests gets the next.\n"
        f"pid /var/tmp/nginx-{port}.pid;\n"
        "error_log stderr;\n"
        f"worker_rlimit_nofile {_CONNECTIONS};\n"
        f"events {{ worker_connections {_CONNECTIONS}; }}\n"
        "http {\n"
        "  # All that is written lies where anybody may write: it needs no root.\n"
        f"  access_log off;\n{files}"
        "  client_max_body_size 0;\n"
        f"{choice}{groups}"
        "  server {\n"
        f"    listen {port};\n"
        "    location / {\n"
        f"      proxy_pass http://{goal};\n"
        f"{_PROXY}{more}"
        "    }\n"
        f"{again}"
        "  }\n"
        "}\n"
    )
