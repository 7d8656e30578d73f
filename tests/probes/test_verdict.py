import pytest

from advisor.probes import expectations
from advisor.probes.expectations import Expectation, find_expectation, text_of
from advisor.probes.record import Measurement
from advisor.probes.verdict import compare_peers, judge, judge_rate, remove_verdict, verdict


@pytest.mark.parametrize(
    ("kind", "ratio", "status"),
    [
        ("measured", 1.2, "pass"),
        ("measured", 0.95, "pass"),
        ("measured", 0.94, "warn"),
        ("measured", 0.89, "fail"),
        ("floor", 0.94, "warn"),
        ("estimate", 0.90, "pass"),
        ("estimate", 0.80, "warn"),
        ("estimate", 0.74, "fail"),
    ],
)
def test_bands(kind, ratio, status):
    assert judge_rate(100.0 * ratio, Expectation(100.0, kind, "")) == status


def test_the_recording_passes_as_recorded(scaled, h200):
    judged = judge(scaled("nothing", 1.0), h200)
    assert verdict(judged) == "pass"
    assert sum(m.status == "pass" for m in judged) >= 10


def test_memory_that_both_instruments_find_slow_fails(scaled, h200):
    slow = [m for m in judge(scaled("memory.read", 0.62), h200) if m.id == "memory.read"]
    assert {m.status for m in slow} == {"fail"}
    assert all(m.remediation and m.source and m.required for m in slow)


def test_one_slow_instrument_does_not_convict_the_gpu(scaled, h200):
    judged = judge(scaled("memory.read", 0.5, "torch"), h200)
    assert verdict(judged) == "pass"
    (slow,) = (m for m in judged if m.id == "memory.read" and m.instrument == "torch")
    assert slow.status == "info"
    assert "software" in slow.note


def test_a_gpu_between_the_bands_warns(recording, scaled, h200):
    rates = [float(m.value or 0.0) for m in recording.measurements if m.id == "compute.matmul.bf16"]
    (wanted,) = {m.expected for m in recording.measurements if m.id == "compute.matmul.bf16"}
    judged = judge(scaled("compute.matmul.bf16", 0.93 * wanted / max(rates)), h200)
    assert verdict(judged) == "warn"


def test_an_unknown_board_is_measured_but_not_judged(scaled):
    assert all(m.expected is None for m in judge(scaled("nothing", 1.0), None) if m.id == "memory.read")


def test_judging_twice_changes_nothing(scaled, h200):
    once = [m for m in judge(scaled("nothing", 1.0), h200) if not m.id.startswith("health.peers")]
    again = judge([remove_verdict(m) for m in once], h200)
    assert [m.status for m in again] == [m.status for m in once]


def rate(gpu, value):
    return Measurement(
        id="memory.read", gpu=gpu, instrument="triton", pattern="4 GiB", value=value, unit="bytes/s"
    )


@pytest.mark.parametrize(("slowest", "status"), [(0.97, "pass"), (0.93, "warn"), (0.66, "fail")])
def test_the_slowest_of_eight_is_held_against_the_best(slowest, status):
    rates = [rate(gpu, 100.0) for gpu in range(7)] + [rate(7, 100.0 * slowest)]
    (found,) = compare_peers(rates)
    assert (found.status, found.gpu) == (status, 7)
    assert found.value == pytest.approx(1 - slowest)


def test_peers_are_compared_by_their_better_instrument():
    rates = [rate(0, 100.0), rate(1, 100.0), rate(1, 60.0).model_copy(update={"instrument": "torch"})]
    (found,) = compare_peers(rates)
    assert found.status == "pass"


@pytest.mark.parametrize("check", ["memory.cache_read", "host_link.h2d_pageable"])
def test_what_the_place_of_a_buffer_decides_is_not_compared(check):
    rates = [rate(0, 100.0), rate(1, 85.0)]
    assert compare_peers([m.model_copy(update={"id": check}) for m in rates]) == []
    assert len(compare_peers(rates)) == 1


