"""Pictures of schedules: a row per stage, every pass in it, idle time shown."""

import re
import xml.etree.ElementTree as ET

import pytest

from advisor.commands.simulate_train.pipeline_picture import pipeline_svg, pipeline_text
from advisor.simulator.training.pipeline import ChunkTimes, PipelineRun, run_schedule
from advisor.simulator.training.plan import SCHEDULES, Schedule
from advisor.simulator.training.schedule_orders import order_of


def run_of(schedule: Schedule) -> PipelineRun:
    chunks = order_of(schedule, 4, 8, 2).num_positions
    return run_schedule(schedule, 4, 8, ChunkTimes.equal(chunks, 1.0, 1.0, 1.0), virtual_stages=2)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_text_has_a_row_per_stage_and_shows_the_bubble(schedule: Schedule) -> None:
    run = run_of(schedule)
    rows = pipeline_text(run, 80).split("\n")
    assert len(rows) == 4
    assert {len(row) for row in rows} == {84}
    drawn = "".join(row[4:] for row in rows)
    assert drawn.count("·") / len(drawn) == pytest.approx(run.bubble_fraction, abs=0.03)
    for micro_batch in range(8):
        assert str(micro_batch) in drawn
        assert "abcdefgh"[micro_batch] in drawn
    assert ("w" in drawn) == (schedule in ("zb_h1", "zbv", "dualpipe"))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_svg_is_a_drawing_with_a_box_per_pass(schedule: Schedule) -> None:
    run = run_of(schedule)
    text = pipeline_svg(run, "8 < 9 & more")
    root = ET.fromstring(text)
    passes = sum(len(slot.passes) for stage in run.slots for slot in stage)
    boxes = [e for e in root.iter() if e.tag.endswith("rect") and e.get("fill") not in ("#ffffff", "#eeeeee")]
    kinds = {step.kind for stage in run.slots for slot in stage for step in slot.passes}
    assert len(boxes) == passes + len(kinds)
    assert re.search(r">stage 3<", text)
