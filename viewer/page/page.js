"use strict";
// Shows one recording: scene, plots and time. DATA has the text of a gzip file in base64: the length of a JSON text as
// 4 bytes, the JSON text, and the numbers that it describes. Nothing is loaded from a server.

const $ = id => document.getElementById(id);

async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text.trim()), c => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const buffer = await new Response(stream).arrayBuffer();
  const length = new DataView(buffer).getUint32(0, true);
  const data = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const start = 4 + length + (4 - length % 4) % 4;
  const kinds = { f: Float32Array, i: Int32Array };
  data.arrays = {};
  for (const [name, [kind, offset, count]] of Object.entries(data.layout))
    data.arrays[name] = new kinds[kind](buffer, start + offset, count);
  return data;
}

// vectors, quaternions (w x y z), matrices (columns)
const add = (a, b, s = 1) => [a[0] + s * b[0], a[1] + s * b[1], a[2] + s * b[2]];
const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
const unit = a => { const n = Math.hypot(...a) || 1; return [a[0] / n, a[1] / n, a[2] / n]; };
function turned(q, v) {
  const u = [q[1], q[2], q[3]], t = cross(u, v).map(x => 2 * x);
  return add(add(v, t, q[0]), cross(u, t));
}
const around = (axis, angle, v) => turned([Math.cos(angle / 2), ...axis.map(x => x * Math.sin(angle / 2))], v);
const rgb = text => [1, 3, 5].map(k => parseInt(text.slice(k, k + 2), 16) / 255);

const SOLID = [`#version 300 es
in vec3 point; in vec3 normal; uniform mat4 view; uniform vec3 place; uniform vec4 turn; uniform float size; out vec3 n;
vec3 turned(vec3 v) { vec3 t = 2.0 * cross(turn.yzw, v); return v + turn.x * t + cross(turn.yzw, t); }
void main() { n = turned(normal); gl_Position = view * vec4(place + turned(size * point), 1.0); }`, `#version 300 es
precision highp float; in vec3 n; uniform vec4 color; uniform vec3 light; out vec4 pixel;
void main() { float d = dot(normalize(gl_FrontFacing ? n : -n), light);
  pixel = vec4(color.rgb * (0.62 + 0.42 * max(d, 0.0) - 0.12 * max(-d, 0.0)), color.a); }`];
const LINE = [`#version 300 es
in vec3 a; in vec3 b; in vec4 tint; in vec2 width; uniform mat4 view; uniform vec2 screen; out vec4 color;
void main() { vec4 p = view * vec4(a, 1.0), q = view * vec4(b, 1.0); bool end = gl_VertexID > 1;
  vec2 along = q.xy / q.w * screen - p.xy / p.w * screen; float length_ = length(along);
  vec2 aside = length_ > 1e-6 ? vec2(-along.y, along.x) / length_ : vec2(0.0);
  vec4 at = end ? q : p; float side = (gl_VertexID % 2 == 0) ? 1.0 : -1.0;
  at.xy += side * aside * (end ? width.y : width.x) / screen * at.w; gl_Position = at; color = tint; }`, `#version 300 es
precision highp float; in vec4 color; out vec4 pixel; void main() { pixel = color; }`];

function program(gl, sources) {
  const made = gl.createProgram();
  sources.forEach((source, k) => {
    const shader = gl.createShader(k ? gl.FRAGMENT_SHADER : gl.VERTEX_SHADER);
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS)) throw new Error(gl.getShaderInfoLog(shader));
    gl.attachShader(made, shader);
  });
  gl.linkProgram(made);
  const place = name => gl.getUniformLocation(made, name);
  return { made, place, at: name => gl.getAttribLocation(made, name) };
}

class Scene {
  constructor(canvas, labels, data) {
    this.canvas = canvas; this.labels = labels; this.data = data;
    const gl = this.gl = canvas.getContext("webgl2", { antialias: true });
    if (!gl) throw new Error("this browser has no WebGL 2, which draws the robot");
    this.solid = program(gl, SOLID); this.line = program(gl, LINE);
    this.solids = data.solids.map(each => this.mesh(each));
    this.ball = this.mesh(data.ball);
    this.lineArray = gl.createVertexArray(); this.lineBuffer = gl.createBuffer();
    gl.bindVertexArray(this.lineArray);
    gl.bindBuffer(gl.ARRAY_BUFFER, this.lineBuffer);
    [["a", 3, 0], ["b", 3, 12], ["tint", 4, 24], ["width", 2, 40]].forEach(([name, size, offset]) => {
      const at = this.line.at(name);
      gl.enableVertexAttribArray(at);
      gl.vertexAttribPointer(at, size, gl.FLOAT, false, 48, offset);
      gl.vertexAttribDivisor(at, 1);
    });
    this.reset();
  }

