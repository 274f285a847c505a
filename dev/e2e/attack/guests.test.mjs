/**
 * Scripts that want everything: time of their room by hashing, memory by messages, JSON and matches, the log, and
 * the libraries of everybody else. A neighbour plays beside each, and a match beside those that run in a room.
 */
import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { http } from "../client.mjs";
import { throngOnly, within } from "../server.mjs";
import { besideNeighbour, CASE_MS_MAX, inParallel, NEIGHBOUR_MS_MAX, startVictim } from "./rig.mjs";

const MIB = 1 << 20;
/** A tick of the match that watches comes every so often. */
const TICK_MS = 50;
/** Lines of its scripts, and lines about their failures, that each thread logs in a second. */
const LOG_LINES_MAX = 100;

let server;
before(async () => {
  const options = { "engine.cores": 1, "engine.rooms": 1, "runtime.log_lines_per_second_max": LOG_LINES_MAX };
  if (!throngOnly.skip) server = await startVictim({ options });
});
after(() => server?.stop());

const rest = (ms) => new Promise((rested) => setTimeout(rested, ms));

async function rpc(id, payload = "") {
  const path = `/v2/rpc/${id}?http_key=${server.httpKey}&unwrap`;
  return http(server, "POST", path, { body: payload });
}

/** Starts a match that harms its room, beside one that watches; gives what both say after a while. */
async function inOneRoom(params, forMs = 1_500) {
  const create = async (params) => (await rpc("greedy_create", JSON.stringify(params))).text;
  const watching = await create({});
  await rest(5 * TICK_MS);
  const harming = await create(params);
  await rest(forMs);
  const ask = async (id) => rpc("greedy_signal", id);
  const watched = JSON.parse((await ask(watching)).text);
  assert.ok(watched.ticks > 10, JSON.stringify(watched));
  const waited = watched.worst_ms - TICK_MS;
  assert.ok(waited < NEIGHBOUR_MS_MAX, `the match beside waited ${waited} ms for its tick`);
  return ask(harming);
}

test("a match that hashes passwords waits for another thread, and its room ticks on", throngOnly, async () => {
  const { result } = await besideNeighbour(server, () => inOneRoom({ harm: "hash" }));
  assert.equal(result.status, 200, result.text);
  const { ticks, said } = JSON.parse(result.text);
  assert.ok(ticks >= 3 && said === undefined, result.text);
});

test("one callback sends a bounded number of bytes", throngOnly, async () => {
  const before = await server.residentBytes();
  const { result } = await besideNeighbour(server, () => inOneRoom({ harm: "broadcast" }));
  // It may also have run out of time before.
  if (result.status === 200) assert.match(JSON.parse(result.text).said, /match.broadcast_bytes_max/);
  const grown = (await server.residentBytes()) - before;
  assert.ok(grown < 200 * MIB, `${grown / MIB} MiB more`);
});

test("JSON that grows when it is decoded ends its match or call", throngOnly, async () => {
  const before = await server.residentBytes();
  let peak = before;
  const harm = async () => {
    const watch = setInterval(async () => (peak = Math.max(peak, await server.residentBytes())), 5);
    const match = await inOneRoom({ harm: "decode" });
    assert.notEqual(match.status, 200, match.text);
    const calls = await inParallel(2, 1, () => rpc("greedy_decode"));
    clearInterval(watch);
    assert.ok(calls.every(({ status }) => status === 500), JSON.stringify(calls));
  };
  await besideNeighbour(server, harm);
  assert.ok(peak - before < 900 * MIB, `${(peak - before) / MIB} MiB more`);
});

test("one call makes a bounded number of matches", throngOnly, async () => {
  const before = await server.residentBytes();
  const { result } = await besideNeighbour(server, () => rpc("greedy_matches"));
  const { made, why } = JSON.parse(result.text);
  assert.equal(made, 100);
  assert.match(why, /match.created_per_call_max/);
  const each = ((await server.residentBytes()) - before) / made;
  assert.ok(each < MIB, `${Math.round(each / 1024)} KiB for a match`);
});

test("a match that makes matches, which make more, leaves the others their ticks", throngOnly, async () => {
  const before = await server.counters();
  const { result } = await besideNeighbour(server, () => inOneRoom({ breeds: true }, 15_000));
  const { said } = JSON.parse(result.text);
  assert.match(said, /match.descendants_/);
  const { of } = await server.counters();
  // 1,000 at most, of which a slow machine makes fewer in that time; the first one, and who watches.
  const made = of("authoritative_matches") - before.of("authoritative_matches");
  const refused = of("match_descendants_refused");
  assert.ok(made > 300 && made <= 1_002 && refused > 1_000, `${made} made, ${refused} refused`);
  assert.equal((await rpc("greedy_create", "{}")).status, 200, "others are still made");
});

test("a flood of log lines is cut", throngOnly, async () => {
  await besideNeighbour(server, () => inParallel(4, 1, () => rpc("greedy_log")));
  assert.ok((await server.counters()).of("script_log_dropped") > 50_000);
});

test("a flood of failures is logged in part", throngOnly, async () => {
  const [failures, lines] = [10_000, server.heard(/rpc failed: /)];
  const dropped = async () => (await server.counters()).of("script_log_dropped");
  const [before, start] = [await dropped(), Date.now()];
  const { result } = await besideNeighbour(server, () => inParallel(failures, 16, () => rpc("hostile_fail")));
  for (const answer of result) assert.equal(answer.status, 500, answer.text);
  const seconds = (Date.now() - start) / 1_000;
  const left = (await dropped()) - before;
  // Lines come behind answers, by a thread of their own.
  const told = async () => {
    while (lines.length + left < failures) await rest(TICK_MS);
  };
  await within(told(), CASE_MS_MAX, () => `${lines.length} lines, ${left} left out`);
  const said = lines.length;
  console.log(`${failures} failures in ${seconds.toFixed(1)} s: ${said} lines`);
  assert.equal(said + left, failures);
  // Each of the threads that run such calls has a second begun, and one that ends.
  assert.ok(said < LOG_LINES_MAX * 4 * (seconds + 2), `${said} lines`);
});

test("what a call replaces is its own", throngOnly, async () => {
  const harm = () => inParallel(64, 2, () => rpc("greedy_globals"));
  const { result } = await besideNeighbour(server, harm);
  assert.ok(result.every(({ text }) => text === "done"), JSON.stringify(result[0]));
  const looks = await inParallel(64, 8, () => rpc("greedy_look"));
  for (const { text } of looks) assert.equal(text, "truexxab");
});
