"""Configuration of nginx as router: it sends a request to the replica with the fewest, in the pool for its prompt
length, or to unlike replicas in proportion to their weights."""

from collections.abc import Mapping
from typing import Final

from advisor.catalog.launch import PORT

FILE: Final = "nginx.conf"
IMAGE: Final = "nginx:1.29"
BYTES_PER_TOKEN: Final = 4
"""Bytes of a request body per prompt token. Source: OpenAI, What are tokens and how to count them: about 4 characters
of English."""
_CONNECTIONS: Final = 16_384
"""Connections of one nginx worker. A request under way takes two, so this allows 8,192 requests at once; the default
of nginx allows 256. Open files are raised to the same number, which needs no root below the hard limit."""
_LEADING: Final = 2
"""Significant digits of a size limit in bytes, so that a regular expression can recognise smaller numbers."""
_WRITTEN: Final = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
"""Temporary folders that nginx creates at its start, by the prefix of their directive."""
_PROXY: Final = "      proxy_buffering off;\n      proxy_read_timeout 1h;\n"


def bytes_of(prompt_tokens: int) -> int:
    """Return the request size up to which a prompt counts as at most `prompt_tokens` [bytes], rounded to two digits."""
    size = BYTES_PER_TOKEN * prompt_tokens
    step: int = 10 ** max(0, len(str(size)) - _LEADING)
    return round(size / step) * step


def below(limit: int) -> str:
    """Return a regular expression for whole numbers below `limit`, which is two digits followed by zeros."""
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
    words: str,
    upstreams: Mapping[str, str],
    max_prompt_tokens: int | None = None,
    port: int = PORT,
    *,
    is_weighted: bool = False,
) -> str:
    """Return a configuration of nginx. `upstreams` holds lines such as `server HOST:PORT;` by pool. With two pools,
    the first gets prompts up to `max_prompt_tokens`; a request that it rejects as too long goes to the second.

    Servers of which `is_weighted` get requests in turns, as often as their weights say: `least_conn` would give slow
    replicas fewer requests than their weights.
    """
    balance = "" if is_weighted else "    least_conn;\n"
    rule = "replicas get requests as often as their weights say"
    if not is_weighted:
        rule = "the replica with the fewest open requests gets the next one"
    groups = "".join(
        f"  upstream {name} {{\n{balance}    {servers}\n  }}\n" for name, servers in upstreams.items()
    )
    first = next(iter(upstreams))
    last = list(upstreams)[-1]
    choice = ""
    goal = first
    more = ""
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
        f"# {words}; {rule}.\n"
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