  mesh({ body, color, vertices, faces }) {  // with the mean normal of the triangles of each vertex
    const gl = this.gl, p = this.data.arrays[vertices], f = this.data.arrays[faces], n = new Float32Array(p.length);
    for (let k = 0; k < f.length; k += 3) {
      const [a, b, c] = [0, 1, 2].map(j => p.subarray(3 * f[k + j], 3 * f[k + j] + 3));
      const normal = cross(add(b, a, -1), add(c, a, -1));
      for (let j = 0; j < 3; j++) for (let i = 0; i < 3; i++) n[3 * f[k + j] + i] += normal[i];
    }
    const array = gl.createVertexArray();
    gl.bindVertexArray(array);
    [["point", p], ["normal", n]].forEach(([name, values]) => {
      gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
      gl.bufferData(gl.ARRAY_BUFFER, values, gl.STATIC_DRAW);
      gl.enableVertexAttribArray(this.solid.at(name));
      gl.vertexAttribPointer(this.solid.at(name), 3, gl.FLOAT, false, 0, 0);
    });
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, gl.createBuffer());
    gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, new Uint32Array(f), gl.STATIC_DRAW);
    return { body, color: rgb(color), array, count: f.length };
  }

  reset() {
    const { position, target, up } = this.data.camera;
    this.eye = add(position, target, -1); this.target = [...target]; this.up = up; this.middle = null;
  }

  rotate(dx, dy) {
    this.eye = around(this.up, -dx, this.eye);
    const right = unit(cross(this.up, this.eye)), tilted = around(right, -dy, this.eye);
    if (Math.abs(dot(unit(tilted), this.up)) < 0.998) this.eye = tilted;
  }

  pan(dx, dy) {
    const z = unit(this.eye), right = unit(cross(this.up, z)), up = cross(z, right);
    const scale = 2 * Math.hypot(...this.eye) * Math.tan(this.data.camera.half_fov) / this.canvas.clientHeight;
    this.target = add(add(this.target, right, -dx * scale), up, dy * scale);
  }

  matrix() {
    const z = unit(this.eye), x = unit(cross(this.up, z)), y = cross(z, x), eye = add(this.target, this.eye);
    const far = 40 * Math.hypot(...this.eye), near = far / 4000, f = 1 / Math.tan(this.data.camera.half_fov);
    const fx = f * this.canvas.height / this.canvas.width, a = (far + near) / (near - far), b = 2 * far * near / (near - far);
    const [tx, ty, tz] = [x, y, z].map(axis => -dot(axis, eye));
    return new Float32Array([fx * x[0], f * y[0], a * z[0], -z[0], fx * x[1], f * y[1], a * z[1], -z[1],
      fx * x[2], f * y[2], a * z[2], -z[2], fx * tx, f * ty, a * tz + b, -tz]);
  }

  body(frame, index, poses = this.data.arrays.poses) {
    const count = this.data.bodies, start = 7 * count * frame, at = start + 3 * index, turn = start + 3 * count + 4 * index;
    return [[...poses.subarray(at, at + 3)], [...poses.subarray(turn, turn + 4)]];
  }

  point(frame, index, local) {
    if (index < 0) return local;
    const [place, turn] = this.body(frame, index);
    return add(place, turned(turn, local));
  }

  follow(frame) {
    let sum = [0, 0, 0];
    const count = this.data.bodies;
    for (let k = 0; k < count; k++) sum = add(sum, this.body(frame, k)[0], 1 / count);
    this.middle = this.middle || sum;
    const away = add(sum, this.middle, -1), distance = Math.hypot(...away), most = 0.15 * this.data.size;
    if (distance > most) {
      const step = away.map(x => x * (1 - most / distance));
      this.middle = add(this.middle, step); this.target = add(this.target, step);
    }
  }

  lines(frame) {  // Float32Array of all lines: 12 numbers each
    const found = [], { arrays, palette } = this.data;
    const put = (a, b, color, from, to = from, alpha = 1) => found.push(...a, ...b, ...color, alpha, from, to);
    for (const [a, b] of this.data.floor) put(a, b, rgb(palette.faint), 1);
    const t = arrays.times, since = t[frame] - this.data.trail_s;
    let first = frame;
    while (first > 0 && t[first - 1] >= since) first--;
    const stride = Math.max(1, Math.ceil((frame - first) / 120));
    for (const { body, point, color } of this.data.tips) {
      let before = this.point(frame, body, point);
      for (let k = frame - stride; k >= first; k -= stride) {
        const at = this.point(k, body, point);
        put(before, at, rgb(color), 1.6, 1.6, 0.15 + 0.75 * (k - first) / Math.max(1, frame - first));
        before = at;
      }
    }
    for (const { kind, color, width } of this.data.polylines) {
      const message = arrays[`${kind}_of`][frame];
      let start = message < 0 ? 0 : this.data[`${kind}_starts`][message];
      for (const count of message < 0 ? [] : this.data[`${kind}_counts`][message]) {
        const p = arrays[kind];
        for (let k = start; k < start + count - 1; k++)
          put(p.subarray(3 * k, 3 * k + 3), p.subarray(3 * k + 3, 3 * k + 6), rgb(color), width);
        start += count;
      }
    }
    for (const [a, p, b, q] of this.data.springs) {
      const start = this.point(frame, a, p), along = add(this.point(frame, b, q), start, -1), length = Math.hypot(...along);
      const small = [0, 1, 2].map(k => +(k === along.map(Math.abs).indexOf(Math.min(...along.map(Math.abs)))));
      const u = unit(cross(unit(along), small)), v = cross(unit(along), u), w = Math.min(this.data.coil, 0.2 * length);
      let before = start;
      for (let k = 0; k <= 84; k++) {
        const s = 0.15 + 0.7 * k / 84, angle = 2 * Math.PI * 7 * k / 84;
        const at = add(add(add(start, along, s), u, w * Math.cos(angle)), v, w * Math.sin(angle));
        put(before, at, rgb(palette.spring), 1.6); before = at;
      }
      put(before, add(start, along), rgb(palette.spring), 1.6);
    }
    for (const { start, tip, color } of this.arrows(frame)) {
      const neck = add(tip, unit(add(tip, start, -1)), -Math.min(0.035 * this.data.size, 0.6 * Math.hypot(...add(tip, start, -1))));
      put(start, neck, rgb(color), 3); put(neck, tip, rgb(color), 9, 0);
    }
    return new Float32Array(found);
  }

  arrows(frame) {
    const { arrows: count, arrays, texts, colors } = this.data, found = [];
    for (let k = 0; k < count; k++) {
      const at = frame * count + k, ends = arrays.arrow_ends.subarray(6 * at, 6 * at + 6);
      if (arrays.arrow_text[at] >= 0) found.push({ start: [...ends.subarray(0, 3)], tip: [...ends.subarray(3)],
        text: texts[arrays.arrow_text[at]], color: colors[arrays.arrow_color[at]] });
    }
    return found;
  }

  draw(frame) {
    const { gl, canvas, data } = this, ratio = window.devicePixelRatio || 1;
    canvas.width = Math.max(1, canvas.clientWidth * ratio); canvas.height = Math.max(1, canvas.clientHeight * ratio);
    gl.viewport(0, 0, canvas.width, canvas.height);
    gl.clearColor(...rgb(data.palette.paper), 1);
    gl.enable(gl.DEPTH_TEST); gl.enable(gl.BLEND); gl.blendFunc(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    const view = this.matrix(), z = unit(this.eye), x = unit(cross(this.up, z));
    const light = unit(add(add(add([0, 0, 0], x, -0.36), cross(z, x), 0.77), z, 0.52));
    gl.useProgram(this.line.made);
    gl.uniformMatrix4fv(this.line.place("view"), false, view);
    gl.uniform2f(this.line.place("screen"), canvas.width / ratio, canvas.height / ratio);
    const lines = this.lines(frame);
    gl.bindVertexArray(this.lineArray);
    gl.bindBuffer(gl.ARRAY_BUFFER, this.lineBuffer);
    gl.bufferData(gl.ARRAY_BUFFER, lines, gl.DYNAMIC_DRAW);
    gl.drawArraysInstanced(gl.TRIANGLE_STRIP, 0, 4, lines.length / 12);
    gl.useProgram(this.solid.made);
    gl.uniformMatrix4fv(this.solid.place("view"), false, view);
    gl.uniform3f(this.solid.place("light"), ...light);
    const put = (mesh, place, turn, color, alpha, size = 1) => {
      gl.uniform3f(this.solid.place("place"), ...place); gl.uniform4f(this.solid.place("turn"), ...turn);
      gl.uniform4f(this.solid.place("color"), ...color, alpha); gl.uniform1f(this.solid.place("size"), size);
      gl.bindVertexArray(mesh.array);
      gl.drawElements(gl.TRIANGLES, mesh.count, gl.UNSIGNED_INT, 0);
    };
    for (const mesh of this.solids) {
      const [place, turn] = mesh.body < 0 ? [[0, 0, 0], [1, 0, 0, 0]] : this.body(frame, mesh.body);
      put(mesh, place, turn, mesh.color, 1);
    }
    for (let k = 0; k < data.balls; k++) {
      const at = frame * data.balls + k, ball = data.arrays.ball_at.subarray(4 * at, 4 * at + 4);
      if (data.arrays.ball_color[at] >= 0)
        put(this.ball, ball.subarray(0, 3), [1, 0, 0, 0], rgb(data.colors[data.arrays.ball_color[at]]), 0.5, ball[3]);
    }
    for (const mesh of data.arrays.measured ? this.solids : []) {
      if (mesh.body < 0) continue;
      const [place, turn] = this.body(frame, mesh.body, data.arrays.measured);
      if (place.every(Number.isFinite)) put(mesh, place, turn, rgb(data.palette.measured), 0.3);
    }
    this.label(frame, view);
  }

  label(frame, view) {
    this.labels.replaceChildren(...this.arrows(frame).map(({ tip, text, color }) => {
      const at = [0, 1, 3].map(k => view[k] * tip[0] + view[4 + k] * tip[1] + view[8 + k] * tip[2] + view[12 + k]);
      const label = document.createElement("span");
      label.textContent = text; label.style.color = color;
      label.style.left = `${50 + 50 * at[0] / at[2]}%`; label.style.top = `${50 - 50 * at[1] / at[2]}%`;
      return label;
    }));
  }
}

