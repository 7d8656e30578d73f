// Ways to get the tokens of a day, and where two of them cost the same: the formulas of advisor/economics/decisions.py,
// fleet.py, break_even.py and advisor/decide/ownership.py, on the terms of advisor/economics/what_if.py.
"use strict";
whatIf.start((data) => {
  const { terms, most_rows: mostRows } = data;
  const { digits, usd } = whatIf;
  const ROUNDING = 1e-9;
  const DAY_H = 24;
  const DAY_S = 86400;
  const MONTH_H = 730.5;
  const MONTH_DAYS = MONTH_H / DAY_H;
  const MILLION = 1e6;
  const three = (value) => String(+value.toPrecision(3));
  const cents = (value) => Math.round(value * 100) / 100;
  const total = (values) => values.reduce((sum, value) => sum + Math.round(value * 100), 0) / 100;

  // The day: levels of the load whose mean is 1, and the units that each part of it needs.
  const relativeOf = (hours) =>
    hours >= DAY_H ? terms.relative : Array.from({ length: DAY_H }, (_, hour) => (hour < hours ? DAY_H / hours : 0));
  const unitsOf = (size, rate) => {
    const replicas = Math.max(1, Math.ceil(rate / size.planned_requests_per_s - ROUNDING)) + size.num_spare;
    const units = Math.max(size.min_units, Math.ceil(replicas / size.replicas_per_unit));
    return size.max_units !== null && units > size.max_units ? null : { replicas, units };
  };
  const dayOf = (size, day) => {
    const needed = day.relative.map((level) => {
      const replicas = Math.ceil((day.mean * level) / size.planned_requests_per_s - ROUNDING);
      return Math.ceil((level > 0 ? Math.max(replicas, 1) + size.num_spare : 0) / size.replicas_per_unit);
    });
    return { needed, used: (DAY_H * day.mean) / (size.planned_requests_per_s * size.replicas_per_unit) };
  };
  const hoursAbove = (needed, base) => {
    const above = needed.map((units) => Math.max(0, units - base));
    const starts = above.reduce((sum, units, i) => sum + Math.max(0, units - above.at(i - 1)), 0);
    const running = above.reduce((sum, units) => sum + units, 0);
    return (running * DAY_H) / needed.length + (starts * terms.startup_minutes) / 60;
  };
  const policyCost = (policy, needed, factor) => {
    const peakPrice = policy.peak_usd_per_unit_hour * factor;
    if (policy.base_usd_per_unit_hour === null) {
      const hours = hoursAbove(needed, 0);
      return { hours, usd: hours * peakPrice };
    }
    const most = Math.max(...needed);
    const least = policy.keeps_least ? Math.min(most, Math.max(1, Math.min(...needed))) : 0;
    let best = null;
    for (let base = least; base <= most; base++) {
      const peakHours = hoursAbove(needed, base) * (1 + policy.overhead_fraction);
      const baseHours = base * DAY_H;
      const found = baseHours * policy.base_usd_per_unit_hour * factor + peakHours * peakPrice;
      if (best === null || found < best.usd) best = { hours: baseHours + peakHours, usd: found };
    }
    return best;
  };

  // Deployments that are rented or owned, at the volume of a setting.
  const placed = (size, day, units, perHour, deal) => ({
    size, deal, perHour,
    accelerator: size.accelerator,
    used: day.mean / (units * size.replicas_per_unit) / size.capacity_requests_per_s,
    tokens: day.volume,
    mean: day.mean,
  });
  const rent = (option, day, factor) => {
    const { size } = option;
    const found = unitsOf(size, day.peak);
    if (found === null) return null;
    const perHour = found.units * option.usd_per_unit_hour * factor + size.extra_usd_per_hour;
    const deal = `${found.units * size.accelerators_per_unit} x ${size.accelerator} from ${option.provider}`;
    return { ...placed(size, day, found.units, perHour, deal), option };
  };
  const fleets = (option, day, factor) => {
    const { size } = option;
    const { needed, used } = dayOf(size, day);
    const most = Math.max(...needed);
    const fixed = most * DAY_H * option.usd_per_unit_hour * factor;
    return option.policies
      .map((policy) => ({ policy, cost: policyCost(policy, needed, factor) }))
      .filter(({ cost }) => cost.usd < fixed * (1 - ROUNDING))
      .map(({ policy, cost }) => ({
        way: "rent",
        what: `${most * size.accelerators_per_unit} x ${size.accelerator} from ${option.provider}`,
        perDay: cost.usd + DAY_H * size.extra_usd_per_hour,
        used: cost.hours ? Math.min(1, used / cost.hours) : 0,
        pricedOn: policy.priced_on,
        note: policy.policy + size.left_out,
        mayLead: policy.may_lead,
      }));
  };
  const interestOf = (principal, perYear, months) => {
    const perMonth = perYear / 12;
    if (perMonth <= 0 || months <= 0) return 0;
    const payment = (principal * perMonth) / -Math.expm1(-months * Math.log1p(perMonth));
    return Math.max(0, payment * months - principal);
  };
  const own = (option, day, setting) => {
    const { size } = option;
    const found = unitsOf(size, day.peak);
    if (found === null) return null;
    const count = found.units * size.accelerators_per_unit;
    const powered = found.units * option.powered_per_unit;
    const busy = Math.min(powered, found.replicas * option.accelerators_per_replica);
    const leastW = busy * option.waiting_w + (powered - busy) * option.idle_w;
    const meanW = leastW + option.joules_per_request * day.mean;
    const months = setting.years * 12;
    const bought = total([
      count * option.purchase_usd * (1 + (setting.buy ?? 0) / 100),
      count * option.machines_usd,
      count * option.network_usd,
    ]);
    const kept = (1 - setting.decay / 100) ** setting.years;
    const kwh = ((meanW * option.system_power_factor) / 1000) * months * MONTH_H;
    const energy = [kwh * setting.electricity, kwh * (option.pue - 1) * setting.electricity];
    const upkeep = [
      option.colocation_usd_per_month * found.units * months,
      option.staff_usd_per_month * Math.ceil(count / option.accelerators_per_machine) * months,
    ];
    const whole = total([bought, -bought * kept, interestOf(bought, option.interest_per_year, months), ...energy, ...upkeep]);
    const ownedPerHour = whole / (months * MONTH_H);
    return {
      ...placed(size, day, found.units, ownedPerHour + size.extra_usd_per_hour, `${count} x ${size.accelerator}`),
      ownedPerHour, bought,
      years: setting.years,
      runningPerMonth: total([...energy, ...upkeep]) / months,
      energyPerMonth: total(energy) / months,
    };
  };
  const wayOf = (way, row, note) => ({
    way, note,
    what: row.deal,
    perDay: row.perHour * DAY_H,
    used: row.used,
    pricedOn: row.size.priced_on,
    mayLead: row.size.may_lead,
  });

  // Where two ways cost the same.
  const againstApi = (row, deal, api) => {
    const fullPerHour = row.tokens / DAY_H / row.used;
    const price = api.usd_per_million_tokens;
    const share = (row.perHour * MILLION) / (fullPerHour * price);
    if (share > 1) {
      const full = (row.perHour / fullPerHour) * MILLION;
      return `${deal} costs more than ${api.provider} at any load: $${three(full)} per million tokens when full, against $${three(price)}`;
    }
    const volume = Math.round((row.perHour * DAY_H) / price).toLocaleString("en");
    return `${deal} costs less than ${api.provider} from ${volume} million tokens a day on, ${(100 * share).toFixed(0)} % of what it can serve`;
  };
  const againstRent = (row, rented) => {
    const deal = `owning ${row.deal}`;
    const other = `renting ${rented.deal}`;
    const saved = rented.perHour * MONTH_H - row.runningPerMonth;
    const months = saved > 0 ? row.bought / saved : null;
    const energy = row.energyPerMonth / MONTH_H;
    const hours = rented.perHour > energy ? ((row.ownedPerHour - energy) * DAY_H) / (rented.perHour - energy) : null;
    let paid = `${deal} never pays for itself against ${other}: running it costs as much`;
    if (months !== null) paid = `${deal} breaks even after ${months.toFixed(0)} months against ${other} around the clock`;
    if (months !== null && months > 12 * row.years) paid += `, longer than its ${+row.years.toPrecision(6)} years: what resale brings back is not counted here`;
    const worth =
      hours !== null && hours <= DAY_H
        ? `${deal} costs less than ${other} from ${hours.toFixed(1)} hours of use a day on`
        : `${deal} costs more than ${other} even around the clock`;
    return [paid, worth];
  };
  const crossings = (rented, owned) => {
    const cheapest = [...terms.api].sort((a, b) => a.usd_per_million_tokens - b.usd_per_million_tokens).slice(0, 2);
    const [first] = rented;
    const lines = first ? cheapest.map((api) => againstApi(first, `renting ${first.deal}`, api)) : [];
    for (const row of owned.slice(0, 1)) {
      lines.push(...cheapest.slice(0, 1).map((api) => againstApi(row, `owning ${row.deal}`, api)));
      const same = rented.find((each) => each.accelerator === row.accelerator) || first;
      if (same) lines.push(...againstRent(row, same));
    }
    return lines;
  };

  const verbs = { rent: "rent", own: "own", api: "call the API of" };
  return (setting) => {
    const relative = relativeOf(Math.round(setting.hours));
    const volume = setting.volume * MILLION;
    const mean = volume / DAY_S / terms.tokens_per_request;
    const day = { relative, volume, mean, peak: mean * Math.max(...relative) };
    const factor = 1 + setting.rent / 100;
    const known = (rows) => rows.filter((row) => row !== null);
    const rented = known(terms.rented.map((option) => rent(option, day, factor)));
    const owned = known(terms.owned.map((option) => own(option, day, setting))).sort((a, b) => a.perHour - b.perHour);
    const ways = [
      ...rented.map((row) => wayOf("rent", row, row.option.note)),
      ...terms.rented.flatMap((option) => fleets(option, day, factor)),
      ...owned.map((row) => {
        const doubt = row.size.may_lead ? "" : ", less sure than option 1";
        return wayOf("own", row, `${+row.years.toPrecision(6)} years, resale counted${row.size.left_out}${doubt}`);
      }),
      ...terms.api.map((api) => ({
        way: "api",
        what: `${api.provider} (${api.model})`,
        perDay: (api.usd_per_million_tokens * volume) / MILLION,
        used: null,
        pricedOn: api.price_observed_on,
        note: api.note,
        mayLead: true,
      })),
    ].sort((a, b) => a.perDay - b.perDay);
    const counts = {};
    const shown = ways.filter((way) => {
      counts[way.way] = (counts[way.way] || 0) + 1;
      return counts[way.way] <= mostRows || way.way === "own";
    });
    const rows = shown.map((way) => {
      const perMonth = way.perDay * MONTH_DAYS;
      const perMillion = (way.perDay / volume) * MILLION;
      return [
        way.way,
        way.what,
        { text: usd(perMonth), key: perMonth },
        { text: `$${digits(perMillion)}`, key: perMillion },
        way.used === null ? "-" : `${digits(100 * way.used)} %`,
        way.pricedOn,
        way.note,
      ];
    });
    const best = ways.find((way) => way.mayLead) || ways[0];
    const how = best && best.way === "rent" ? ` (${best.note})` : "";
    const said = best
      ? `At ${digits(setting.volume)} million tokens a day: ${verbs[best.way]} ${best.what}${how} for ${usd(best.perDay * MONTH_DAYS)} a month, $${digits((best.perDay / volume) * MILLION)} per million.`
      : "Nothing here carries that volume: ask the command.";
    return { rows, said, lists: { crossings: crossings(rented, owned) } };
  };
});