def test_one_gpu_has_no_peers():
    assert compare_peers([rate(0, 1.0), rate(0, 0.5)]) == []


def test_collectives_are_judged_by_number_of_gpus_and_algorithm(h200):
    def all_reduce(pattern, value=364e9):
        return Measurement(
            id="collective.all_reduce", instrument="nccl", pattern=pattern, value=value, unit="bytes/s"
        )

    ring, nvls, slow, unknown = judge(
        [
            all_reduce("8 ranks, ring, 1 GiB"),
            all_reduce("8 ranks, nvls, 1 GiB"),
            all_reduce("8 ranks, nvls, 2 GiB", 300e9),
            all_reduce("3 ranks, ring, 1 GiB"),
        ],
        h200,
    )
    # NCCL does not say whether it took NVLS: a ring's rate is no proof of a fault.
    assert (ring.status, nvls.status, slow.status, unknown.status) == ("pass", "warn", "fail", "pass")


def test_copies_between_gpus_have_an_expectation(h200):
    slow = Measurement(
        id="peer.copy",
        instrument="torch",
        pattern="2 GPUs, 0 to 1 of 8, through the host",
        value=37e9,
        unit="bytes/s",
    )
    assert judge([slow], h200)[0].status == "fail"


def test_expectations_name_their_source(h200):
    for check in ("memory.read", "compute.matmul.fp8", "host_link.h2d"):
        found = find_expectation(h200, check)
        assert found is not None
        assert found.source


def test_without_a_measured_figure_the_datasheet_is_discounted(h200):
    found = find_expectation(h200, "compute.matmul.tf32")
    assert found is not None
    assert found.kind == "estimate"
    assert found.value < h200.peak_flop_per_s["tf32"]
    assert find_expectation(h200, "host_link.both") is None
    assert find_expectation(None, "memory.read") is None


def test_expectations_are_of_known_boards_and_below_their_peaks():
    from advisor.catalog.accelerators import all_accelerators

    boards = {a.id: a for a in all_accelerators()}
    fabrics = {a.scale_up.kind for a in boards.values() if a.scale_up}
    for (name, num_gpus, check, algorithm), found in expectations._table().items():
        assert name in boards or (name in fabrics and check.startswith("collective.")), name
        assert found.source
        assert (algorithm != "") == check.startswith("collective.")
        assert num_gpus == 1 or check.startswith(("collective.", "peer."))
        board = boards.get(name)
        if board and check.startswith("memory.") and board.bandwidth_bytes_per_s:
            assert found.value < board.bandwidth_bytes_per_s, (name, check)
        if board and check.startswith("compute."):
            assert found.value < 1.2 * board.peak_flop_per_s.get(check.rpartition(".")[2], 1e18), (
                name,
                check,
            )


def test_every_gpu_of_the_id_list_has_expectations():
    from advisor.catalog.accelerators import by_id
    from advisor.catalog.files import read_csv
    from advisor.probes.pci_ids import _PCI_IDS

    boards = [by_id(row["accelerator"]) for _, row in read_csv(_PCI_IDS, ("pci_id", "accelerator"))]
    for board in (b for b in boards if b.vendor in ("nvidia", "amd")):
        assert find_expectation(board, "memory.read"), board.id
        half = "bf16" if "bf16" in board.peak_flop_per_s or board.id == "rtx-5090-d" else "fp16"
        assert find_expectation(board, f"compute.sustained.{half}"), board.id


def test_every_kind_of_check_has_words():
    for check in (
        "identity.ecc",
        "memory.read",
        "compute.matmul.bf16",
        "collective.all_reduce",
        "health.throttle",
    ):
        text = text_of(check)
        assert text.title
        assert text.purpose
        assert text.remediation
        assert text.command
    assert text_of("identity.pcie_under_load").title != text_of("identity.pcie").title


def test_nothing_judged_is_no_pass():
    assert verdict([]) == "not_measured"
    assert verdict([rate(0, 1.0)]) == "not_measured"
