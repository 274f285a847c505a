/**
 * Players who make as many matches as they can by a function that makes some for whoever calls it. One account has
 * its share, others make theirs still, and a match that runs beside has its ticks. Then the operator, for whom no
 * such bound holds, fills the server with matches, and it stops in time.
 *
 * Not here: matches that make matches (guests.test.mjs), and what a match costs in memory (memory.test.mjs).
 */
import { test } from "node:test";
import assert from "node:assert/strict";
import { bearer, http, newPlayer } from "../client.mjs";
import { throngOnly } from "../server.mjs";
import { besideNeighbour, inParallel, NEIGHBOUR_MS_MAX, startVictim } from "./rig.mjs";

/** `match.matches_per_user_max`, and `match.matches_max`. */
const PER_USER = 100;
const ALL = 10_000;
const CALLS = 400;
const TICK_MS = 50;

const make = (server, session, count) =>
  http(server, "POST", "/v2/rpc/many_empty_matches?unwrap", { headers: bearer(session), body: String(count) });

const byKey = (server, id, payload) =>
  http(server, "POST", `/v2/rpc/${id}?http_key=${server.httpKey}&unwrap`, { body: payload });

const made = async (server) => (await server.counters()).of("authoritative_matches");

test("one account makes its share of matches and leaves others theirs", throngOnly, async () => {
  const server = await startVictim({ options: { "engine.rooms": 1 } });
  try {
    const { session } = await newPlayer(server);
    const watching = (await byKey(server, "greedy_create", "{}")).text;
    const { result } = await besideNeighbour(server, () => inParallel(CALLS, 16, () => make(server, session, 20)));
    const refused = result.filter(({ status }) => status !== 200);
    // Calls that run side by side may each have made some when there are no more.
    assert.ok(result.length - refused.length <= PER_USER / 20 && refused.length > 0, `${refused.length} refused`);
    for (const { text } of refused) {
      assert.match(text, /match\.matches_per_user_max/);
      assert.doesNotMatch(text, /error creating match: error creating match/);
    }
    assert.equal(await made(server), PER_USER + 1);
    const { worst_ms, ticks } = JSON.parse((await byKey(server, "greedy_signal", watching)).text);
    assert.ok(ticks > 2 && worst_ms - TICK_MS < NEIGHBOUR_MS_MAX, `${worst_ms} ms between ${ticks} ticks`);
    const other = await newPlayer(server);
    assert.equal((await make(server, other.session, 20)).status, 200);
  } finally {
    await server.stop();
  }
});

test("a server full of matches stops in time", throngOnly, async () => {
  const server = await startVictim({ options: { "engine.rooms": 1 } });
  try {
    const answers = await inParallel(ALL / 100, 4, () => byKey(server, "many_empty_matches", "100"));
    assert.ok(answers.every(({ status }) => status === 200), answers.find(({ status }) => status !== 200)?.text);
    assert.equal(await made(server), ALL);
  } finally {
    // It fails unless the server leaves with code 0.
    const began = performance.now();
    await server.stop();
    console.log(`a stop with ${ALL} matches took ${Math.round(performance.now() - began)} ms`);
  }
});
