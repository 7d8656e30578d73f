"""Sellers: every one with a price is known, and what may be joined is what its pages sell by number."""

import pytest
from pydantic import ValidationError

from advisor.catalog.accelerators import all_accelerators
from advisor.catalog.prices import Provider, all_providers, bundled_prices


def test_every_seller_with_a_price_is_described() -> None:
    assert {price.provider for price in bundled_prices()} == set(all_providers())
    for name, provider in all_providers().items():
        assert provider.id == name
        assert provider.name
        assert provider.kind in ("hyperscaler", "neocloud", "marketplace")


def test_single_sales_are_by_accelerator_or_for_all() -> None:
    assert all_providers()["runpod"].sells_singly("h100-sxm")
    assert all_providers()["gcp"].sells_singly("tpu-v6e")
    assert not all_providers()["gcp"].sells_singly("h100-sxm")
    assert not all_providers()["aws"].sells_singly("h100-sxm")


def test_what_is_named_exists() -> None:
    known = {*(record.id for record in all_accelerators()), "*"}
    for provider in all_providers().values():
        assert set(provider.per_accelerator) <= known, provider.id


def test_least_rental_is_a_whole_number_of_what_is_priced() -> None:
    for price in bundled_prices():
        least = all_providers()[price.provider].node_of
        assert least <= price.num_accelerators or least % price.num_accelerators == 0, price.sku
    assert all_providers()["tensorwave"].node_of == 8
    assert all_providers()["aws"].node_of == 1


def test_unknown_fields_and_classes_are_refused() -> None:
    with pytest.raises(ValidationError):
        Provider.model_validate({"id": "x", "name": "X", "class": "shop"})
    with pytest.raises(ValidationError):
        Provider.model_validate({"id": "x", "name": "X", "class": "neocloud", "colour": "red"})
