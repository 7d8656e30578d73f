// Figures of a deployment at another load: the interpolation of advisor/commands/simulate_serve/surface.py.
"use strict";
whatIf.start((data) => {
  const { surface, labels } = data;
  const { digits, usd, time } = whatIf;
  const ROUNDING = 1e-9;
  const DAYS_PER_MONTH = 365.25 / 12;
  const MISSING = "-";
  const RATE = "output_tokens_per_s";
  // The points of a grid beside a value, with their weights, on a logarithmic scale; its end beyond it.
  const bracket = (grid, value) => {
    const inside = Math.min(grid.at(-1), Math.max(grid[0], value));
    const above = grid.findIndex((each) => inside <= each);
    if (above === 0) return [[1, 0]];
    const part = Math.log(inside / grid[above - 1]) / Math.log(grid[above] / grid[above - 1]);
    return [[1 - part, above - 1], [part, above]];
  };
  const blend = (points, value) => Math.exp(points.reduce((sum, point) => sum + point[0] * value(...point.slice(1)), 0));
  const answerOf = ({ load, input, output }) => {
    const pairs = bracket(surface.inputs, input).flatMap(([weight, i]) =>
      bracket(surface.outputs, output).map(([other, j]) => [weight * other, i * surface.outputs.length + j]),
    );
    const carried = blend(pairs, (pair) => Math.log(surface.capacities[pair]));
    const fraction = load / carried;
    if (fraction > surface.largest_fraction * (1 + ROUNDING)) return { carried, fraction };
    const points = pairs.flatMap(([weight, pair]) =>
      bracket(surface.loads[pair], fraction * surface.capacities[pair]).map(([other, place]) => [weight * other, pair, place]),
    );
    const figures = Object.entries(surface.log_figures).map(([name, logs]) => [name, blend(points, (pair, place) => logs[pair][place])]);
    return { carried, fraction, found: Object.fromEntries(figures) };
  };
  const percent = (value) => `${digits(100 * value)} %`;
  const errs = (name) => `${digits(100 * surface.errors[name], 2)} %`;
  const show = (name, value) => {
    if (name.startsWith("kv_")) return percent(value);
    return name.includes(" ") ? time(value) : digits(value);
  };
  const rowOf = (found) => ([name, label]) => {
    const span = [`${name} low`, `${name} high`].filter((each) => each in found).map((each) => show(name, found[each]));
    return [label, { text: show(name, found[name]), key: found[name] }, span.length ? span.join(" to ") : MISSING, errs(name)];
  };
  const bill = (found, { price, hours }) => {
    if (!price) return [];
    const perMillion = (end) => (price * 1e6) / (3600 * found[RATE + end]);
    const month = price * hours * DAYS_PER_MONTH;
    return [
      ["bill a month", { text: usd(month), key: month }, MISSING, MISSING],
      ["$ per million output tokens", { text: usd(perMillion("")), key: perMillion("") }, `${usd(perMillion(" high"))} to ${usd(perMillion(" low"))}`, errs(RATE)],
    ];
  };
  return (typed) => {
    const whole = (value, asked) => (value === undefined ? asked : Math.round(value));
    const setting = {
      ...typed,
      load: surface.is_rate ? typed.load : Math.round(typed.load),
      input: whole(typed.input, surface.asked.input_tokens),
      output: whole(typed.output, surface.asked.output_tokens),
    };
    const { carried, fraction, found } = answerOf(setting);
    const load = `${digits(setting.load)} ${surface.is_rate ? "requests/s" : "clients"} of ${digits(setting.input, 4)} in, ${digits(setting.output, 4)} out`;
    if (!found) {
      const why = fraction > 1 ? "more than it carries: the queue grows without end" : "so near to it that latencies depend on how long the load lasts";
      return { rows: [], said: `At ${load}: this deployment carries about ${digits(carried)} requests/s, and the load is ${why}.` };
    }
    const rows = [...Object.entries(labels).filter(([name]) => name in found).map(rowOf(found)), ...bill(found, setting)];
    const times = [["ttft_s p99", "first token"], ["tpot_s p99", "token"]].filter(([name]) => name in found);
    const latencies = times.map(([name, words]) => `p99 ${words} ${time(found[name])}`);
    const costs = setting.price ? [rows.at(-1)[1].text + " per million output tokens", rows.at(-2)[1].text + " a month"] : [];
    return { rows, said: `At ${load}: ${[...latencies, `${digits(found[RATE])} output tokens/s`, ...costs].join(", ")}.` };
  };
});
