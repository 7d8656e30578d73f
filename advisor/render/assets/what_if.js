// Controls that rank deployments again: the rules of advisor/decide/what_if.py, on the same surface.
"use strict";
(() => {
  const holder = document.getElementById("what-if-data");
  if (!holder) return;
  const data = JSON.parse(holder.textContent);
  const { surface } = data;
  const ROUNDING = 1e-9;
  const STEPS = 200;
  const MONTH_H = 730.5;
  const at = (name) => document.getElementById(`w-${name}`);
  const names = ["load", "limit", "precision", "term", "hours", "gpu", "change"];
  const limits = surface.tpot_limits_s.map((s) => s * 1000);
  const ranges = { load: data.loads_per_s, limit: [limits[0], limits.at(-1)], hours: [0.5, 24], change: [-90, 300] };
  const asked = { load: surface.rate_per_s, limit: data.tpot_limit_s * 1000, precision: "", term: data.term, hours: 24, gpu: "", change: 0 };

  // Probability that a standard normal is below z (Abramowitz and Stegun 1964, 7.1.26, error below 1.5e-7).
  const below = (z) => {
    const x = Math.abs(z) / Math.SQRT2;
    const t = 1 / (1 + 0.3275911 * x);
    const tail = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t * Math.exp(-x * x);
    return z >= 0 ? 1 - tail / 2 : tail / 2;
  };
  const capacityAt = (deployment, limit) => {
    const grid = surface.tpot_limits_s;
    const found = grid.findIndex((each) => limit <= each * (1 + ROUNDING));
    if (found < 0 || limit < grid[0] * (1 - ROUNDING)) return null;
    const above = deployment.capacities[found];
    if (above === null || Math.abs(limit / grid[found] - 1) < ROUNDING || found === 0) return above;
    const lower = deployment.capacities[found - 1];
    if (lower === null) return null;
    const part = Math.log(limit / grid[found - 1]) / Math.log(grid[found] / grid[found - 1]);
    return lower * (above / lower) ** part;
  };
  const factorAt = (deployment, z) => Math.exp((z / data.z80) * (z > 0 ? deployment.log_high : -deployment.log_low));
  const buy = (deployment, offer, setting, capacity) => {
    const rate = setting.load;
    const replicas = Math.max(1, Math.ceil(rate / (capacity * (1 - surface.headroom_fraction)) - ROUNDING));
    const units = Math.max(offer.min_units, Math.ceil(replicas / offer.replicas_per_unit));
    if (offer.max_units !== null && units > offer.max_units) return null;
    const price = offer.usd_per_unit_hour * (setting.gpu === deployment.accelerator ? 1 + setting.change / 100 : 1);
    const perHour = units * price;
    const usd = (perHour / (rate * surface.tokens_per_request * 3600)) * 1e6;
    const unitsAt = (factor) => Math.max(units, Math.ceil(Math.max(replicas, Math.ceil(rate / (capacity * factor) - ROUNDING)) / offer.replicas_per_unit));
    const grown = data.quantile_z.map((z) => unitsAt(factorAt(deployment, z)) / units);
    const mean = grown.reduce((sum, each) => sum + each, 0) / grown.length;
    const part = rate / replicas / capacity;
    const side = Math.abs(part < 1 ? deployment.log_low : deployment.log_high);
    const spread = data.z80 * offer.sigma;
    const low = Math.log(unitsAt(factorAt(deployment, data.z80)) / units);
    const high = Math.log(unitsAt(factorAt(deployment, -data.z80)) / units);
    const chance = 1 - below((data.z80 * Math.log(part)) / Math.max(side, ROUNDING));
    const isKnown = deployment.is_measured && offer.is_firm;
    return {
      deployment, offer, replicas, units, perHour, usd, chance, isKnown,
      isFounded: isKnown && chance >= 0.75,
      expected: usd * Math.max(1, mean) * Math.exp(offer.drift + offer.sigma ** 2 / 2),
      low: usd * Math.exp(Math.min(0, offer.drift - Math.hypot(low, spread))),
      high: usd * Math.exp(Math.max(0, offer.drift + Math.hypot(high, spread))),
    };
  };
  const least = (rows) => rows.reduce((best, row) => (best === null || row.expected < best.expected ? row : best), null);
  const waysOf = (deployment, setting) => {
    const capacity = capacityAt(deployment, setting.limit / 1000);
    if (capacity === null) return [];
    const rows = deployment.offers
      .map((place) => data.offers[place])
      .filter((offer) => offer.term === setting.term)
      .map((offer) => buy(deployment, offer, setting, capacity))
      .filter((row) => row !== null);
    return [...new Set([least(rows), least(rows.filter((row) => row.isFounded))].filter((row) => row !== null))];
  };
  const sort = (rows) => {
    const order = [...rows].sort((a, b) => a.expected - b.expected);
    const founded = order.find((row) => row.isFounded) || order.find((row) => row.isKnown);
    if (!founded || order[0] === founded || order[0].high < founded.low) return order;
    return [founded, ...order.filter((row) => row !== founded)];
  };
  const compare = (a, b) => {
    for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return a[i] < b[i] ? -1 : 1;
    return 0;
  };
  const even = (value) => {
    const rounded = Math.round(value);
    return Math.abs(value % 1) === 0.5 ? 2 * Math.round(value / 2) : rounded;
  };
  const bestOf = (able) => {
    const best = sort(able)[0];
    const bill = best.usd * (1 + ROUNDING);
    const expected = best.expected * Math.exp(2 * data.sampling_sigma);
    const key = (row) => [-even(row.chance * 10), ...row.deployment.complexity, -row.deployment.least_throughput, row.deployment.words];
    const equal = able.filter((row) => row.usd <= bill && row.expected <= expected && row.isFounded === best.isFounded && row.isKnown === best.isKnown);
    return equal.reduce((kept, row) => (compare(key(row), key(kept)) < 0 ? row : kept), equal[0] || best);
  };
  const rank = (setting) => {
    const able = new Map();
    for (const deployment of surface.deployments) {
      if (setting.precision && deployment.weight_dtype !== setting.precision) continue;
      const rows = waysOf(deployment, setting);
      if (rows.length) able.set(deployment.accelerator, [...(able.get(deployment.accelerator) || []), ...rows]);
    }
    return sort([...able.values()].map(bestOf));
  };

  const digits = (value) => (value >= 100 ? Math.round(value).toLocaleString("en") : String(+value.toPrecision(value >= 1 ? 3 : 2)));
  // Rented by the hour, machines cost only the hours in which they run; a commitment is paid day and night.
  const isHourly = (offer) => ["on_demand", "spot"].includes(offer.term);
  const cells = (row, place, setting) => {
    const { deployment, offer } = row;
    const part = isHourly(offer) ? setting.hours / 24 : 1;
    const perToken = isHourly(offer) ? 1 : 24 / setting.hours;
    const age = offer.age_days === null ? "undated" : `${offer.age_days}d`;
    return [
      String(place),
      `${row.units * offer.accelerators_per_unit} x ${deployment.accelerator}`,
      deployment.words,
      `${offer.provider}, ${age}`,
      `$${digits(row.perHour)}`,
      `$${digits(row.perHour * MONTH_H * part)}`,
      `$${digits(row.usd * perToken)} (${digits(row.low * perToken)}-${digits(row.high * perToken)})`,
      row.chance >= 0.75 ? "likely" : "marginal",
    ];
  };
  const body = document.querySelector("#what-if-rows tbody");
  const headers = [...document.querySelectorAll("#what-if-rows th")].map((th) => th.textContent);
  const said = document.getElementById("what-if-answer");
  const clamp = (name, value) => {
    const [low, high] = ranges[name];
    return Number.isFinite(value) ? Math.min(high, Math.max(low, value)) : asked[name];
  };
  const read = () => {
    const setting = {};
    for (const name of names) setting[name] = name in ranges ? clamp(name, parseFloat(at(name).value)) : at(name).value;
    return setting;
  };
  const slide = (name) => {
    const [low, high] = ranges[name];
    at(`${name}-slider`).value = Math.round((STEPS * Math.log(clamp(name, parseFloat(at(name).value)) / low)) / Math.log(high / low));
  };
  const show = () => {
    const setting = read();
    const rows = rank(setting);
    body.replaceChildren(
      ...rows.slice(0, 10).map((row, i) => {
        const tr = document.createElement("tr");
        tr.className = "row";
        cells(row, i + 1, setting).forEach((text, column) => {
          const td = document.createElement("td");
          td.textContent = text;
          td.dataset.label = headers[column];
          tr.append(td);
        });
        return tr;
      }),
    );
    const first = rows[0] && cells(rows[0], 1, setting);
    said.textContent = first
      ? `At ${digits(setting.load)} requests/s and ${digits(setting.limit)} ms: ${first[1]} from ${rows[0].offer.provider}, ${first[4]}/h, ${first[5]} a month.`
      : "Nothing in this surface meets that limit on that commitment: ask the command.";
    const changed = names.filter((name) => String(setting[name]) !== String(asked[name]));
    const fragment = changed.map((name) => `${name}=${encodeURIComponent(setting[name])}`).join("&");
    history.replaceState(null, "", fragment ? `#what-if:${fragment}` : location.pathname + location.search);
  };
  const take = () => {
    if (!location.hash.startsWith("#what-if:")) return;
    const given = new URLSearchParams(location.hash.slice("#what-if:".length));
    for (const name of names) {
      const value = given.get(name) ?? String(asked[name]);
      if (name in ranges) at(name).value = String(+clamp(name, parseFloat(value)).toPrecision(6));
      else if ([...at(name).options].some((option) => option.value === value)) at(name).value = value;
    }
    ["load", "limit"].forEach(slide);
    show();
  };
  for (const name of names) at(name).addEventListener("input", () => (name === "load" || name === "limit" ? slide(name) : null, show()));
  for (const name of ["load", "limit"])
    at(`${name}-slider`).addEventListener("input", (event) => {
      const [low, high] = ranges[name];
      at(name).value = String(+(low * (high / low) ** (event.target.value / STEPS)).toPrecision(3));
      show();
    });
  document.getElementById("what-if-reset").addEventListener("click", () => {
    for (const name of names) at(name).value = name in ranges ? String(+asked[name].toPrecision(6)) : asked[name];
    ["load", "limit"].forEach(slide);
    show();
  });
  addEventListener("hashchange", take);
  ["load", "limit"].forEach(slide);
  if (location.hash.startsWith("#what-if:")) take();
  else show();
})();