class Plot {
  constructor(parent, spec, data, page) {
    this.spec = spec; this.data = data; this.page = page;
    const figure = document.createElement("figure");
    figure.innerHTML = "<figcaption></figcaption><canvas></canvas><div class=legend></div>";
    [this.title, this.canvas, this.legend] = figure.children;
    this.title.textContent = spec.title;
    this.x = data.arrays[spec.x];
    this.curves = spec.curves.map(each => {
      const entry = document.createElement("span"), mark = document.createElement("b"), value = document.createElement("i");
      mark.textContent = each.mark + " "; mark.style.color = each.color;
      entry.append(mark, each.name + " ", value);
      this.legend.append(entry);
      return { ...each, y: data.arrays[each.y], value };
    });
    this.canvas.addEventListener("pointerdown", event => { this.canvas.setPointerCapture(event.pointerId); this.seek(event); });
    this.canvas.addEventListener("pointermove", event => { if (event.buttons) this.seek(event); });
    this.canvas.addEventListener("wheel", event => {
      event.preventDefault();
      const [start, end] = page.span, at = this.time(event), scale = Math.exp(0.002 * event.deltaY);
      page.zoom(at - (at - start) * scale, at + (end - at) * scale);
    }, { passive: false });
    this.canvas.addEventListener("dblclick", () => page.zoom(-Infinity, Infinity));
    parent.append(figure);
  }

