// Machines owned and used otherwise: the formulas of advisor/workstation/economics.py on their prices, powers and rates.
"use strict";
whatIf.start((data) => {
  const { terms } = data;
  const { digits, usd } = whatIf;
  const YEAR_DAYS = 365;
  const payback = (days) => {
    if (days === null) return "-";
    return days >= YEAR_DAYS ? `${(days / YEAR_DAYS).toFixed(1)} years` : `${days.toFixed(0)} days`;
  };
  const rowOf = (machine, setting) => {
    const perMillion = (perHour) => (perHour / (machine.tokens_per_s * 3600)) * 1e6;
    const kept = setting.resale === undefined ? (1 - setting.decay / 100) ** setting.years : setting.resale / 100;
    const loss = machine.total_usd - machine.total_usd * kept;
    const energy = (machine.power_w / 1000) * setting.electricity;
    const own = loss / (setting.hours * YEAR_DAYS * setting.years) + energy;
    const rent = machine.rent_usd_per_hour === null ? null : machine.rent_usd_per_hour * (1 + setting.rent / 100);
    const saved = rent === null ? 0 : rent - energy;
    const hours = saved > 0 ? loss / saved : null;
    return {
      machine, own, rent, energy,
      ownPerMillion: perMillion(own),
      rentPerMillion: rent === null ? null : perMillion(rent),
      days: hours === null ? null : hours / setting.hours,
    };
  };
  const money = (value) => (value === null ? "-" : { text: usd(value), key: value });
  return (setting) => {
    const found = terms.machines
      .map((machine) => rowOf(machine, setting))
      .sort((a, b) => a.ownPerMillion - b.ownPerMillion);
    const rows = found.map((row) => [
      String(row.machine.rank),
      row.machine.name,
      row.machine.rent_words,
      usd(row.machine.total_usd),
      money(row.own),
      money(row.rent),
      money(row.ownPerMillion),
      money(row.rentPerMillion),
      row.days === null ? "-" : { text: payback(row.days), key: row.days },
    ]);
    const [best] = found;
    const against = best.rent === null ? "" : `, ${usd(best.rentPerMillion)} to rent as fast hardware`;
    const even = best.days === null ? "" : `; buying pays off after ${payback(best.days)}`;
    const said = `At ${digits(setting.hours)} hours a day for ${digits(setting.years)} years, ${best.machine.name} costs least to own: ${usd(best.ownPerMillion)} per million tokens${against}${even}.`;
    return { rows, said };
  };
});
