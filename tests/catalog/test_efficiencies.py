"""Looking up fitted efficiencies: exact records, engine levels, relatives, and the cost of a transfer."""

import pytest

from advisor.catalog.efficiencies import efficiency, is_measured, operators, records, transfer_error
from advisor.catalog.errors import UnknownNameError

MATRIX_OPERATORS = ("matmul", "grouped_matmul")


def test_exact_record_of_an_engine_is_not_a_transfer():
    found = efficiency("hopper", "matmul", "bf16", "vllm")
    assert (found.record.architecture, found.record.dtype, found.record.engine) == ("hopper", "bf16", "vllm")
    assert found.transferred_from == ""
    assert found.median_abs_error == found.record.residual.median_abs_error


def test_an_engine_without_a_level_gets_the_level_over_all_engines():
    found = efficiency("hopper", "matmul", "bf16", "llama.cpp")
    assert found.record.engine == "any"
    assert found.transferred_from == ""


@pytest.mark.parametrize(
    ("architecture", "dtype", "source"),
    [
        ("turing", "bf16", "ampere/bf16"),
        ("ampere-geforce", "bf16", "ada/bf16"),
        ("rubin", "nvfp4", "blackwell-ultra/nvfp4"),
        ("blackwell-thor", "nvfp4", "blackwell/nvfp4"),
        ("cdna5", "fp8", "cdna4/fp8"),
        ("hopper", "int8", "hopper/fp8"),
        ("hopper", "int4_wo", "ampere/int4_wo"),
        ("no-such-architecture", "bf16", "hopper/bf16"),
    ],
)
def test_the_nearest_relative_answers_and_is_named(architecture, dtype, source):
    assert efficiency(architecture, "matmul", dtype).transferred_from == source


def test_a_transfer_is_less_certain_than_a_fit():
    found = efficiency("rubin", "matmul", "bf16")
    assert found.median_abs_error >= found.record.residual.median_abs_error
    assert found.median_abs_error >= transfer_error("matmul")


def test_aliases_are_the_formats_they_stand_for():
    assert efficiency("hopper", "matmul", "fp16").record.dtype == "bf16"
    assert efficiency("ampere", "matmul", "int4").record.dtype == "int4_wo"


def test_hiding_an_architecture_leaves_its_relatives():
    assert efficiency("hopper", "matmul", "bf16", without="hopper").transferred_from == "blackwell/bf16"


def test_an_unknown_operator_names_the_known_ones():
    with pytest.raises(UnknownNameError) as error:
        efficiency("hopper", "convolution", "bf16")
    assert "matmul" in error.value.fix


@pytest.mark.parametrize("operator", operators())
def test_every_record_parses_and_has_a_level_over_all_engines(operator):
    found = records(operator)
    assert found
    for record in found:
        assert record.residual.num_points > 0 or record.source.kind == "derived"
        assert record.source.title
    without_engine = {(r.architecture, r.dtype) for r in found if r.engine == "any"}
    assert {(r.architecture, r.dtype) for r in found} == without_engine


@pytest.mark.parametrize("operator", MATRIX_OPERATORS)
@pytest.mark.parametrize("architecture", ["hopper", "blackwell"])
def test_fits_of_data_centre_parts_stay_within_their_promise(operator, architecture):
    promised = 0.12 if operator == "matmul" else 0.15
    for record in records(operator):
        if record.architecture == architecture and record.engine != "any":
            assert record.residual.median_abs_error <= promised, (record.dtype, record.engine)


@pytest.mark.parametrize("operator", MATRIX_OPERATORS)
def test_transfer_errors_were_measured(operator):
    assert 0.05 < transfer_error(operator) < transfer_error(operator, "tpu-v5e") < 0.5


def test_only_other_vendors_hardware_counts_as_unmeasured():
    for architecture in ("hopper", "blackwell", "volta", "rubin", "ampere-geforce", "xe2"):
        assert is_measured(architecture)
    for architecture in ("cdna3", "cdna4", "tpu-v7", "gaudi3", "ascend-910b", "trainium2"):
        assert not is_measured(architecture)
