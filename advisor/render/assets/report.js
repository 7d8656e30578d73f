// What makes a report more than a document: theme, sortable tables, folding rows, charts.
"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  const all = (selector, scope = document) => [...scope.querySelectorAll(selector)];
  const element = (tag, fields = {}, ...children) => {
    const made = Object.assign(document.createElement(tag), fields);
    made.append(...children);
    return made;
  };

  // Theme: the system's until somebody chooses; pages opened from a disk may have no storage.
  const stored = (value) => {
    try {
      if (value) localStorage.setItem("advisor-theme", value);
      return localStorage.getItem("advisor-theme");
    } catch {
      return null;
    }
  };
  const systemDark = matchMedia("(prefers-color-scheme: dark)");
  const showTheme = (theme) => {
    root.dataset.theme = theme;
    const other = theme === "dark" ? "light" : "dark";
    all(".switch").forEach((button) => {
      button.setAttribute("aria-label", `Switch to ${other} colours`);
      button.title = `Switch to ${other} colours`;
    });
  };
  showTheme(stored() || (systemDark.matches ? "dark" : "light"));
  systemDark.addEventListener("change", () => stored() || showTheme(systemDark.matches ? "dark" : "light"));

  // Tables: a click on a header sorts; cells carry their number, missing values stay last.
  const entriesOf = (body) => {
    const entries = [];
    for (const row of [...body.rows]) {
      if (row.classList.contains("detail")) entries.at(-1).push(row);
      else entries.push([row]);
    }
    return entries;
  };
  const keyOf = (cell) => (cell.dataset.key === undefined ? null : Number(cell.dataset.key));
  const sort = (table, column, direction) => {
    const body = table.tBodies[0];
    const cells = (entry) => entry[0].cells[column];
    const entries = entriesOf(body);
    const known = entries.filter((entry) => !cells(entry).hasAttribute("data-missing"));
    const isNumeric = known.every((entry) => keyOf(cells(entry)) !== null);
    const compare = (a, b) =>
      isNumeric
        ? keyOf(cells(a)) - keyOf(cells(b))
        : cells(a).textContent.localeCompare(cells(b).textContent, "en", { numeric: true });
    known.sort((a, b) => direction * compare(a, b));
    const missing = entries.filter((entry) => cells(entry).hasAttribute("data-missing"));
    body.append(...[...known, ...missing].flat());
  };
  const makeSortable = (table) => {
    const headers = [...table.tHead.rows[0].cells];
    headers.forEach((header, column) => {
      if (!header.textContent.trim()) return;
      const button = element("button", { type: "button" }, ...header.childNodes);
      header.append(button);
      header.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => {
        const isDown = header.getAttribute("aria-sort") === "ascending";
        headers.forEach((one) => one.hasAttribute("aria-sort") && one.setAttribute("aria-sort", "none"));
        header.setAttribute("aria-sort", isDown ? "descending" : "ascending");
        sort(table, column, isDown ? -1 : 1);
      });
    });
  };
  const makeFilter = (table) => {
    const name = table.getAttribute("aria-label") || "table";
    const input = element("input", { type: "search", placeholder: "Filter rows" });
    input.setAttribute("aria-label", `Filter rows of: ${name}`);
    const count = element("span");
    count.setAttribute("role", "status");
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      const entries = entriesOf(table.tBodies[0]);
      let shown = 0;
      for (const entry of entries) {
        const text = entry[0].textContent.toLowerCase();
        const isShown = words.every((word) => text.includes(word));
        shown += isShown;
        entry.forEach((row) => (row.hidden = !isShown));
      }
      count.textContent = words.length ? `${shown} of ${entries.length} rows` : "";
    });
    table.closest(".scroll").before(element("div", { className: "filter" }, input, count));
  };

  // Charts: the page holds data, the drawing follows from their kind; colours are CSS variables and follow the theme.
  const PALETTE = ["--c1", "--c2", "--c3", "--c4", "--c5", "--c6", "--c7", "--c8"].map((name) => `var(${name})`);
  const SYMBOLS = ["circle", "rect", "triangle", "diamond", "roundRect", "pin"];
  const DASHES = ["solid", "dashed", "dotted", [8, 3, 2, 3]];
  const colour = (i) => PALETTE[i % PALETTE.length];
  // Muted series are grey and do not use up a colour.
  const colours = (spec) => {
    let used = 0;
    return spec.series.map((series) => (series.muted ? "var(--line-strong)" : colour(used++)));
  };
  const short = (value) => {
    const size = Math.abs(value);
    if (size === 0) return "0";
    if (size >= 1e12) return `${+(value / 1e12).toPrecision(3)}T`;
    if (size >= 1e9) return `${+(value / 1e9).toPrecision(3)}G`;
    if (size >= 1e6) return `${+(value / 1e6).toPrecision(3)}M`;
    if (size >= 1e4) return `${+(value / 1e3).toPrecision(3)}k`;
    return String(+value.toPrecision(3));
  };
  const axisLabel = (axis) => (axis.unit.startsWith("$") ? (value) => `$${short(value)}` : short);
  const text = (extra = {}) => ({ color: "var(--soft)", fontFamily: "inherit", fontSize: 12, ...extra });

  const tip = (spec, series, point, fill) => {
    const box = element("div", { className: "tip" });
    const head = element("b");
    const key = element("i");
    key.style.background = fill;
    head.append(key, [point.label || point.name, spec.series.length > 1 ? series.name : ""].filter(Boolean).join(" · "));
    box.append(head);
    for (const [title, words] of point.facts) box.append(element("span", {}, `${title}: `), words, element("br"));
    return box;
  };
  // Bars and points carry the place of their datum; the tooltip is built from what the page says, not from pixels.
  const tooltip = (spec) => ({
    trigger: spec.kind === "line" ? "axis" : "item",
    confine: true,
    transitionDuration: 0,
    backgroundColor: "var(--card)",
    borderColor: "var(--line-strong)",
    padding: [8, 12],
    textStyle: { color: "var(--ink)" },
    axisPointer: { type: "line", lineStyle: { color: "var(--line-strong)" }, label: { show: false } },
    formatter: (found) => {
      const boxes = [found].flat().flatMap(({ data, seriesIndex }) => {
        const place = data && data.place;
        if (!place) return [];
        const series = spec.series[place[0]];
        const point = series ? series.points[place[1]] : spec.total;
        return point ? [tip(spec, series || { name: "" }, point, series ? colours(spec)[place[0]] : colour(6))] : [];
      });
      return boxes.length ? element("div", {}, ...boxes) : "";
    },
  });
  const valueAxis = (axis, extra = {}) => ({
    type: axis.log ? "log" : "value",
    name: axis.label,
    nameLocation: "middle",
    nameTextStyle: text(),
    scale: true,
    axisLabel: text({ formatter: axisLabel(axis), hideOverlap: true }),
    axisLine: { show: false, lineStyle: { color: "var(--line-strong)" } },
    axisTick: { show: false },
    splitLine: { lineStyle: { color: "var(--grid)" } },
    ...extra,
  });
  // Ends of an axis a little beyond the data; ticks at round numbers, of which a narrow logarithmic axis has no powers of ten.
  const limits = (values, axis) => {
    const [low, high] = [Math.min(...values), Math.max(...values)];
    if (axis.log) {
      const room = Math.max((high / low) ** 0.06, 1.02);
      return { min: low / room, max: high * room };
    }
    const room = (high - low || Math.abs(high) || 1) * 0.06;
    return { min: low >= 0 && low < high / 2 ? 0 : low - room, max: high + room };
  };
  const roundSteps = (low, high, wanted) => {
    const rough = (high - low) / wanted;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough);
    const first = Math.ceil(low / step - 1e-9);
    return Array.from({ length: Math.max(0, Math.floor(high / step + 1e-9) - first + 1) }, (_, i) => +((first + i) * step).toPrecision(12));
  };
  const ticks = (low, high, axis) => {
    if (!axis.log || high / low < 6) return roundSteps(low, high, 6);
    const decades = Math.log10(high / low);
    const parts = decades > 5 ? [1] : decades > 2.4 ? [1, 3] : [1, 2, 5];
    const found = [];
    for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++)
      for (const part of parts) found.push(+(part * 10 ** e).toPrecision(3));
    return found.filter((value) => value >= low && value <= high);
  };
  const ticked = (axis, ends, from = -Infinity) => {
    const customValues = ticks(ends.min, ends.max, axis).filter((value) => value >= from);
    return { ...ends, axisTick: { show: false, customValues }, axisLabel: text({ formatter: axisLabel(axis), hideOverlap: true, customValues }) };
  };
  // Lines across: those that stand upright bear their name above the plot, those that lie above them, at the end that has
  // room; `at` says where on its axis a value lies [pixels]. A name that has no room is told by the table alone.
  const LINE_PX = 15;
  const LETTER_PX = 7;
  const references = (spec, flipped, at) => {
    const named = [];
    const placed = spec.references.map(({ axis, value, label }) => {
      const isUpright = (axis === "x") !== flipped;
      const choices = isUpright ? [flipped ? "start" : "end"] : ["insideEndTop", "insideStartTop", "insideMiddleTop"];
      const [size, here] = [isUpright ? LETTER_PX * label.length : LINE_PX, at(axis, value)];
      const isFree = (position) => named.every((one) => one.position !== position || Math.abs(one.here - here) >= (one.size + size) / 2);
      const position = choices.find(isFree);
      named.push({ position, here, size });
      const words = position ? text({ formatter: label, position, rotate: 0, color: "var(--ink)", backgroundColor: "var(--card)", padding: [0, 2], distance: 5 }) : { show: false };
      return { name: label, [isUpright ? "xAxis" : "yAxis"]: value, label: words };
    });
    // ECharts rounds to two decimals unless it is told otherwise, which moves a line at 0.128.
    const precision = 12;
    return { silent: true, symbol: "none", animation: false, precision, lineStyle: { color: "var(--soft)", type: [5, 4], width: 1.2 }, data: placed };
  };
  const SIDES = { left: 68, right: 28, bottom: 50 };
  const headroom = (spec) => (spec.references.length ? 28 : 14);

  // A name stands on the first side of its marker where it covers no marker and no other name; where there is none the
  // first point of all keeps its own, the others are told by pointing and by the table.
  const partOf = (value, { min, max }, axis) => (axis.log ? Math.log(value / min) / Math.log(max / min) : (value - min) / (max - min));
  const sizeOf = (spec, { clientWidth, clientHeight }) => [clientWidth - SIDES.left - SIDES.right, clientHeight - headroom(spec) - SIDES.bottom];
  const namer = (spec, ends, place) => {
    const [width, height] = sizeOf(spec, place);
    const at = (p) => [partOf(p.x, ends.x, spec.x) * width, (1 - partOf(p.y, ends.y, spec.y)) * height];
    const taken = spec.series.flatMap((one) => one.points.map(at)).map(([x, y]) => [x - 6, y - 6, x + 6, y + 6]);
    const isInside = (box) => box[0] >= 0 && box[2] <= width + SIDES.right;
    const isFree = (box) =>
      isInside(box) && !taken.some((one) => box[0] < one[2] && one[0] < box[2] && box[1] < one[3] && one[1] < box[3]);
    return (p) => {
      const [[x, y], long] = [at(p), 7 * p.label.length];
      const beside = (position, start) => [{ position }, [start, y - 7, start + long, y + 7]];
      const across = (position, align, start) => {
        const top = position === "top" ? y - 22 : y + 9;
        return [{ position, align, distance: 4 }, [start, top, start + long, top + 13]];
      };
      const [right, left] = [beside("right", x + 13), beside("left", x - 13 - long)];
      const others = ["top", "bottom"].flatMap((one) => [across(one, "center", x - long / 2), across(one, "left", x), across(one, "right", x - long)]);
      const [isFirst, sides] = [p === spec.series[0].points[0], [right, left, ...others]];
      const found = sides.find(([, one]) => isFree(one)) ?? (isFirst ? sides.find(([, one]) => isInside(one)) : undefined);
      if (!found) return { show: false };
      taken.push(found[1]);
      return found[0];
    };
  };
  const points = (spec, margin, place) => {
    const isLine = spec.kind === "line";
    const fills = colours(spec);
    const placeOf = (p) => `${p.x.toPrecision(6)} ${p.y.toPrecision(6)}`;
    const marked = new Set(spec.series.filter((one) => !one.joined).flatMap((one) => one.points.map(placeOf)));
    const drawn = [];
    const every = spec.series.flatMap((series) => series.points);
    const ys = every.flatMap((p) => (p.low === null ? [p.y] : [p.y, p.low, p.high]));
    const line = (name) => spec.references.filter(({ axis }) => axis === name).map(({ value }) => value);
    const ends = { x: limits([...every.map((p) => p.x), ...line("x")], spec.x), y: limits([...ys, ...line("y")], spec.y) };
    const sideOf = namer(spec, ends, place);
    spec.series.forEach((series, s) => {
      const joined = isLine || series.joined;
      // A line through points that are drawn anyway, a Pareto front, needs neither symbols nor labels of its own.
      const isThrough = !isLine && series.joined && series.points.every((p) => marked.has(placeOf(p)));
      if (series.points.some((p) => p.low !== null)) drawn.push((isLine ? band : whiskers)(series, fills[s]));
      const data = series.points.map((p, i) => {
        const show = !isLine && !isThrough && p.mark !== "." && Boolean(p.label);
        return { value: [p.x, p.y], place: [s, i], label: { show, formatter: p.label, ...(show && sideOf(p)) } };
      });
      drawn.push({
        name: series.name,
        type: joined ? "line" : "scatter",
        animation: false,
        data,
        silent: isThrough,
        symbol: isThrough ? "none" : SYMBOLS[s % SYMBOLS.length],
        symbolSize: joined ? (series.points.length > 24 ? 3 : 5) : 11,
        showSymbol: !isThrough,
        showAllSymbol: true,
        itemStyle: { color: fills[s], opacity: 1 },
        lineStyle: { width: 2, color: fills[s], type: isThrough ? "dashed" : DASHES[Math.floor(s / PALETTE.length) % DASHES.length] },
        label: { position: "right", distance: 8, ...text({ color: "var(--ink)" }) },
        labelLayout: { hideOverlap: true },
        emphasis: { scale: 1.3, itemStyle: { color: fills[s] }, lineStyle: { width: 2.5, color: fills[s] } },
        z: isThrough ? 2 : 3,
        clip: true,
      });
    });
    const [width, height] = sizeOf(spec, place);
    const at = (axis, value) => partOf(value, ends[axis], spec[axis]) * (axis === "x" ? width : height);
    if (spec.references.length && drawn.length) drawn.at(-1).markLine = references(spec, false, at);
    const zoom = { type: "inside", filterMode: "none", zoomOnMouseWheel: "ctrl", moveOnMouseMove: true, moveOnMouseWheel: false };
    return {
      series: drawn,
      xAxis: valueAxis(spec.x, { ...ticked(spec.x, ends.x), nameGap: 30 }),
      yAxis: valueAxis(spec.y, { ...ticked(spec.y, ends.y), nameGap: 48 }),
      grid: { ...SIDES, top: headroom(spec) },
      dataZoom: [{ ...zoom, xAxisIndex: 0 }, { ...zoom, yAxisIndex: 0 }],
      ends,
    };
  };
  // Intervals: a band under a line, whiskers at points; both belong to their series' name, so the legend hides them too.
  const custom = (series, fill, renderItem) => ({
    name: series.name,
    type: "custom",
    silent: true,
    animation: false,
    clip: true,
    z: 1,
    tooltip: { show: false },
    itemStyle: { color: fill },
    data: series.points.map((p) => [p.x, p.low ?? p.y, p.high ?? p.y]),
    encode: { x: 0, y: [1, 2] },
    renderItem,
  });
  const band = (series, fill) =>
    custom(series, fill, ({ dataIndex }, api) => {
      if (dataIndex > 0) return null;
      const corners = series.points.map((p) => api.coord([p.x, p.high ?? p.y]));
      const below = series.points.map((p) => api.coord([p.x, p.low ?? p.y])).reverse();
      return { type: "polygon", shape: { points: [...corners, ...below] }, style: { fill, opacity: 0.14 } };
    });
  const whiskers = (series, fill) =>
    custom(series, fill, (_, api) => {
      const [x, low] = api.coord([api.value(0), api.value(1)]);
      const high = api.coord([api.value(0), api.value(2)])[1];
      const line = (x1, y1, x2, y2) => ({ type: "line", shape: { x1, y1, x2, y2 }, style: { stroke: fill, lineWidth: 1.4, opacity: 0.5 } });
      return { type: "group", children: [line(x, low, x, high), line(x - 4, low, x + 4, low), line(x - 4, high, x + 4, high)] };
    });

  const RIGHT_PX = 84;
  const wrapped = (most) => (name) => {
    const lines = [""];
    for (const part of name.split(/(?<=[ -])/)) {
      if (lines.at(-1) && (lines.at(-1) + part).trimEnd().length > most) lines.push("");
      lines[lines.length - 1] += part;
    }
    return lines.join("\n");
  };
  const categories = (spec, names, series, margin, ends = {}) => ({
    series,
    yAxis: {
      type: "category",
      inverse: true,
      data: names,
      axisTick: { show: false },
      axisLine: { lineStyle: { color: "var(--line-strong)" } },
      axisLabel: text({ color: "var(--ink)", formatter: wrapped(Math.floor((margin - 14) / 7)), lineHeight: 14 }),
    },
    xAxis: valueAxis(spec.y, { scale: false, nameGap: 28, ...ends }),
    grid: { left: margin, right: RIGHT_PX, top: headroom(spec) - 6, bottom: 46 },
  });
  const namesOf = (spec) => [...new Set(spec.series.flatMap((series) => series.points.map((p) => p.name)))];
  const bar = (fill, extra) => ({
    type: "bar",
    animation: false,
    barMaxWidth: 24,
    itemStyle: { color: fill, borderRadius: 2, borderColor: "var(--card)", borderWidth: extra.stack ? 0.5 : 0 },
    emphasis: { itemStyle: { color: fill, opacity: 0.82 } },
    ...extra,
  });
  const bars = (spec, margin, { clientWidth }) => {
    const names = namesOf(spec);
    const isStacked = spec.kind === "stacked";
    const series = spec.series.map((one, s) => {
      const place = new Map(one.points.map((p, i) => [p.name, i]));
      const data = names.map((name) => {
        const i = place.get(name);
        return i === undefined ? { value: null } : { value: one.points[i].y, place: [s, i], label: { formatter: one.points[i].words } };
      });
      return bar(colours(spec)[s], { name: one.name, data, stack: isStacked ? "all" : undefined, label: { show: !isStacked, position: "right", ...text({ color: "var(--ink)" }) } });
    });
    if (isStacked) series.push(totals(spec, names));
    const most = Math.max(...spec.series.flatMap((one) => one.points.map((p) => p.y)), ...spec.references.map(({ value }) => value));
    const at = (_, value) => (value / most) * (clientWidth - margin - RIGHT_PX);
    if (spec.references.length) series[0].markLine = references(spec, true, at);
    return categories(spec, names, series, margin);
  };
  const totals = (spec, names) => ({
    ...bar("transparent", { name: "", stack: "all", silent: true, tooltip: { show: false } }),
    data: names.map((name) => ({ value: 0, label: { show: true, position: "right", formatter: spec.sums[name], ...text({ color: "var(--ink)" }) } })),
  });
  const waterfall = (spec, margin) => {
    const steps = spec.series[0].points;
    let end = 0;
    const rows = steps.map((p, i) => {
      const start = end;
      end += p.y;
      return { name: p.name, low: Math.min(start, end), size: Math.abs(p.y), words: p.words, place: [0, i], fill: p.y < 0 ? colour(2) : colour(0) };
    });
    rows.push({ name: spec.total.name, low: Math.min(0, end), size: Math.abs(end), words: spec.total.words, place: [1, 0], fill: colour(6) });
    const base = { ...bar("transparent", { name: "base", stack: "all", silent: true, tooltip: { show: false } }), itemStyle: { color: "transparent", borderWidth: 0 }, emphasis: { disabled: true }, data: rows.map((row) => row.low) };
    const data = rows.map((row) => ({
      value: row.size,
      place: row.place,
      itemStyle: { color: row.fill, borderRadius: 2 },
      emphasis: { itemStyle: { color: row.fill, opacity: 0.82 } },
      label: { show: true, position: "right", formatter: row.words, ...text({ color: "var(--ink)" }) },
    }));
    return categories(spec, rows.map((row) => row.name), [base, bar(colour(0), { name: spec.series[0].name, stack: "all", data })], margin);
  };
  const ranges = (spec, margin, { clientWidth }) => {
    const steps = spec.series.flatMap((series, s) => series.points.map((p, i) => ({ ...p, place: [s, i] })));
    const draw = ({ dataIndex }, api) => {
      const p = steps[dataIndex];
      const [low, y] = api.coord([p.low, dataIndex]);
      const [high, base] = [api.coord([p.high, dataIndex])[0], api.coord([p.y, dataIndex])[0]];
      const height = Math.min(22, api.size([0, 1])[1] * 0.6);
      const part = (from, to, fill) => ({ type: "rect", shape: { x: Math.min(from, to), y: y - height / 2, width: Math.max(1, Math.abs(to - from)), height, r: 2 }, style: { fill } });
      const name = (x, words, align) => ({ type: "text", style: { text: words, x, y, align, verticalAlign: "middle", fill: "var(--ink)", font: "12px system-ui, sans-serif" } });
      const labels = [name(Math.min(low, base) - 6, p.ends[0], "right"), name(Math.max(high, base) + 6, p.ends[1], "left")];
      return { type: "group", children: [part(low, base, colour(2)), part(base, high, colour(1)), ...labels] };
    };
    const data = steps.map((p, i) => ({ value: [p.low, p.high, i], place: p.place }));
    const series = { type: "custom", animation: false, renderItem: draw, data, encode: { x: [0, 1], y: 2 } };
    const base = steps[0].y;
    const lines = { ...spec, references: [{ axis: "y", value: base, label: steps[0].words }, ...spec.references] };
    const [least, most] = [Math.min(...steps.map((p) => p.low)), Math.max(...steps.map((p) => p.high))];
    // The words at the low ends need their place before the axis, however narrow the page is.
    const width = clientWidth - margin - RIGHT_PX;
    const span = most - least || Math.abs(most) || 1;
    const longest = LETTER_PX * Math.max(...steps.map((p) => p.ends[0].length)) + 8;
    const after = span * 0.14;
    const before = (longest * (span + after)) / Math.max(longest, width - longest);
    const ends = { min: least - before, max: most + after };
    series.markLine = references(lines, true, (_, value) => partOf(value, ends, {}) * width);
    return categories(lines, steps.map((p) => p.name), [series], margin, ticked(spec.y, ends, least < 0 ? -Infinity : 0));
  };

  const BUILDERS = { line: points, scatter: points, bar: bars, stacked: bars, waterfall, range: ranges };
  const charts = [];
  const build = (spec, place) => {
    const width = place.clientWidth;
    const longest = Math.max(0, ...namesOf(spec).map((name) => name.length));
    const margin = Math.min(Math.max(64, longest * 7 + 22), width * 0.34);
    return {
      textStyle: { fontFamily: "inherit" },
      tooltip: tooltip(spec),
      legend: { show: false },
      ...BUILDERS[spec.kind](spec, margin, place),
    };
  };
  const isBars = (spec) => !["line", "scatter"].includes(spec.kind);
  const drawChart = (figure) => {
    const place = figure.querySelector(".plot");
    const spec = JSON.parse(figure.querySelector("script").textContent);
    // Over a narrow range a logarithmic axis has hardly a round number to show and looks like a linear one.
    for (const name of ["x", "y"]) {
      const values = spec.series.flatMap((one) => one.points.flatMap((p) => (name === "x" ? [p.x] : [p.y, p.low ?? p.y, p.high ?? p.y])));
      if (Math.max(...values) / Math.min(...values) < 2) spec[name].log = false;
    }
    if (isBars(spec)) {
      const rows = namesOf(spec).length * (spec.kind === "bar" ? spec.series.length : 1) + (spec.kind === "waterfall");
      place.style.minHeight = "0";
      place.style.height = `${Math.max(6, rows * 1.9 + 4)}rem`;
    } else place.style.height = "23rem";
    const chart = echarts.init(place, null, { renderer: "svg" });
    const redraw = () => {
      const { ends, ...option } = build(spec, place);
      chart.setOption(option);
    };
    redraw();
    charts.push({ chart, place, redraw });
    if (spec.series.length > 1) addLegend(figure, chart, spec);
    if (!isBars(spec)) addZoom(figure, chart, spec, build(spec, place).ends);
    figure.dataset.drawn = "";
  };
  const addLegend = (figure, chart, spec) => {
    const box = element("div", { className: "legend" });
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", `Series of: ${spec.title}`);
    spec.series.forEach((series, s) => {
      const key = element("i");
      key.style.setProperty("--key", colours(spec)[s]);
      const button = element("button", { type: "button" }, key, series.name);
      button.setAttribute("aria-pressed", "true");
      button.addEventListener("click", () => {
        const isShown = button.getAttribute("aria-pressed") === "true";
        button.setAttribute("aria-pressed", String(!isShown));
        chart.dispatchAction({ type: isShown ? "legendUnSelect" : "legendSelect", name: series.name });
      });
      box.append(button);
    });
    figure.querySelector(".plot").before(box);
  };
  const addZoom = (figure, chart, spec, ends) => {
    // Round ticks for the part that is seen.
    chart.on("datazoom", () => {
      const axes = chart.getOption().dataZoom.map(({ start, end }, i) => {
        const axis = i ? spec.y : spec.x;
        const { min, max } = i ? ends.y : ends.x;
        const at = (part) => (axis.log ? min * (max / min) ** (part / 100) : min + ((max - min) * part) / 100);
        const customValues = ticks(at(start), at(end), axis);
        return { axisTick: { customValues }, axisLabel: { customValues } };
      });
      chart.setOption({ xAxis: axes[0], yAxis: axes[1] });
    });
    const box = element("span", { className: "tools" });
    const zoom = (factor) => {
      chart.getOption().dataZoom.forEach(({ start, end }, dataZoomIndex) => {
        const middle = (start + end) / 2;
        const half = Math.min(50, Math.max(1, ((end - start) / 2) * factor));
        const from = Math.min(100 - 2 * half, Math.max(0, middle - half));
        chart.dispatchAction({ type: "dataZoom", dataZoomIndex, start: factor ? from : 0, end: factor ? from + 2 * half : 100 });
      });
    };
    for (const [label, name, factor] of [["+", "Zoom in", 0.6], ["−", "Zoom out", 1 / 0.6], ["Reset", "Reset the zoom", 0]]) {
      const button = element("button", { type: "button", title: `${name} (Ctrl + wheel zooms, dragging moves)` }, label);
      button.setAttribute("aria-label", name);
      button.addEventListener("click", () => zoom(factor));
      box.append(button);
    }
    figure.querySelector("figcaption").append(box);
  };
  const isVisible = (node) => node.offsetParent !== null;
  const drawVisible = (scope = document) =>
    all("figure.chart:not([data-drawn])", scope).filter(isVisible).forEach((figure) => drawChart(figure));
  const resize = () => charts.filter(({ place }) => isVisible(place)).forEach(({ chart, redraw }) => (chart.resize({ animation: { duration: 0 } }), redraw()));

  const start = () => {
    showTheme(root.dataset.theme);
    all(".switch").forEach((button) =>
      button.addEventListener("click", () => {
        const theme = root.dataset.theme === "dark" ? "light" : "dark";
        stored(theme);
        showTheme(theme);
      }),
    );
    all("table[data-sortable]").forEach(makeSortable);
    all("table[data-filter]").forEach(makeFilter);
    all("button.more").forEach((button) =>
      button.addEventListener("click", () => {
        const detail = document.getElementById(button.getAttribute("aria-controls"));
        const isOpen = detail.classList.toggle("open");
        button.setAttribute("aria-expanded", String(isOpen));
        drawVisible(detail);
      }),
    );
    if (navigator.clipboard)
      all(".figure").forEach((box) => {
        const button = element("button", { type: "button", className: "copy" }, "Copy");
        button.addEventListener("click", async () => {
          await navigator.clipboard.writeText(box.querySelector("pre").textContent);
          button.textContent = "Copied";
          setTimeout(() => (button.textContent = "Copy"), 1500);
        });
        box.append(button);
      });
    drawVisible();
    let timer;
    addEventListener("resize", () => (clearTimeout(timer), (timer = setTimeout(resize, 80))));
    // Paper is narrower than the window: drawings become scalable while they are printed.
    addEventListener("beforeprint", () =>
      all(".plot svg").forEach((svg) => svg.setAttribute("viewBox", `0 0 ${svg.getAttribute("width")} ${svg.getAttribute("height")}`)),
    );
    addEventListener("afterprint", () => all(".plot svg").forEach((svg) => svg.removeAttribute("viewBox")));
    root.dataset.ready = "";
    performance.mark("advisor-ready");
  };
  start();
})();