  time(event) {
    const [start, end] = this.page.span, box = this.canvas.getBoundingClientRect();
    return start + (end - start) * Math.min(1, Math.max(0, (event.clientX - box.left - 52) / (box.width - 60)));
  }

  seek(event) { this.page.pause(); this.page.seek(this.time(event)); }

  draw(now) {
    const { canvas, page, spec } = this, ratio = window.devicePixelRatio || 1, c = canvas.getContext("2d");
    const wide = canvas.clientWidth, high = canvas.clientHeight, [start, end] = page.span, { palette } = this.data;
    canvas.width = wide * ratio; canvas.height = high * ratio;
    c.scale(ratio, ratio);
    c.font = "11px system-ui, sans-serif";
    const seen = k => this.x[k] >= start && this.x[k] <= end, scaled = v => spec.log ? Math.log10(v) : v;
    let low = Infinity, top = -Infinity;
    for (const { y } of this.curves)
      for (let k = 0; k < y.length; k++) if (seen(k) && Number.isFinite(scaled(y[k]))) {
        low = Math.min(low, scaled(y[k])); top = Math.max(top, scaled(y[k]));
      }
    if (!(low <= top)) [low, top] = [0, 1];
    const room = 0.06 * (top - low) || 0.01 * Math.abs(top) || 1;
    [low, top] = [low - room, top + room];
    const px = t => 52 + (wide - 60) * (t - start) / (end - start), py = v => 4 + (high - 24) * (top - v) / (top - low);
    c.strokeStyle = palette.faint; c.fillStyle = palette.muted; c.lineWidth = 1;
    for (const t of ticks(start, end, Math.max(2, wide / 90))) {
      line(c, px(t), 4, px(t), high - 20);
      c.textAlign = "center"; c.fillText(shown(t), px(t), high - 6);
    }
    for (const v of ticks(low, top, 4)) {
      line(c, 52, py(v), wide - 8, py(v));
      c.textAlign = "right"; c.fillText(spec.words[v] ?? (spec.log ? `1e${shown(v)}` : shown(v)), 47, py(v) + 4);
    }
    c.save(); c.beginPath(); c.rect(52, 0, wide - 60, high - 20); c.clip();
    for (const { y, color, dash } of this.curves) {
      c.strokeStyle = color; c.lineWidth = 1.4; c.setLineDash(dash); c.beginPath();
      let drawing = false;
      for (let k = 0; k < y.length; k++) {
        const v = scaled(y[k]);
        if (!Number.isFinite(v)) { drawing = false; continue; }
        drawing ? c.lineTo(px(this.x[k]), py(v)) : c.moveTo(px(this.x[k]), py(v));
        drawing = true;
      }
      c.stroke();
    }
    c.setLineDash([]); c.strokeStyle = palette.alarm; c.lineWidth = 1; line(c, px(now), 0, px(now), high - 20);
    c.restore();
    let at = 0;
    while (at + 1 < this.x.length && this.x[at + 1] <= now) at++;
    for (const { y, value } of this.curves) value.textContent = Number.isFinite(y[at]) ? shown(y[at]) : "";
  }
}

