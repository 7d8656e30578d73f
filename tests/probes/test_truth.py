"""Products, sums and copies on a GPU that computes wrongly: every fault is found, and no honest rounding is one."""

import functools
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from advisor.probes import host_link, truth
from advisor.probes.assess import assess
from advisor.probes.bench import Bench
from advisor.probes.collective_worker import judge_data
from advisor.probes.peers import judge_copies
from advisor.probes.record import Gpu, Measurement, ProbedMachine
from advisor.probes.truth import ARITHMETIC, ProductOracle
from advisor.probes.verdict import verdict

SIZE = 256


@pytest.fixture
def bench(monkeypatch):
    """A processor that stands for a GPU, with small matrices and patterns."""
    monkeypatch.setattr(truth, "size_of", lambda device: SIZE)
    monkeypatch.setattr(truth, "_PATTERN_WORDS", 1 << 14)
    monkeypatch.setattr(truth, "_QUICK_LOAD_S", 0.01)
    return Bench(torch.device("cpu"), 0, quick=True)


def cut(x: torch.Tensor, bits: int) -> torch.Tensor:
    """Numbers with `bits` significant bits, the rest cut off, as matrix units do."""
    mantissa, exponent = torch.frexp(x)
    return torch.ldexp(torch.trunc(mantissa * 2.0**bits), exponent - bits)


