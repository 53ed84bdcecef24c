"use strict";
(() => {
  const root = document.documentElement;
  root.dataset.errors = "0";
  window.addEventListener("error", () => { root.dataset.errors = String(Number(root.dataset.errors) + 1); });

  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const OTHERS = ["#a05fc4", "#c9527e", "#5a8f3d", "#b88a1b", "#4aa3a8", "#7a6fd0"];
  const MOTORS = ["#d1495b", "#3579c8", "#5a8f3d", "#b88a1b"];
  const colour = (key) =>
    key === "built-in" ? css("--muted") :
    ["pid", "simulator", "transfer", "steady"].includes(key) ? css("--" + key) : OTHERS[(Number(key) || 0) % OTHERS.length];
  const fixed = (value, digits) => (Number.isFinite(value) ? value.toFixed(digits) : "–");
  const add = (parent, tag, text, className) => {
    const child = parent.appendChild(document.createElement(tag));
    if (text !== undefined) child.textContent = text;
    if (className) child.className = className;
    return child;
  };
  const named = (parent, name, key) => {
    const span = add(parent, "span", undefined, "name");
    add(span, "i").style.background = colour(key);
    add(span, "span", name);
  };
  const head = (table, names, texts = []) => {
    const row = add(add(table, "thead"), "tr");
    names.forEach((name, i) => add(row, "th", name, texts.includes(i) ? "text" : ""));
    return add(table, "tbody");
  };

  // Canvases: sharp on any screen, drawn again when something changes.
  const redraw = [];
  function board(canvas, draw) {
    const paint = () => {
      const scale = window.devicePixelRatio || 1;
      const { width, height } = canvas.getBoundingClientRect();
      if (!width || !height) return;
      const w = Math.round(width * scale), h = Math.round(height * scale);
      if (canvas.width !== w || canvas.height !== h) { canvas.width = w; canvas.height = h; }
      const g = canvas.getContext("2d");
      g.setTransform(scale, 0, 0, scale, 0, 0);
      g.clearRect(0, 0, width, height);
      draw(g, width, height);
    };
    redraw.push(paint);
    return paint;
  }
  const FONT = "12px system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";

  function ticks(low, high, count) {
    const span = high - low || 1;
    const raw = span / count, power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= raw);
    const list = [];
    for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + 1e-9 * span; v += step) list.push(Math.abs(v) < 1e-12 ? 0 : v);
    return { list, digits: Math.max(0, Math.min(6, -Math.floor(Math.log10(step) + 1e-9) + (step / power === 2.5 ? 1 : 0))) };
  }

  // A chart of lines: series are {name, colour, x, y, low, high, dash, width, marks}.
  function chart(id, options) {
    const canvas = $(id);
    let pointer = null;
    const paint = board(canvas, (g, width, height) => {
      const series = options.series().filter((s) => s.x.length);
      const box = { left: 62, right: width - 12, top: 10, bottom: height - 36 };
      let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];
      for (const s of series) {
        s.x.forEach((x, i) => {
          const ys = [s.y[i], s.low && s.low[i], s.high && s.high[i]].filter(Number.isFinite);
          if (!ys.length) return;
          x0 = Math.min(x0, x); x1 = Math.max(x1, x);
          y0 = Math.min(y0, ...ys); y1 = Math.max(y1, ...ys);
        });
      }
      if (!(x0 <= x1)) { [x0, x1, y0, y1] = [0, 1, 0, 1]; }
      if (options.zero) y0 = Math.min(0, y0);
      if (x0 === x1) { x0 -= 0.5; x1 += 0.5; }
      if (options.bars) { x0 = Math.round(x0) - 0.5; x1 = Math.round(x1) + 0.5; }
      const pad = 0.06 * (y1 - y0) || 0.5;
      if (!(options.zero && y0 === 0)) y0 -= pad;
      y1 += pad;
      const px = (x) => box.left + ((x - x0) / (x1 - x0)) * (box.right - box.left);
      const py = (y) => box.bottom - ((y - y0) / (y1 - y0)) * (box.bottom - box.top);
      g.font = FONT; g.lineWidth = 1; g.strokeStyle = css("--grid"); g.fillStyle = css("--muted");
      const ty = options.yText ? { list: wholes(y0, y1) } : ticks(y0, y1, 4), tx = options.whole ? { list: wholes(x0, x1), digits: 0 } : ticks(x0, x1, 6);
      g.textAlign = "right"; g.textBaseline = "middle";
      for (const y of ty.list) {
        g.beginPath(); g.moveTo(box.left, py(y)); g.lineTo(box.right, py(y)); g.stroke();
        g.fillText(options.yText ? options.yText(y) : y.toFixed(ty.digits), box.left - 8, py(y));
      }
      g.textAlign = "center"; g.textBaseline = "top";
      for (const x of tx.list) g.fillText(options.xText ? options.xText(x) : x.toFixed(tx.digits), px(x), box.bottom + 6);
      g.fillText(options.xLabel, (box.left + box.right) / 2, height - 15);
      g.save(); g.translate(11, (box.top + box.bottom) / 2); g.rotate(-Math.PI / 2);
      g.textBaseline = "middle"; g.fillText(options.yLabel, 0, 0); g.restore();
      g.save(); g.beginPath(); g.rect(box.left - 6, box.top - 6, box.right - box.left + 12, box.bottom - box.top + 12); g.clip();
      for (const s of series) {
        if (s.low) {
          g.strokeStyle = s.colour; g.globalAlpha = 0.45; g.lineWidth = 2;
          s.x.forEach((x, i) => {
            if (!Number.isFinite(s.low[i])) return;
            g.beginPath(); g.moveTo(px(x), py(s.low[i])); g.lineTo(px(x), py(s.high[i])); g.stroke();
          });
          g.globalAlpha = 1;
        }
        g.strokeStyle = s.colour; g.lineWidth = s.width || 1.7; g.lineJoin = "round"; g.globalAlpha = s.alpha || 1;
        g.setLineDash(s.dash || []);
        g.beginPath();
        let pen = false;
        s.x.forEach((x, i) => {
          if (!Number.isFinite(s.y[i])) { pen = false; return; }
          if (pen) g.lineTo(px(x), py(s.y[i])); else g.moveTo(px(x), py(s.y[i]));
          pen = true;
        });
        if (!s.bars) g.stroke();
        g.setLineDash([]);
        if (s.bars) {
          const half = 0.46 * s.barWidth * (px(1) - px(0));
          g.fillStyle = s.colour;
          s.x.forEach((x, i) => g.fillRect(px(x) - half, py(s.y[i]), 2 * half, py(Math.max(0, y0)) - py(s.y[i])));
        }
        if (s.marks) {
          s.x.forEach((x, i) => {
            if (!Number.isFinite(s.y[i])) return;
            g.beginPath(); g.arc(px(x), py(s.y[i]), 4, 0, 7);
            g.fillStyle = s.marks[i] ? s.colour : css("--paper"); g.fill(); g.lineWidth = 1.6; g.stroke();
          });
        }
        g.globalAlpha = 1;
      }
      g.restore();
      if (options.cursor && series.length) {
        const x = px(options.cursor());
        if (x >= box.left && x <= box.right) {
          g.strokeStyle = css("--muted"); g.lineWidth = 1; g.beginPath(); g.moveTo(x, box.top); g.lineTo(x, box.bottom); g.stroke();
        }
      }
      if (pointer && pointer.x > box.left && pointer.x < box.right) tell(g, series, pointer, px, width, box, options);
    });
    canvas.addEventListener("pointermove", (e) => { pointer = { x: e.offsetX, y: e.offsetY }; paint(); });
    canvas.addEventListener("pointerleave", () => { pointer = null; paint(); });
    return paint;
  }
  function wholes(low, high) {
    const step = Math.max(1, Math.ceil((high - low) / 10));
    const list = [];
    for (let v = Math.ceil(low); v <= high; v += step) list.push(v);
    return list;
  }
  // What is under the pointer.
  function tell(g, series, pointer, px, width, box, options) {
    const lines = [];
    let at = null;
    for (const s of series) {
      let best = -1;
      s.x.forEach((x, i) => {
        if (Number.isFinite(s.y[i]) && (best < 0 || Math.abs(px(x) - pointer.x) < Math.abs(px(s.x[best]) - pointer.x))) best = i;
      });
      if (best < 0 || Math.abs(px(s.x[best]) - pointer.x) > 30) continue;
      at = at === null ? s.x[best] : at;
      lines.push([s.colour, `${s.name}  ${options.value ? options.value(s.y[best]) : fixed(s.y[best], 2)}`]);
    }
    if (!lines.length) return;
    const shown = lines.slice(0, 12);
    const title = options.xText ? options.xText(at) : `${options.xLabel.split(" ")[0]} ${fixed(at, options.whole ? 0 : 2)}`;
    g.font = FONT;
    const w = Math.max(g.measureText(title).width, ...shown.map(([, t]) => g.measureText(t).width + 16)) + 20;
    const h = 26 + 17 * shown.length;
    const x = Math.min(pointer.x + 14, width - w - 4), y = box.top + 4;
    g.fillStyle = css("--paper"); g.strokeStyle = css("--line"); g.lineWidth = 1;
    g.beginPath(); g.roundRect(x, y, w, h, 7); g.fill(); g.stroke();
    g.textAlign = "left"; g.textBaseline = "middle"; g.fillStyle = css("--muted"); g.fillText(title, x + 10, y + 13);
    shown.forEach(([c, text], i) => {
      g.fillStyle = c; g.fillRect(x + 10, y + 26 + 17 * i, 9, 9);
      g.fillStyle = css("--ink"); g.fillText(text, x + 26, y + 31 + 17 * i);
    });
  }

  // Heading and table of results.
  const settings = data.settings;
  const count = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;
  const short = (name) => name.split("/").pop();
  const comparison = data.kind === "comparison";
  $("title").textContent = comparison
    ? `${short(settings.task)} in world ${short(settings.world)}, four controllers`
    : `${short(settings.task)} in world ${short(settings.world)}`;
  $("subtitle").textContent = comparison
    ? `${count(data.seeds, "seed")}; at most ${count(settings.iterations, "adaptation")} after ${count(settings.flights, "flight")} each; the drone's own firmware on the virtual Crazyflie`
    : `seed ${settings.seed}; at most ${count(settings.iterations, "adaptation")} after ${count(settings.flights, "flight")} each; the drone's own firmware on the virtual Crazyflie`;
  document.title = `Steady: ${$("title").textContent}`;
  const simulator = data.results.find((r) => r.key === "simulator");
  const winner = comparison
    ? data.results.find((r) => r.key === "steady")
    : data.results.find((r) => r.key === "steady") || simulator;
  const card = (value, text) => { const box = add($("cards"), "div", undefined, "card"); add(box, "b", value); add(box, "span", text); };
  if (simulator?.metrics.tracking_error_m && winner?.metrics.tracking_error_m) {
    const [before, after] = [simulator, winner].map((r) => r.metrics.tracking_error_m.mean);
    card(`${fixed(before, 1)} cm`, "tracking error with the simulator's gains");
    card(`${fixed(after, 1)} cm`, `with ${winner === simulator ? "the best table" : winner.name}`);
    const part = 100 * (1 - after / before);
    card(`${part >= 0 ? "−" : "+"}${fixed(Math.abs(part), 0)} %`, "change of the tracking error");
  }
  const all = data.results.reduce((n, r) => n + r.flights, 0), failed = data.results.reduce((n, r) => n + r.failed, 0);
  card(`${failed} of ${all}`, "judging flights failed");
  $("results-note").textContent = comparison
    ? `Means over ${count(data.seeds, "seed")} of ${count(data.flights, "judging flight")} each, with 95 % intervals over seeds. Failed flights count in the last column only.`
    : `Means over ${data.flights} judging flights of every table, with 95 % intervals over flights.`;
  {
    const headings = ["controller", ...data.metrics.map((m) => m.heading), "failed"].concat(comparison ? [] : ["decision"]);
    const body = head($("results"), headings, comparison ? [] : [headings.length - 1]);
    const best = data.metrics.map((m) => {
      const means = data.results.flatMap((r) => r.metrics[m.id]?.mean ?? []);
      return m.larger_is_better ? Math.max(...means) : Math.min(...means);
    });
    for (const r of data.results) {
      const row = add(body, "tr");
      named(add(row, "td"), r.name, r.key);
      data.metrics.forEach((m, i) => {
        const cell = add(row, "td"), e = r.metrics[m.id];
        if (!e) { cell.textContent = "–"; return; }
        add(cell, "span", fixed(e.mean, m.digits), e.mean === best[i] ? "best" : "");
        if ("half_width" in e) add(cell, "span", ` ± ${fixed(e.half_width, m.digits)}`, "half");
      });
      add(row, "td", `${r.failed} of ${r.flights}`);
      if (!comparison) add(row, "td", r.note, "text");
    }
  }

  // The flights in space, turned by mouse and played in time.
  const traces = data.traces;
  const hidden = new Set();
  const shown = () => traces.filter((t) => !hidden.has(t));
  const start = Math.min(0, ...traces.map((t) => t.time_s[0] ?? 0));
  const end = Math.max(0.1, ...traces.map((t) => t.time_s[t.time_s.length - 1] ?? 0));
  let now = 0.45 * end, playing = false, last = 0;
  const VIEWS = { corner: [-0.75, 0.42], top: [-Math.PI / 2, Math.PI / 2 - 0.001], side: [-Math.PI / 2, 0.02] };
  const camera = { yaw: VIEWS.corner[0], tilt: VIEWS.corner[1], zoom: 1 };
  $("flights-note").textContent = traces.length
    ? "All with the same random numbers. Drag to turn, wheel to zoom; a name hides its flight. The chart's line is the moment shown."
    : "No flight was kept.";

  const reference = traces.reduce((best, t) => {
    const points = t.time_s.map((time, i) => [time, ...t.reference_m.map((c) => c[i])]).filter((p) => p[1] !== null);
    return points.length > best.length ? points : best;
  }, []);
  const bounds = [0, 1, 2].map((axis) => {
    const values = traces.flatMap((t) => t.position_m[axis]).concat(reference.map((p) => p[axis + 1]));
    return values.length ? [Math.min(...sample(values, Math.min)), Math.max(...sample(values, Math.max))] : [0, 1];
  });
  function sample(values, pick) {
    // Spreading a long list would overflow the stack.
    return [values.reduce((a, b) => pick(a, b), values[0])];
  }
  bounds[2][0] = Math.min(0, bounds[2][0]);
  const centre = bounds.map(([a, b]) => (a + b) / 2);
  const reach = Math.max(0.4, Math.hypot(...bounds.map(([a, b]) => b - a)) / 2);

  // How far the flights reach across and up, seen from the corner: they fill the picture.
  const spans = (() => {
    const [yaw, tilt] = VIEWS.corner;
    const half = bounds.map(([a, b]) => (b - a) / 2);
    const across = Math.abs(Math.sin(yaw)) * half[0] + Math.abs(Math.cos(yaw)) * half[1];
    const into = Math.abs(Math.cos(yaw)) * half[0] + Math.abs(Math.sin(yaw)) * half[1];
    return [Math.max(0.3, across), Math.max(0.3, half[2] * Math.cos(tilt) + into * Math.sin(tilt))];
  })();

  const paintSpace = board($("space"), (g, width, height) => {
    const scale = camera.zoom * Math.min((0.36 * width) / spans[0], (0.37 * height) / spans[1]);
    const [cy, sy, ct, st] = [Math.cos(camera.yaw), Math.sin(camera.yaw), Math.cos(camera.tilt), Math.sin(camera.tilt)];
    const far = 5.5 * reach;
    const project = (x, y, z) => {
      const [dx, dy, dz] = [x - centre[0], y - centre[1], z - centre[2]];
      const right = -sy * dx + cy * dy, into = cy * dx + sy * dy;
      const depth = far - (into * ct + dz * st), k = (far / Math.max(0.1 * far, depth)) * scale;
      return [width / 2 + right * k, height / 2 + 14 - (dz * ct - into * st) * k];
    };
    const path = (points) => { g.beginPath(); points.forEach((p, i) => (i ? g.lineTo(...p) : g.moveTo(...p))); g.stroke(); };
    // The floor.
    g.strokeStyle = css("--floor"); g.lineWidth = 1; g.font = FONT; g.fillStyle = css("--muted");
    const size = reach > 3 ? 1 : 0.5;
    const [fx, fy] = [0, 1].map((i) => [Math.min(-1, Math.floor(bounds[i][0] / size - 0.4) * size), Math.max(1, Math.ceil(bounds[i][1] / size + 0.4) * size)]);
    for (let x = fx[0]; x <= fx[1] + 1e-9; x += size) path([project(x, fy[0], 0), project(x, fy[1], 0)]);
    for (let y = fy[0]; y <= fy[1] + 1e-9; y += size) path([project(fx[0], y, 0), project(fx[1], y, 0)]);
    g.textAlign = "center"; g.textBaseline = "middle";
    g.fillText("x", ...project(fx[1] + 0.3 * size, 0, 0)); g.fillText("y", ...project(0, fy[1] + 0.3 * size, 0));
    // Where it should be.
    if (reference.length) {
      g.strokeStyle = css("--reference"); g.setLineDash([5, 5]); g.lineWidth = 1.4; g.globalAlpha = 0.65;
      path(reference.map((p) => project(p[1], p[2], p[3])));
      g.setLineDash([]); g.globalAlpha = 1;
    }
    for (const t of shown()) {
      const points = t.time_s.map((_, i) => project(...t.position_m.map((c) => c[i])));
      const at = index(t, now);
      g.strokeStyle = colour(t.key); g.lineJoin = "round";
      g.globalAlpha = 0.28; g.lineWidth = 1.6; path(points);
      g.globalAlpha = 1; g.lineWidth = 2.4; path(points.slice(Math.max(0, at - 75), at + 1));
    }
    for (const t of shown()) drone(g, t, project);
    const target = reference.length && place(reference.map((p) => p[0]), now, (i) => reference[i]);
    if (target && now <= reference[reference.length - 1][0] + 0.1) {
      const [x, y] = project(target[1], target[2], target[3]);
      g.strokeStyle = css("--reference"); g.lineWidth = 1.5; g.beginPath(); g.arc(x, y, 6, 0, 7); g.stroke();
    }
    clock();
    root.dataset.yaw = fixed(camera.yaw, 3);
  });
  function index(t, time) {
    let [low, high] = [0, t.time_s.length - 1];
    while (low < high) { const mid = (low + high + 1) >> 1; if (t.time_s[mid] <= time) low = mid; else high = mid - 1; }
    return low;
  }
  function place(times, time, get) {
    let best = 0;
    times.forEach((v, i) => { if (v <= time) best = i; });
    return get(best);
  }
  // Four arms, turned as the drone is.
  function drone(g, t, project) {
    const i = index(t, now);
    const p = t.position_m.map((c) => c[i]);
    const [roll, pitch, yaw] = t.attitude_deg.map((c) => (c[i] * Math.PI) / 180);
    const [cr, sr, cp, sp, cz, sz] = [Math.cos(roll), Math.sin(roll), Math.cos(pitch), Math.sin(pitch), Math.cos(yaw), Math.sin(yaw)];
    const arm = 0.055 * Math.max(1, reach);
    const turn = (x, y) => [cz * cp * x + (cz * sp * sr - sz * cr) * y, sz * cp * x + (sz * sp * sr + cz * cr) * y, -sp * x + cp * sr * y];
    const tips = [[1, -1], [-1, -1], [-1, 1], [1, 1]].map(([x, y]) => { const d = turn(arm * x, arm * y); return project(p[0] + d[0], p[1] + d[1], p[2] + d[2]); });
    g.strokeStyle = colour(t.key); g.lineWidth = 2.4;
    for (const [a, b] of [[0, 2], [1, 3]]) { g.beginPath(); g.moveTo(...tips[a]); g.lineTo(...tips[b]); g.stroke(); }
    g.fillStyle = css("--soft");
    for (const tip of tips) { g.beginPath(); g.arc(...tip, 4.2, 0, 7); g.fill(); g.lineWidth = 1.8; g.stroke(); }
  }
  function clock() {
    const box = $("clock");
    box.textContent = "";
    add(box, "b", `${fixed(Math.max(0, now), 1)} s`);
    for (const t of shown()) {
      const i = index(t, now), r = t.reference_m.map((c) => c[i]);
      const off = r[0] === null ? NaN : Math.hypot(...[0, 1, 2].map((a) => t.position_m[a][i] - r[a]));
      const line = add(box, "div", Number.isFinite(off) ? `${fixed(100 * off, 1)} cm off` : " ");
      line.style.color = colour(t.key);
    }
  }
  for (const t of traces) {
    const button = add($("legend"), "button");
    button.type = "button"; button.setAttribute("aria-pressed", "true");
    add(button, "i").style.background = colour(t.key);
    add(button, "span", t.name);
    button.addEventListener("click", () => {
      if (hidden.has(t)) hidden.delete(t); else hidden.add(t);
      button.setAttribute("aria-pressed", String(!hidden.has(t)));
      refresh();
    });
  }
  if (reference.length) {
    const line = add($("legend"), "button"); line.type = "button"; line.disabled = true;
    add(line, "i").style.cssText = "background: repeating-linear-gradient(90deg, var(--reference) 0 4px, transparent 4px 7px)";
    add(line, "span", "reference");
  }
  {
    const canvas = $("space");
    let held = null;
    canvas.addEventListener("pointerdown", (e) => { held = [e.clientX, e.clientY]; canvas.setPointerCapture(e.pointerId); });
    canvas.addEventListener("pointermove", (e) => {
      if (!held) return;
      camera.yaw -= (e.clientX - held[0]) * 0.008;
      camera.tilt = Math.max(-0.2, Math.min(Math.PI / 2 - 0.001, camera.tilt + (e.clientY - held[1]) * 0.008));
      held = [e.clientX, e.clientY];
      paintSpace();
    });
    canvas.addEventListener("pointerup", () => { held = null; });
    canvas.addEventListener("wheel", (e) => { e.preventDefault(); camera.zoom = Math.max(0.4, Math.min(8, camera.zoom * Math.exp(-e.deltaY * 0.001))); paintSpace(); }, { passive: false });
    for (const button of document.querySelectorAll("[data-view]")) {
      button.addEventListener("click", () => { [camera.yaw, camera.tilt] = VIEWS[button.dataset.view]; camera.zoom = 1; paintSpace(); });
    }
  }

  // Charts over time share the moment that is shown.
  const cursor = () => now;
  const overTime = (id, yLabel, value, withReference, zero) =>
    chart(id, {
      xLabel: "time (s)", yLabel, cursor, zero,
      series: () => shown().map((t) => ({ name: t.name, colour: colour(t.key), x: t.time_s, y: t.time_s.map((_, i) => value(t, i)) }))
        .concat(withReference && reference.length ? [{ name: "reference", colour: css("--reference"), x: reference.map((p) => p[0]), y: reference.map((p) => p[3]), dash: [5, 5], width: 1.2 }] : []),
    });
  const timed = [
    overTime("error", "cm", (t, i) => (t.reference_m[0][i] === null ? NaN : 100 * Math.hypot(...[0, 1, 2].map((a) => t.position_m[a][i] - t.reference_m[a][i]))), false, true),
    overTime("height", "m", (t, i) => t.position_m[2][i], true),
    overTime("roll", "deg", (t, i) => t.attitude_deg[0][i]),
    overTime("pitch", "deg", (t, i) => t.attitude_deg[1][i]),
  ];

  // Motors.
  let flight = traces.find((t) => t.key === "steady") || traces[traces.length - 1];
  traces.forEach((t, i) => { const option = add($("motor-flight"), "option", t.name); option.value = String(i); option.selected = t === flight; });
  $("motor-flight").addEventListener("change", (e) => { flight = traces[Number(e.target.value)]; refresh(); });
  timed.push(chart("motors", {
    xLabel: "time (s)", yLabel: "% of full power", cursor,
    series: () => (flight ? MOTORS.map((c, m) => ({ name: `M${m + 1}`, colour: c, x: flight.time_s, y: flight.motors_percent[m].map((v, i) => (v > 0 && flight.reference_m[0][i] !== null ? v : NaN)) })) : []),
  }));
  chart("motor-means", {
    xLabel: "motor", yLabel: "% of full power", whole: true, zero: true, bars: true, xText: (x) => (Number.isInteger(x) && x >= 1 && x <= 4 ? `M${x}` : ""),
    series: () => shown().map((t, n, list) => {
      const step = 0.8 / list.length;
      return { name: t.name, colour: colour(t.key), x: [1, 2, 3, 4].map((m) => m + (n - (list.length - 1) / 2) * step), y: t.health.motors_percent, bars: true };
    }).map((s, _, list) => ({ ...s, barWidth: 0.8 / list.length })),
  });
  if (flight) {
    const means = flight.health.motors_percent;
    const rest = (i) => means.filter((_, k) => k !== i).reduce((a, b) => a + b, 0) / 3;
    const odd = means.map((v, i) => v / rest(i) - 1);
    const most = odd.reduce((best, v, i) => (Math.abs(v) > Math.abs(odd[best]) ? i : best), 0);
    $("motors-note").textContent = Math.abs(odd[most]) > 0.04
      ? `M${most + 1} is commanded ${fixed(100 * Math.abs(odd[most]), 0)} % ${odd[most] > 0 ? "more" : "less"} than the others on average: it is not what the simulator took it for.`
      : "All motors are commanded alike.";
  }

  // Learning.
  const curve = (id, field, yLabel, digits) =>
    chart(id, {
      xLabel: "iteration", yLabel, whole: true, value: (v) => fixed(v, digits),
      series: () => data.curves.map((c, n) => {
        const spread = data.curves.length > 1 ? (n / (data.curves.length - 1) - 0.5) * 0.16 : 0;
        const points = c.points;
        const part = (sign) => points.map((p) => { const e = p.metrics[field]; return e ? e.mean + sign * (e.half_width ?? 0) : NaN; });
        return { name: c.name, colour: colour(c.key), alpha: 0.85, x: points.map((p) => p.iteration + spread), y: part(0), low: part(-1), high: part(1), marks: points.map((p) => p.is_kept) };
      }),
    });
  curve("curve-error", "tracking_error_m", "cm", 2);
  curve("curve-reward", "cumulative_reward", "reward", 0);
  {
    const body = head($("verdicts"), ["loop", "iteration", "tracking error (cm)", "decision"], [3]);
    for (const c of data.curves) {
      c.points.forEach((p, i) => {
        const row = add(body, "tr");
        named(add(row, "td"), c.name, c.key);
        add(row, "td", String(p.iteration));
        const e = p.metrics.tracking_error_m;
        add(row, "td", e ? fixed(e.mean, 2) + ("half_width" in e ? ` ± ${fixed(e.half_width, 2)}` : "") : "–");
        const ended = i + 1 === c.points.length ? `; ended: ${c.end}` : "";
        add(row, "td", `${p.is_kept ? "kept" : "rolled back"}: ${p.reason}${ended}`, "text");
      });
    }
  }

  // Gains.
  {
    const tables = data.tables, nominal = tables[0];
    const head1 = add(add($("gains"), "thead"), "tr");
    add(head1, "th", "gain"); add(head1, "th", "unit", "text");
    for (const t of tables) { const cell = add(head1, "th", t.name); cell.title = t.provenance; }
    const body = add($("gains"), "tbody");
    const most = Math.max(0.1, ...tables.flatMap((t) => t.values.map((v, i) => Math.abs(Math.log(v / nominal.values[i])) || 0)));
    data.gains.forEach(([name, unit], i) => {
      const row = add(body, "tr");
      add(row, "td", name); add(row, "td", unit, "text");
      for (const t of tables) {
        const cell = add(row, "td", Number(t.values[i].toPrecision(4)).toString());
        if (t === nominal) continue;
        const change = Math.log(t.values[i] / nominal.values[i]) / most;
        const bar = add(add(cell, "span", undefined, "bar"), "i");
        bar.style.background = colour(t.key);
        bar.style.width = `${50 * Math.abs(change)}%`;
        bar.style.left = `${change < 0 ? 50 + 50 * change : 50}%`;
      }
    });
    for (const t of tables) {
      const line = add($("from"), "li");
      named(line, t.name, t.key);
      add(line, "span", t.provenance);
    }
  }

  // Skills.
  if (data.skills) {
    const s = data.skills;
    $("skills-note").textContent = `${s.features} features learned in simulation, effective rank ${fixed(s.effective_rank, 0)}. New skills are learned orthogonal to them.`;
    chart("spectrum", {
      xLabel: "feature", yLabel: "part of E[φφᵀ]", yText: (y) => `1e${Math.round(y)}`, value: (v) => (10 ** v).toExponential(1), whole: true,
      series: () => [{ name: "eigenvalue", colour: css("--transfer"), x: s.spectrum.map((_, i) => i + 1), y: s.spectrum.map((v) => Math.log10(Math.max(v, 1e-12))) }],
    });
    const names = s.fits.map((f) => `${f.policy}, ${f.task}`);
    board($("fits"), (g, width, height) => {
      const step = (height - 8) / Math.max(1, names.length), left = Math.min(200, width * 0.45);
      g.font = FONT; g.textBaseline = "middle";
      s.fits.forEach(({ r2 }, i) => {
        const y = 4 + (i + 0.5) * step, full = width - left - 52;
        g.textAlign = "right"; g.fillStyle = css("--muted"); g.fillText(names[i], left - 10, y);
        g.fillStyle = css("--soft"); g.fillRect(left, y - 6, full, 12);
        g.fillStyle = css("--steady"); g.fillRect(left, y - 6, full * Math.max(0, Math.min(1, r2)), 12);
        g.textAlign = "left"; g.fillStyle = css("--ink"); g.fillText(fixed(r2, 3), left + full + 8, y);
      });
    });
  } else {
    $("skills-note").textContent = "The run of the simulator stage is not there any more, so nothing is known about its skills.";
    for (const id of ["spectrum", "fits"]) $(id).parentElement.remove();
  }
  if (data.adaptations.length) {
    const names = ["adaptation", "flights", "steps replayed", "correlation, penalty → projected", "step", "moved most"];
    const body = head($("adaptations"), names, [5]);
    const small = (v) => (v === null ? "–" : v.toExponential(1));
    for (const a of data.adaptations) {
      const row = add(body, "tr");
      add(row, "td", a.name);
      add(row, "td", String(a.flights));
      add(row, "td", String(a.replayed));
      add(row, "td", a.discovery ? `${small(a.discovery.correlation_by_penalty)} → ${small(a.discovery.correlation)}` : "–");
      add(row, "td", a.step === null ? "–" : `${fixed(100 * a.step, 0)} %`);
      const moved = ({ name, from, to }) => `${name} ${to >= from ? "+" : "−"}${fixed(100 * Math.abs(to / from - 1), 0)} %`;
      add(row, "td", a.gains.slice(0, 2).map(moved).join(", "), "text");
    }
  } else $("adaptations-box").remove();

  // Drone.
  {
    const body = head($("health"), ["flight", "processor load", "log records", "lost", "battery, start and lowest (V)", "watchdog margin (ms)", "radio packets not acknowledged", "resets"]);
    for (const t of traces) {
      const h = t.health, row = add(body, "tr");
      named(add(row, "td"), t.name, t.key);
      for (const text of [h.cpu_load === null ? "–" : `${fixed(100 * h.cpu_load, 1)} %`, String(h.log_records), String(h.log_lost), h.battery_v ? `${fixed(h.battery_v[0], 2)} → ${fixed(h.battery_v[1], 2)}` : "–", h.watchdog_margin_ms === null ? "–" : fixed(h.watchdog_margin_ms, 0), `${h.radio_packets[1]} of ${h.radio_packets[0]}`, String(h.resets)]) add(row, "td", text);
    }
  }
  $("program").textContent = `Steady ${data.program}. The same seeds give the same numbers.`;
  $("commands").textContent = data.commands.join("\n");

  // Time.
  function refresh() { for (const paint of redraw) paint(); }
  function show() {
    $("time").value = String(Math.round((1000 * (now - start)) / (end - start)));
    root.dataset.time = fixed(now, 2);
    paintSpace();
    for (const paint of timed) paint();
  }
  function frame(stamp) {
    if (!playing) return;
    const passed = last ? Math.min(0.1, (stamp - last) / 1000) : 0;
    last = stamp;
    now += passed * Number($("speed").value);
    if (now >= end) { now = end; play(false); }
    root.dataset.frames = String(Number(root.dataset.frames || 0) + 1);
    show();
    if (playing) requestAnimationFrame(frame);
  }
  function play(on) {
    playing = on;
    $("play").textContent = on ? "❚❚" : "▶";
    $("play").setAttribute("aria-label", on ? "Pause" : "Play");
    root.dataset.playing = String(on);
    if (!on) return;
    if (now >= end) now = Math.max(start, 0);
    last = 0;
    requestAnimationFrame(frame);
  }
  $("play").addEventListener("click", () => play(!playing));
  $("time").addEventListener("input", (e) => { play(false); now = start + ((end - start) * Number(e.target.value)) / 1000; show(); });
  document.addEventListener("keydown", (e) => { if (e.key === " " && e.target === document.body) { e.preventDefault(); play(!playing); } });
  window.addEventListener("resize", refresh);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", refresh);
  // `#t=6.5` shows a moment, `#play` plays.
  const moment = /^#t=([0-9.]+)$/.exec(location.hash);
  if (moment) now = Math.min(end, Number(moment[1]));
  refresh();
  show();
  if (location.hash === "#play") play(true);
  root.dataset.ready = "true";
})();
