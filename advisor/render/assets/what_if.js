// Controls that compute a table again: reading, sliders, links; the script of each kind of answer has the formulas.
"use strict";
const whatIf = {
  // A number with three digits, thousands separated, as advisor/render/numbers.py writes it.
  digits: (value, significant = 3) => {
    if (value === 0) return "0";
    const decimals = Math.min(20, Math.max(0, significant - 1 - Math.floor(Math.log10(Math.abs(value)))));
    const format = { minimumFractionDigits: decimals, maximumFractionDigits: decimals };
    const text = value.toLocaleString("en", format);
    return Number.isInteger(parseFloat(text.replaceAll(",", ""))) ? text.split(".")[0] : text;
  },
  // Dollars: cents below 100, whole dollars above, two digits below ten cents.
  usd: (value) => {
    if (Math.abs(value) < 0.1) return `$${whatIf.digits(value, 2)}`;
    const decimals = Math.abs(value) < 100 ? 2 : 0;
    return `$${value.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals })}`;
  },
  // A time in the largest unit in which it is at least 1, as advisor/render/numbers.py writes it.
  time: (value) => {
    const units = [[1e-6, "µs"], [1e-3, "ms"], [1, "s"], [60, "min"], [3600, "h"], [86400, "days"]];
    const [factor, unit] = units.findLast((each) => value >= 0.9995 * each[0]) ?? units[0];
    return `${whatIf.digits(value / factor)} ${unit}`;
  },
  // `answerOf` takes the data of the page and returns what answers a setting: rows of cells, a sentence, lists by name.
  // A cell is a text, or a text with the number that it shows.
  start: (answerOf) => {
    const holder = document.getElementById("what-if-data");
    if (!holder) return;
    const data = JSON.parse(holder.textContent);
    const answer = answerOf(data);
    const STEPS = 200;
    const at = (name) => document.getElementById(`w-${name}`);
    const { controls } = data;
    const isNumber = (control) => !control.choices;
    const sliders = controls.filter((control) => control.slider);
    const body = document.querySelector("#what-if-rows tbody");
    const headers = [...document.querySelectorAll("#what-if-rows th")].map((th) => th.textContent);
    const said = document.getElementById("what-if-answer");

    const clamp = ({ low, high, asked }, value) => (Number.isFinite(value) ? Math.min(high, Math.max(low, value)) : asked);
    // A field shows six digits, so an untouched one stands for the value that was asked, with all of its digits.
    const shown = (value) => String(+value.toPrecision(6));
    const valueOf = (control) => {
      const text = at(control.name).value;
      if (!isNumber(control)) return text;
      return text === shown(control.asked) ? control.asked : clamp(control, parseFloat(text));
    };
    const read = () => Object.fromEntries(controls.map((control) => [control.name, valueOf(control)]));
    const slide = (control) => {
      const part = Math.log(valueOf(control) / control.low) / Math.log(control.high / control.low);
      at(`${control.name}-slider`).value = Math.round(STEPS * part);
    };
    const cellOf = (cell, column) => {
      const td = document.createElement("td");
      td.textContent = cell.text ?? cell;
      if (cell.key !== undefined) td.dataset.key = cell.key;
      td.dataset.label = headers[column];
      return td;
    };
    const show = () => {
      const setting = read();
      const found = answer(setting);
      body.replaceChildren(
        ...found.rows.map((row) => {
          const tr = document.createElement("tr");
          tr.className = "row";
          tr.append(...row.map(cellOf));
          return tr;
        }),
      );
      said.textContent = found.said;
      for (const [name, lines] of Object.entries(found.lists ?? {})) {
        const items = lines.map((line) => Object.assign(document.createElement("li"), { textContent: line }));
        document.getElementById(`what-if-${name}`).replaceChildren(...items);
      }
      const changed = controls.filter(({ name, asked }) => setting[name] !== asked);
      const fragment = changed.map(({ name }) => `${name}=${encodeURIComponent(setting[name])}`).join("&");
      history.replaceState(null, "", fragment ? `#what-if:${fragment}` : location.pathname + location.search);
    };
    const set = (control, value) => {
      const field = at(control.name);
      if (isNumber(control)) field.value = shown(clamp(control, parseFloat(value)));
      else if ([...field.options].some((option) => option.value === value)) field.value = value;
    };
    const take = () => {
      if (!location.hash.startsWith("#what-if:")) return;
      const given = new URLSearchParams(location.hash.slice("#what-if:".length));
      for (const control of controls) set(control, given.get(control.name) ?? String(control.asked));
      sliders.forEach(slide);
      show();
    };
    for (const control of controls)
      at(control.name).addEventListener("input", () => (control.slider ? slide(control) : null, show()));
    for (const control of sliders)
      at(`${control.name}-slider`).addEventListener("input", (event) => {
        const value = control.low * (control.high / control.low) ** (event.target.value / STEPS);
        at(control.name).value = String(+value.toPrecision(3));
        show();
      });
    document.getElementById("what-if-reset").addEventListener("click", () => {
      for (const control of controls) set(control, String(control.asked));
      sliders.forEach(slide);
      show();
    });
    addEventListener("hashchange", take);
    sliders.forEach(slide);
    if (location.hash.startsWith("#what-if:")) take();
    else show();
  },
};