def honest_product(name: str, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The product with all roundings that the format allows, each partial sum cut off."""
    arithmetic = ARITHMETIC[name]
    if name == "int8":
        return (a.long() @ b.long().T).int()
    total = torch.zeros(a.shape[0], b.shape[0], dtype=torch.float64)
    bits = round(-math.log2(arithmetic.sum_roundoff))
    for first in range(0, a.shape[1], arithmetic.terms_per_sum):
        terms = slice(first, first + arithmetic.terms_per_sum)
        total = cut(total + a[:, terms].double() @ b[:, terms].double().T, bits)
    output = {2.0**-8: torch.bfloat16, 2.0**-11: torch.float16}.get(arithmetic.output_roundoff, torch.float32)
    return total.to(output)


@functools.cache
def case(name: str, size: int = SIZE) -> tuple[ProductOracle, torch.Tensor]:
    bench = Bench(torch.device("cpu"), 0, quick=True)
    a, b = (truth._random_matrix(bench, size, name, place) for place in range(2))
    return ProductOracle(ARITHMETIC[name], a, b, 3), honest_product(name, a, b)


@pytest.mark.parametrize("name", ARITHMETIC)
@pytest.mark.parametrize("size", [64, SIZE])
def test_honest_rounding_is_never_called_wrong(name, size):
    oracle, product = case(name, size)
    found = oracle.check(product)
    assert found.num_wrong == 0
    assert found.worst < 0.8


def one_entry(product: torch.Tensor) -> None:
    product[77, 140] += 2 * product.float().std()


FAULTS = {
    "one entry": one_entry,
    "one sign": lambda c: c[5, c[5].abs().argmax()].neg_(),
    "a tile of zeros": lambda c: c[128:192, 64:128].zero_(),
    "a tile of another place": lambda c: c[:64, :64].copy_(c[64:128, 64:128].clone()),
    "rows that swapped": lambda c: c[:2].copy_(c[:2].flip(0).clone()),
    "columns that swapped": lambda c: c[:, 30:32].copy_(c[:, 30:32].flip(1).clone()),
    "two columns off alike": lambda c: c[:, 64:66].add_(c.std()),
    "four columns off alike": lambda c: c[:, 96:100].add_(2.0 * c.std()),
    "one term left out": lambda c: c[:, :32].mul_(0.5),
}


@pytest.mark.parametrize("name", ARITHMETIC)
@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_of_every_format_is_found(name, fault):
    oracle, product = case(name)
    wide = product.double()
    FAULTS[fault](wide)
    assert oracle.check(wide).num_wrong > 0


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_wrong_and_json(value):
    oracle, honest = case("bf16")
    product = honest.clone()
    product[3, 200] = value
    found = oracle.check(product)
    assert found.num_wrong == 1
    assert "row 3, columns 192 to 223" in found.place
    assert json.loads(json.dumps(found.worst, allow_nan=False)) > 1e6


def machine_and_checks(found: list[Measurement]) -> tuple[str, list[Measurement]]:
    machine = ProbedMachine(torch="2.11", gpus=(Gpu(index=0, accelerator="h100-sxm", name="NVIDIA H100"),))
    checks = assess(machine, [m.model_copy(update={"step": "gpu0/truth"}) for m in found])
    return verdict(checks), checks


def test_an_honest_device_has_right_results(bench):
    found = truth.truth(bench)
    assert {m.status for m in found} == {"pass", "not_measured"}
    assert {m.id for m in found} >= {"truth.product.bf16", "truth.product.fp32", "truth.sum", "truth.copy"}
    said, _ = machine_and_checks(found)
    assert said == "warn"  # nothing else was measured


@pytest.mark.parametrize("bad", ["bf16", "fp16", "fp32"])
def test_a_device_that_multiplies_wrongly_now_and_then_fails_with_the_product(bench, monkeypatch, bad):
    """One multiprocessor, which computes one tile, errs in the last product alone."""
    vendor_product = truth.vendor_product

    def faulty(name, a, b):
        multiply = vendor_product(name, a, b)
        calls = []

        def call():
            product = multiply()
            calls.append(1)
            if name == bad and len(calls) > 1:
                product[64:128, 32:64] += 4.0 * product.float().std()
            return product

        return call

    monkeypatch.setattr(truth, "vendor_product", faulty)
    said, checks = machine_and_checks(truth.truth(bench))
    assert said == "fail"
    (wrong,) = (m for m in checks if m.status == "fail")
    assert wrong.id == f"truth.product.{bad}"
    assert f"{bad} product" in wrong.note
    assert "columns 32 to 63" in wrong.note
    assert "product 1 of" not in wrong.note
    assert all((wrong.title, wrong.purpose, wrong.remediation))


def test_equal_products_with_other_bits_fail():
    kept = {1: torch.ones(4, 4), 9: torch.ones(4, 4)}
    how = {"gpu": 0, "instrument": "torch", "pattern": "", "operator": "<=", "source": "rule"}
    assert truth._compare_repeats("fp32", kept, how).status == "pass"
    kept[9].view(torch.int32)[2, 3] ^= 1
    found = truth._compare_repeats("fp32", kept, how)
    assert (found.status, found.value) == ("fail", 1.0)
    assert "fp32 product 9 differs" in found.note


def test_memory_that_alters_words_fails(bench, monkeypatch):
    clone = torch.Tensor.clone

    def alter(self, *arguments, **options):
        copy = clone(self, *arguments, **options)
        if copy.dtype == torch.int32 and copy.numel() >= 1 << 14:
            copy[12345] ^= 4
        return copy

    monkeypatch.setattr(torch.Tensor, "clone", alter)
    found = {m.id: m for m in truth._check_patterns(bench)}
    assert found["truth.copy"].status == "fail"
    assert found["truth.copy"].note == "copy 1 of 8 has 1 wrong words"
    assert found["truth.sum"].status == "pass"


def test_sums_that_are_off_by_one_fail(bench, monkeypatch):
    add = torch.Tensor.sum
    monkeypatch.setattr(
        torch.Tensor, "sum", lambda self, *a, **o: add(self, *a, **o) + (o.get("dtype") is torch.float64)
    )
    (found,) = (m for m in truth._check_patterns(bench) if m.id == "truth.sum")
    assert (found.status, found.note) == ("fail", "the sum in fp64 is wrong")


def test_a_digest_sees_changed_and_swapped_words():
    words = torch.arange(8 * host_link.NUM_PARTS * 4, dtype=torch.int64).view(torch.uint8)
    before = host_link.digest(words)
    for change in (
        lambda x: x[9].bitwise_xor_(1),
        lambda x: x.view(torch.int64)[:2].copy_(torch.tensor([1, 0])),
    ):
        altered = words.clone()
        change(altered)
        assert host_link.digest(altered) != before
        assert host_link.digest(altered)[1:] == before[1:]


@pytest.mark.parametrize(
    ("returned", "arrived", "words"),
    [(0, 0, ""), (1, 0, "back to the host"), (0, 1, "to the device (both)")],
)
def test_the_host_link_says_which_way_altered_bytes(bench, returned, arrived, words):
    host = torch.arange(8 * host_link.NUM_PARTS, dtype=torch.int64).view(torch.uint8)
    copies = {"device": host.clone(), "both": host.clone()}
    copies["both"][40] += arrived
    back = host.clone()
    back[3] += returned
    found = host_link._intact(bench, host, copies, back)
    assert found.status == ("fail" if words else "pass")
    assert words in found.note


def test_links_that_alter_data_fail_and_are_named():
    assert judge_copies((), 2).status == "pass"
    found = judge_copies(["0 to 1"], 2)
    assert (found.status, found.note) == ("fail", "words changed on the way 0 to 1")
    sums, data = judge_data(4, ["all_to_all"])
    assert (sums.status, data.status, data.note) == ("pass", "fail", "all_to_all delivered other numbers")
    assert judge_data(4, ["all_reduce"])[0].status == "fail"


RANK = """
import sys, torch, torch.distributed as dist
from advisor.probes.collective_worker import verify
rank, file = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method="file://" + file, rank=rank, world_size=2)
right = verify(torch.device("cpu"), rank, 2)
dist.destroy_process_group()
assert all(right.values()), right
"""


@pytest.mark.slow
def test_honest_collectives_are_right(tmp_path):
    commands = [[sys.executable, "-c", RANK, str(rank), str(tmp_path / "store")] for rank in range(2)]
    root = Path(__file__).parents[2]
    ranks = [subprocess.Popen(command, cwd=root, stderr=subprocess.PIPE, text=True) for command in commands]
    told = [rank.communicate(timeout=120)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], told


def test_a_step_that_was_lost_leaves_no_pass(bench):
    lost = [Measurement(id="step.truth", gpu=0, status="not_measured", note="CUDA error")]
    _, checks = machine_and_checks(lost)
    (coverage,) = (m for m in checks if m.id == "health.coverage")
    assert coverage.status == "warn"
    assert "truth.product" in str(coverage.value)
