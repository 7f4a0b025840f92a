// Plots, and new numbers every 30 seconds. All pages work without it.
"use strict";

const REFRESH = 30000;  // milliseconds
const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3], [5, 5], [14, 4], [2, 7], [6, 2, 2, 2, 2, 2]];
const LIGHT = ["#0b4f9c", "#a1260d", "#0b6b3a", "#7b3fa0", "#7a4f00", "#00666e", "#8a1c5b", "#444444"];
const DARK = ["#8ec3ff", "#ff9b85", "#6fdc9b", "#d3a6f5", "#f2c14e", "#6fd6de", "#ff9ecb", "#cccccc"];
const dark = window.matchMedia("(prefers-color-scheme: dark)");

function element(name, content) {
  const made = document.createElement(name);
  if (content) made.textContent = content;
  return made;
}

// What line belongs to which name: by dashes as well as by colour.
function sample(colour, dash) {
  const space = "http://www.w3.org/2000/svg";
  const image = document.createElementNS(space, "svg");
  const line = document.createElementNS(space, "line");
  image.setAttribute("viewBox", "0 0 32 10");
  image.setAttribute("aria-hidden", "true");
  for (const [key, value] of Object.entries({ x1: 0, y1: 5, x2: 32, y2: 5, stroke: colour, "stroke-width": 2.5,
    "stroke-dasharray": dash.join(" ") })) line.setAttribute(key, value);
  image.append(line);
  return image;
}

function plot(section, data) {
  const colours = dark.matches ? DARK : LIGHT;
  const figure = element("figure");
  figure.className = "plot";
  figure.append(element("figcaption", data.unit ? `${data.title} (${data.unit})` : data.title));
  const key = element("ul");
  key.className = "key";
  data.series.forEach((one, number) => {
    const known = one.values.filter((value) => value !== null);
    const mean = known.reduce((sum, value) => sum + value, 0) / known.length;
    const digits = ["", "MB/s"].includes(data.unit) ? 1 : 0;
    const text = `${one.name}: ${section.dataset.mean} ${mean.toFixed(digits)}, ` +
      `${section.dataset.most} ${Math.max(...known).toFixed(digits)}`;
    const item = element("li");
    item.append(sample(colours[number % colours.length], DASHES[number % DASHES.length]), text);
    key.append(item);
  });
  const place = element("div");
  figure.append(place, key);
  section.querySelector(".plots").append(figure);
  const text = getComputedStyle(document.body).color;
  const grid = { stroke: dark.matches ? "#3a424b" : "#d0d7de", width: 1 };
  const axis = { stroke: text, grid, ticks: grid };
  const range = data.unit === "%" ? [0, 100] : (chart, low, high) => [0, Math.max(high * 1.1, 1)];
  const chart = new uPlot({
    width: Math.max(place.clientWidth, 260), height: 200, legend: { show: false },
    cursor: { drag: { x: false, y: false } }, scales: { y: { range } }, axes: [{ ...axis, space: 70,
      values: [[86400, "{YYYY}-{MM}-{DD}", null, null, null, null, null, null, 1],
        [3600, "{HH}:{mm}", "\n{MM}-{DD}", null, "\n{MM}-{DD}", null, null, null, 1],
        [1, "{HH}:{mm}", "\n{MM}-{DD}", null, "\n{MM}-{DD}", null, null, null, 1]] }, axis],
    series: [{}, ...data.series.map((one, number) => ({ label: one.name, width: 1.5, spanGaps: false,
      stroke: colours[number % colours.length], dash: DASHES[number % DASHES.length], points: { show: false } }))],
  }, [data.times, ...data.series.map((one) => one.values)], place);
  const canvas = place.querySelector("canvas");
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", [data.title, ...data.series.map((one) => one.name)].join(", "));
  new ResizeObserver(() => chart.setSize({ width: Math.max(place.clientWidth, 260), height: 200 })).observe(place);
}

let asked = 0;

async function plots(section, span) {
  const mine = ++asked;
  const place = section.querySelector(".plots");
  for (const button of section.querySelectorAll("[data-span]"))
    button.setAttribute("aria-pressed", String(button.dataset.span === span));
  let found = null;
  try {
    const answer = await fetch(`${section.dataset.source}?span=${span}`, { credentials: "same-origin" });
    if (answer.ok) found = (await answer.json()).plots;
  } catch (error) { /* said below */ }
  if (mine !== asked) return;  // another span was chosen meanwhile
  place.replaceChildren();
  if (found === null) place.append(element("p", section.dataset.failed));
  else if (found.length === 0) place.append(element("p", section.dataset.none));
  else found.forEach((one) => plot(section, one));
}

const section = document.getElementById("history");
if (section !== null && typeof uPlot !== "undefined") {
  const choice = section.querySelector(".spans");
  choice.hidden = false;
  let span = "1d";
  choice.addEventListener("click", (event) => {
    const wanted = event.target.closest("[data-span]");
    if (wanted) plots(section, span = wanted.dataset.span);
  });
  dark.addEventListener("change", () => plots(section, span));
  plots(section, span);
}

// The numbers again. Whoever is at something in them with the keyboard is left alone.
async function refresh() {
  const old = document.querySelector(".fresh");
  if (document.hidden || old === null || old.contains(document.activeElement) ||
    old.querySelector("details[open]") !== null) return;
  try {
    const answer = await fetch(window.location.href, { credentials: "same-origin" });
    if (answer.redirected) { window.location.reload(); return; }  // the session is over
    if (!answer.ok) return;  // the page says of when it is
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const what of [".fresh", ".as-of"]) {
      const here = document.querySelector(what), there = page.querySelector(what);
      if (here !== null && there !== null) here.replaceWith(document.adoptNode(there));
    }
  } catch (error) { /* the next time */ }
}

if (document.querySelector("main[data-refresh]") !== null) setInterval(refresh, REFRESH);
