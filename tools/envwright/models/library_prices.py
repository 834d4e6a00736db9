"""Prices of endpoints without one in the file, from the library genai-prices: by address and model, without a network.

The library is loaded only when a price is needed, because this takes most of a second.
"""

from __future__ import annotations

import importlib.metadata
import math
from dataclasses import replace

from envwright.declarations.endpoints import Endpoint

MILLION = 1_000_000


def with_library_price(endpoint: Endpoint) -> Endpoint:
    """The endpoint with the library's prices for this model at this address; unchanged if it knows none.

    Of several prices of a model the highest counts, that of the longest prompts, so that a ceiling holds.
    """
    from genai_prices import Usage, calc_price

    usage = Usage(input_tokens=MILLION, output_tokens=MILLION)
    try:
        found = calc_price(usage, endpoint.model, provider_api_url=endpoint.url)
    except LookupError:
        return endpoint
    prices = [math.nan if price is None else float(price) for price in (found.input_price, found.output_price)]
    if not all(0 <= price < math.inf for price in prices):
        return endpoint
    source = f"genai-prices {importlib.metadata.version('genai-prices')}"
    return replace(endpoint, input_price=prices[0], output_price=prices[1], price_source=source)