const shown = v => Number(v.toPrecision(4)).toString();
function line(c, x0, y0, x1, y1) { c.beginPath(); c.moveTo(x0, y0); c.lineTo(x1, y1); c.stroke(); }
function ticks(low, high, most) {
  const raw = (high - low) / most, power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find(s => s * power >= raw * (1 - 1e-9)), found = [];
  for (let k = Math.ceil(low / step); k * step <= high; k++) found.push(Number((k * step).toPrecision(12)));
  return found;
}

class Page {
  constructor(data) {
    this.data = data; this.times = data.arrays.times; this.now = this.times[0] ?? 0; this.playing = false; this.due = true;
    this.whole = this.span = [this.times[0] ?? 0, this.times[this.times.length - 1] ?? 1];
    $("robot").textContent = data.robot; $("subtitle").textContent = data.subtitle; $("note").textContent = data.note;
    try { this.scene = new Scene($("scene"), $("labels"), data); } catch (error) { $("failure").textContent = error.message; }
    this.plots = data.plots.map(spec => new Plot($("plots"), spec, data, this));
    const slider = $("time");
    [slider.min, slider.max, slider.step] = [this.whole[0], this.whole[1], (this.whole[1] - this.whole[0]) / 2000 || 1];
    slider.oninput = () => { this.pause(); this.seek(Number(slider.value)); };
    $("play").onclick = () => this.playing ? this.pause() : this.play();
    $("back").onclick = () => this.step(-1); $("next").onclick = () => this.step(1);
    $("view").onclick = () => { this.scene?.reset(); this.due = true; };
    document.addEventListener("keydown", event => {
      const key = { " ": () => $("play").click(), ArrowLeft: () => this.step(-1), ArrowRight: () => this.step(1) }[event.key];
      if (key && !["SELECT", "BUTTON"].includes(event.target.tagName)) { event.preventDefault(); key(); }
    });
    for (const [time, kind, detail] of data.events) {
      const option = document.createElement("option");
      option.value = time; option.textContent = `${time.toFixed(3)} s  ${kind}  ${detail}`;
      $("events").append(option);
    }
    $("events").hidden = !data.events.length;
    $("events").onchange = () => { this.pause(); this.seek(Number($("events").value)); };
    this.handle($("scene"));
    new ResizeObserver(() => this.due = true).observe(document.body);
    const at = location.hash.match(/^#t=([\d.]+)$/);  // OUT.html#t=3.1 opens at 3.1 s
    if (at) this.seek(Number(at[1]));
    requestAnimationFrame(instant => this.tick(instant));
  }

  handle(canvas) {
    const held = new Map();
    canvas.addEventListener("pointerdown", event => { canvas.setPointerCapture(event.pointerId); held.set(event.pointerId, event); });
    for (const kind of ["pointerup", "pointercancel"]) canvas.addEventListener(kind, event => held.delete(event.pointerId));
    canvas.addEventListener("pointermove", event => {
      const before = held.get(event.pointerId), other = [...held.values()].find(each => each.pointerId !== event.pointerId);
      if (!before || !this.scene) return;
      const dx = event.clientX - before.clientX, dy = event.clientY - before.clientY;
      if (other) {
        const gap = each => Math.hypot(each.clientX - other.clientX, each.clientY - other.clientY) || 1;
        this.scene.eye = this.scene.eye.map(x => x * gap(before) / gap(event));
        this.scene.pan(dx / 2, dy / 2);
      } else if (event.shiftKey || event.buttons > 1) this.scene.pan(dx, dy);
      else this.scene.rotate(0.006 * dx, 0.006 * dy);
      held.set(event.pointerId, event); this.due = true;
    });
    canvas.addEventListener("wheel", event => {
      event.preventDefault();
      if (this.scene) this.scene.eye = this.scene.eye.map(x => x * Math.exp(0.001 * event.deltaY));
      this.due = true;
    }, { passive: false });
    canvas.addEventListener("dblclick", () => $("view").click());
    canvas.addEventListener("contextmenu", event => event.preventDefault());
  }

  get frame() {  // the last pose at or before the present
    let low = 0, high = this.times.length - 1;
    while (low < high) { const k = (low + high + 1) >> 1; this.times[k] <= this.now + 1e-6 ? low = k : high = k - 1; }
    return low;
  }

  seek(time) { this.now = Math.min(this.whole[1], Math.max(this.whole[0], time)); this.due = true; }
  step(by) { this.pause(); this.seek(this.times[Math.min(this.times.length - 1, Math.max(0, this.frame + by))]); }
  zoom(start, end) {
    const next = [Math.max(this.whole[0], start), Math.min(this.whole[1], end)];
    if (next[1] - next[0] > 1e-6) this.span = next;
    this.due = true;
  }
  play() { if (this.now >= this.whole[1]) this.now = this.whole[0]; this.playing = true; this.since = null; $("play").textContent = "❚❚"; }
  pause() { this.playing = false; $("play").textContent = "▶"; }

  tick(instant) {
    if (this.playing) {
      if (this.since !== null) this.seek(this.now + (instant - this.since) / 1000 * Number($("speed").value));
      this.since = instant;
      if (this.now >= this.whole[1]) this.pause();
    }
    if (this.due) {
      this.due = false;
      if (this.scene && this.times.length) { if ($("follow").checked) this.scene.follow(this.frame); this.scene.draw(this.frame); }
      this.plots.forEach(plot => plot.draw(this.now));
      $("time").value = this.now; $("now").textContent = `${this.now.toFixed(3)} s`;
      document.body.dataset.shown = this.now;
    }
    requestAnimationFrame(next => this.tick(next));
  }
}

unpacked($("data").textContent).then(data => { window.page = new Page(data); }).catch(error => { $("failure").textContent = error.message; });
