"""Network ports as Linux shows them, and orders in words."""

import pytest

from advisor.probes.network import check_network, parse_network, read_ports
from advisor.probes.record import NetworkPort, ProbedMachine


def put(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")


def test_ports_are_read_once_each(tmp_path):
    rdma = tmp_path / "infiniband"
    net = tmp_path / "net"
    for name, layer in (("mlx5_0", "InfiniBand"), ("mlx5_1", "Ethernet")):
        put(rdma / name / "ports" / "1" / "link_layer", layer)
        put(rdma / name / "ports" / "1" / "rate", "400 Gb/sec (4X NDR)")
        put(rdma / name / "ports" / "1" / "state", "4: ACTIVE")
    put(net / "eth0" / "speed", "25000")
    put(net / "eth0" / "operstate", "up")
    (net / "eth0" / "device").mkdir()
    put(net / "enx001122334455" / "speed", "1000")
    put(net / "enx001122334455" / "operstate", "down")
    (net / "enx001122334455" / "device").mkdir()
    (net / "ens3" / "device" / "infiniband").mkdir(parents=True)
    (net / "lo").mkdir()
    found = read_ports(rdma, net)
    assert [(p.name, p.link_layer, p.bytes_per_s, p.is_active) for p in found] == [
        ("mlx5_0", "InfiniBand", 50e9, True),
        ("mlx5_1", "Ethernet", 50e9, True),
        ("enx", "Ethernet", 0.125e9, False),
        ("eth0", "Ethernet", 3.125e9, True),
    ]
    assert read_ports(rdma, tmp_path / "absent") is None


@pytest.mark.parametrize(
    ("text", "kind", "num_ports", "gbit"),
    [
        ("InfiniBand 8x400Gb", "InfiniBand", 8, 400),
        ("8 × 400G IB", "InfiniBand", 8, 400),
        ("InfiniBand NDR", "InfiniBand", 1, 400),
        ("InfiniBand HDR 4x200Gb", "InfiniBand", 4, 200),
        ("RoCE 8x400Gb", "Ethernet", 8, 400),
        ("Ethernet 100Gb", "Ethernet", 1, 100),
        ("TCP 25Gb", "Ethernet", 1, 25),
        ("EFA 32x100Gb", "EFA", 32, 100),
        ("8x400Gb", "", 8, 400),
    ],
)
def test_orders_are_read_from_words(text, kind, num_ports, gbit):
    found = parse_network(text)
    assert (found.kind, found.num_ports, found.gbit_per_s) == (kind, num_ports, gbit)


def test_a_machine_without_an_order_is_not_judged_by_its_network():
    assert check_network(ProbedMachine(), "") == []


@pytest.mark.parametrize(
    ("ports", "order", "status"),
    [
        (None, "InfiniBand 8x400Gb", "warn"),
        ((), "InfiniBand 8x400Gb", "fail"),
        ((("rdmap0", "Unspecified", 12.5e9),) * 32, "EFA 32x100Gb", "pass"),
        ((("eth0", "Ethernet", 3.1e9),), "InfiniBand 400Gb", "fail"),
        ((("eth0", "Ethernet", 12.5e9),), "Ethernet 100Gb", "pass"),
    ],
)
def test_ports_are_held_against_the_order(ports, order, status):
    made = None
    if ports is not None:
        made = tuple(NetworkPort(name=n, link_layer=k, bytes_per_s=r, is_active=True) for n, k, r in ports)
    check, rate = check_network(ProbedMachine(network_ports=made), order)
    assert check.status == status
    assert (rate.id, rate.status, rate.value) == ("network.rate", "warn", None)
