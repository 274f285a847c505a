/**
 * Flies a ship of the zone in a browser: finds and joins the zone, sends what the keys say, draws what is in sight.
 *
 * Data in: match data of the server, keys. Data out: controls, a picture. What packets mean is zone.mjs. Not here: sound,
 * prediction of one's own ship (it is drawn where the server says), touch, and the socket, which is client.mjs.
 */
import { Player } from "./client.mjs";
import { CONTROLS, NEWS, news, PLACE, place, plain, SCORE, score, SNAPSHOT, View, WELCOME, welcome } from "./zone.mjs";

const query = new URLSearchParams(location.search);
// A server that serves the page is the one to fly on.
const served = location.pathname.startsWith("/zone/");
const server = query.get("server") ?? (served ? location.host : "127.0.0.1:7350");
const secure = served && location.protocol === "https:";
const key = query.get("key") ?? "defaultkey";
const canvas = document.getElementById("sea");
const told = document.getElementById("told");
const feed = document.getElementById("feed");
const LINES_MAX = 8; // Of the news that are shown.
/** What is in sight; for tests, too. */
export const view = new View();
const held = new Set();
const metres = 260; // From the middle of the picture to its nearer edge.
export let ship; // What the welcome said.
let seq = 0;
let scored = { downed: 0, lost: 0, points: 0 };
let cameMs = 0; // When the newest snapshot came.
const second = { ms: performance.now(), snapshots: 0, bytes: 0, updates: 0, line: "" };

async function play() {
  const player = await Player.logIn(server, { key, secure });
  const [id] = await player.listMatches("+label.kind:zone");
  if (!id) throw new Error("the server has no zone: start it with --world.enabled true");
  player.onclose = () => (told.textContent += "\nthe server has closed the connection");
  player.onmatchdata = ({ op_code, data, length }) => {
    if (op_code === WELCOME) ship = welcome(data);
    if (op_code === PLACE) told.textContent = inLine(place(data));
    if (op_code === SCORE) scored = score(data);
    if (op_code === NEWS) show(news(data));
    if (op_code !== SNAPSHOT) return;
    second.updates += view.take(data);
    second.snapshots += 1;
    second.bytes += length;
    cameMs = performance.now();
    seq += 1;
    player.sendMatchState(id, CONTROLS, view.controls(seq, [wanted()]));
  };
  requestAnimationFrame(draw);
  await player.open();
  await player.joinMatch(id);
}

/** Who was shot down by whom, the newest at the bottom. */
function show(kills) {
  const name = ({ slot, name }) => (slot === ship?.slot ? "you" : name || "a bot");
  const lines = kills.map(({ victim, by, text }) => `${name(by)} shot down ${name(victim)}${text && `: ${text}`}`);
  feed.textContent = [...feed.textContent.split("\n").filter(Boolean), ...lines].slice(-LINES_MAX).join("\n");
}

/** What who waits to be let in is told. */
const inLine = ({ place, waiting }) => `the zone is full: you are number ${place} of ${waiting} who wait`;

/** What the keys say. */
function wanted() {
  const is = (...keys) => keys.some((one) => held.has(one));
  const turn = (is("ArrowLeft", "KeyA") ? 24 : 0) - (is("ArrowRight", "KeyD") ? 24 : 0);
  return { turn, thrust: is("ArrowUp", "KeyW") ? 3 : 0, fire: is("Space") };
}
addEventListener("keydown", (event) => held.add(event.code));
addEventListener("keyup", (event) => held.delete(event.code));

function draw(nowMs) {
  const [width, height] = [innerWidth, innerHeight];
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  const pen = canvas.getContext("2d");
  pen.fillStyle = "#05070d";
  pen.fillRect(0, 0, width, height);
  requestAnimationFrame(draw);
  if (!ship || view.tick === undefined) return;
  const perTickMs = 1e6 / (ship.tickRateHz * view.tau);
  const ahead = Math.min(4, Math.max(0, nowMs - cameMs) / perTickMs);
  const at = (known) => {
    const one = plain(known.records.get(known.newest));
    const ticks = view.tick - known.newest + ahead;
    return { ...one, x: one.x + one.vx * ticks, y: one.y + one.vy * ticks };
  };
  const own = view.known.get(ship.slot);
  const eye = own ? at(own) : { x: ship.bins * 32, y: ship.bins * 32, health: 0 };
  const scale = Math.min(width, height) / 2 / metres;
  const place = ({ x, y }) => [width / 2 + (x - eye.x) * scale, height / 2 - (y - eye.y) * scale];
  drawBins(pen, place, scale);
  for (const [slot, known] of view.known) drawShip(pen, at(known), place, scale, slot === ship.slot);
  pen.fillStyle = "#ffb84d66";
  for (const { bin, count, x, y } of view.summaries) {
    const [column, row] = [bin % ship.bins, Math.floor(bin / ship.bins)];
    const [left, top] = place({ x: (column + x / 256) * 64, y: (row + y / 256) * 64 });
    pen.beginPath();
    pen.arc(left, top, 2 + 2 * Math.sqrt(count), 0, 7);
    pen.fill();
  }
  tell(nowMs, eye);
}

/** The lines between bins, and the walls. */
function drawBins(pen, place, scale) {
  const side = ship.bins * 64;
  pen.lineWidth = 1;
  pen.strokeStyle = "#131c2e";
  for (let line = 0; line <= ship.bins; line += 1) {
    for (const ends of [[[line * 64, 0], [line * 64, side]], [[0, line * 64], [side, line * 64]]]) {
      pen.beginPath();
      ends.forEach(([x, y], index) => pen[index ? "lineTo" : "moveTo"](...place({ x, y })));
      pen.stroke();
    }
  }
  const [left, bottom] = place({ x: 0, y: 0 });
  pen.strokeStyle = "#36507c";
  pen.strokeRect(left, bottom - side * scale, side * scale, side * scale);
}

function drawShip(pen, one, place, scale, isOwn) {
  const [left, top] = place(one);
  const size = Math.max(4, 3 * scale);
  pen.save();
  pen.translate(left, top);
  pen.rotate(-one.heading);
  if (one.fired) {
    pen.fillStyle = "#ff5c3855";
    pen.beginPath();
    pen.moveTo(0, 0);
    pen.lineTo(32 * scale, 4 * scale);
    pen.lineTo(32 * scale, -4 * scale);
    pen.fill();
  }
  const whole = `hsl(${one.health * 8} 80% 60%)`;
  pen.fillStyle = one.health === 0 ? "#4a4f5a" : isOwn ? "#5ad1ff" : whole;
  pen.beginPath();
  pen.moveTo(size, 0);
  pen.lineTo(-size * 0.7, size * 0.6);
  pen.lineTo(-size * 0.7, -size * 0.6);
  pen.fill();
  pen.restore();
}

function tell(nowMs, eye) {
  if (nowMs - second.ms >= 1_000) {
    const kbit = ((second.bytes * 8) / 1_000).toFixed(0);
    second.line = `${second.snapshots} snapshots/s   ${second.updates} updates/s   ${kbit} kbit/s`;
    Object.assign(second, { ms: nowMs, snapshots: 0, bytes: 0, updates: 0 });
  }
  told.textContent =
    `tick ${view.tick}   time ${(view.tau / 10).toFixed(0)} %   health ${eye.health}\n` +
    `${view.known.size} ships in sight   at ${eye.x.toFixed(0)}, ${eye.y.toFixed(0)} m\n${second.line}`;
}

play().catch((error) => (told.textContent = error.message));
