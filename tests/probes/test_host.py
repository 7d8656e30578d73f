from advisor.probes import host


def test_the_cpu_is_measured(monkeypatch):
    monkeypatch.setattr(host, "_ARRAY_BYTES", 1 << 20)
    monkeypatch.setattr(host, "_MATRIX", 64)
    found = {m.id: m for m in host.processor(True)}
    assert found["host.memory_copy"].value > 1e7
    assert found["host.matmul.fp32"].value > 1e6


def test_storage_is_measured_and_leaves_nothing_behind(monkeypatch, tmp_path):
    monkeypatch.setitem(host._FILE_BYTES, True, 16 << 20)
    found = {m.id: m for m in host.storage(True, tmp_path)}
    assert found["host.storage_write"].value > 1e5
    assert found["host.storage_read"].value > 1e5
    assert list(tmp_path.iterdir()) == []


def test_a_closed_folder_is_reported(tmp_path):
    (found,) = host.storage(True, tmp_path / "missing")
    assert found.status == "not_measured"
    assert found.note
