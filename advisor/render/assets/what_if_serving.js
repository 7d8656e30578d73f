// Deployments ranked again: the rules of advisor/decide/what_if.py, on the same surface.
"use strict";
whatIf.start((data) => {
  const { surface } = data;
  const { digits } = whatIf;
  const ROUNDING = 1e-9;
  const MONTH_H = 730.5;

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
  const tpotAt = (deployment, load) => {
    const grid = surface.tpot_limits_s;
    const place = deployment.capacities.findIndex((each) => each !== null && each >= load);
    if (place < 0) return grid[grid.length - 1];
    const above = deployment.capacities[place];
    const lower = place === 0 ? null : deployment.capacities[place - 1];
    if (lower === null || lower === above) return grid[place];
    return grid[place - 1] * (grid[place] / grid[place - 1]) ** (Math.log(load / lower) / Math.log(above / lower));
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
    const room = Math.log(setting.limit / 1000 / tpotAt(deployment, rate / replicas));
    const chance = Math.min(
      1 - below((data.z80 * Math.log(part)) / Math.max(side, ROUNDING)),
      below((data.z80 * room) / Math.max(deployment.log_slower, ROUNDING)),
    );
    const isKnown = deployment.is_measured && offer.is_firm;
    return {
      deployment, offer, replicas, units, perHour, usd, chance, isKnown,
      isSafe: isKnown && chance >= data.likely,
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
    return [...new Set([least(rows), least(rows.filter((row) => row.isSafe))].filter((row) => row !== null))];
  };
  const sort = (rows) => {
    const order = [...rows].sort((a, b) => a.expected - b.expected);
    const safe = order.find((row) => row.isSafe) || order.find((row) => row.isKnown);
    if (!safe || order[0] === safe || order[0].high < safe.low) return order;
    return [safe, ...order.filter((row) => row !== safe)];
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
    const key = (row) => [!row.deployment.is_shown, -even(row.chance * 10), ...row.deployment.complexity, -row.deployment.least_throughput, row.deployment.words];
    const equal = able.filter((row) => row.usd <= bill && row.expected <= expected && row.isSafe === best.isSafe && row.isKnown === best.isKnown);
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
      `${offer.source_words}, ${age}`,
      `$${digits(row.perHour)}`,
      `$${digits(row.perHour * MONTH_H * part)}`,
      `$${digits(row.usd * perToken)} (${digits(row.low * perToken)}-${digits(row.high * perToken)})`,
      row.chance >= data.likely ? "likely" : "marginal",
    ];
  };
  return (setting) => {
    const ranked = rank(setting);
    const rows = ranked.slice(0, 10).map((row, i) => cells(row, i + 1, setting));
    const said = rows.length
      ? `At ${digits(setting.load)} requests/s and ${digits(setting.limit)} ms: ${rows[0][1]} from ${ranked[0].offer.source_words}, ${rows[0][4]}/h, ${rows[0][5]} a month.`
      : "Nothing in this surface meets that limit on that commitment: ask the command.";
    return { rows, said };
  };
});
