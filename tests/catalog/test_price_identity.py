"""A seller's product is known by its exact name: from the bundled rows, else by a stated pattern, else not at all."""

import datetime

import pytest

from advisor.catalog import accelerators
from advisor.catalog.files import DATA_DIR, read_toml
from advisor.catalog.prices import bundled_prices
from advisor.catalog.refresh.identify import Product, has_memory_of, product_of
from advisor.catalog.refresh.quote import Quote


def quote(provider: str, sku: str) -> Quote:
    return Quote(provider, sku, "any", "on_demand", 1.0, "", datetime.date(2026, 11, 20))


@pytest.mark.parametrize(
    ("provider", "sku", "expected"),
    [
        ("aws", "p5.48xlarge", Product("h100-sxm", 8, "p5.48xlarge")),
        ("aws", "p5e.48xlarge", Product("h200-sxm", 8, "p5e.48xlarge")),
        ("lambda", "gpu_2x_h100_sxm5", Product("h100-sxm", 2, "gpu_2x_h100_sxm5")),
        ("lambda", "gpu_2x_h100_sxm5_new", None),
        ("verda", "8B200.240V", Product("b200-sxm", 8, "8B200.240V")),
        ("verda", "8B2000.240V", None),
        ("runpod", "1x_H100_SECURE", Product("h100-pcie", 1, "h100-pcie-secure")),
        ("runpod", "2x_H100_SECURE", None),
        ("vast", "rtx-4090-24gb-median", Product("rtx-4090", None, "rtx-4090-median")),
        ("vast", "rtx-4090d-24gb-median", None),
        ("vast", "a100-sxm4-40gb-median", Product("a100-sxm-40gb", None, "a100-sxm4-40gb-median")),
        ("nobody", "p5.48xlarge", None),
    ],
)
def test_products(provider: str, sku: str, expected: Product | None) -> None:
    assert product_of(quote(provider, sku)) == expected


def test_every_bundled_row_is_its_own_product() -> None:
    for price in bundled_prices():
        product = product_of(quote(price.provider, price.sku))
        assert product is not None
        assert (product.accelerator, product.num_accelerators) == (price.accelerator, price.num_accelerators)


def test_patterns_name_accelerators_and_sellers_of_the_catalog() -> None:
    known = {record.id for record in accelerators.all_accelerators()}
    sellers = {price.provider for price in bundled_prices()}
    for provider, entries in read_toml(DATA_DIR / "price_skus.toml").items():
        assert provider in sellers
        for entry in entries:
            assert entry.get("accelerator", "rtx-4090") in known


@pytest.mark.parametrize(
    ("accelerator", "gib", "expected"),
    [
        ("h100-sxm", 79.6, True),
        ("h100-sxm", 94, False),
        ("a100-sxm-80gb", 40, False),
        ("h100-sxm", None, True),
    ],
)
def test_memory_tells_variants_apart(accelerator: str, gib: float | None, expected: bool) -> None:
    assert has_memory_of(accelerator, None if gib is None else gib * 2**30) is expected
