/**
 * A match that writes to storage every tick leaves its neighbours on time: fifty matches of the same room tick 20
 * times a second, each with a player who notes when he hears of each tick; in turns one match more writes in each of
 * its ticks, in Lua or in JavaScript, or none does. Lateness is a player's: of each tick since the tick that came to him first, by the ticks'
 * own schedule, in that round.
 *
 * In a third kind of round it writes where Lua cannot be interrupted, which keeps the room for as long as the write
 * takes. Nothing is promised of it; it shows what waiting is good for on this machine's disk.
 *
 * Environment: `LATENESS_ROUNDS` (3), `LATENESS_MS`, what is promised (25, which a machine with other work keeps, too), and
 * `LATENESS_RECORD`, a file that gets a line of JSON for each round.
 */
import { after, before, test } from "node:test";
import { appendFileSync } from "node:fs";
import assert from "node:assert/strict";
import { newPlayer, RawSocket } from "../client.mjs";
import { throngOnly, within } from "../server.mjs";
import { summary, watchMachine } from "./machine.mjs";
import { CASE_MS_MAX, inParallel, startVictim } from "./rig.mjs";

const NEIGHBOURS = 50;
/** As lateness_match.lua has it. */
const PERIOD_MS = 1000 / 20;
/** Ticks of a round that each player hears of at least. */
const TICKS = 50;
const ROUNDS = Number(process.env.LATENESS_ROUNDS ?? 3);
/** What a round's further match does, and in which module it is written. */
const MODES = {
  quiet: ["lateness_match", "quiet"],
  waits: ["lateness_match", "waits"],
  javascript: ["lateness_match_js", "waits"],
  keeps: ["lateness_match", "keeps"],
};
/** Those that write and are to leave the others on time. */
const PROMISED = ["waits", "javascript"];
/** By how much the 99th percentile may be higher than in quiet rounds; on a quiet machine 5 (results/writes). */
const LATER_MS_MAX = Number(process.env.LATENESS_MS ?? 25);

let server;
before(async () => {
  if (throngOnly.skip) return;
  server = await startVictim({ options: { "engine.rooms": 1, "runtime.js_entrypoint": "waiting.js" } });
  await watchMachine();
});
after(() => server?.stop());

/** A player of a match of his own; `heard` are ticks and when he heard of them. */
async function neighbour() {
  const { client, session } = await newPlayer(server);
  const { match_id } = (await client.rpc(session, "lateness_create", {})).payload;
  const raw = await RawSocket.open(server, session.token);
  await raw.request({ match_join: { match_id } });
  const player = { heard: [], raw, hears: () => {} };
  raw.frames.removeAllListeners("message");
  raw.frames.on("message", (data) => {
    const at = Number(process.hrtime.bigint()) / 1e6;
    const { match_data } = JSON.parse(data.toString());
    if (!match_data) return;
    player.heard.push([Number(Buffer.from(match_data.data, "base64")), at]);
    if (player.heard.length === TICKS) player.hears();
  });
  return player;
}

/** Waits until the player has heard of a round's ticks. */
function round(player) {
  const done = new Promise((hears) => Object.assign(player, { heard: [], hears }));
  return within(done, CASE_MS_MAX, () => `${player.heard.length} ticks were heard of`);
}

/** Of each tick of a round, of all players: when it was due, and by how much it came late. */
function lateness(players) {
  return players.flatMap(({ heard }) => {
    const offsets = heard.map(([tick, at]) => at - tick * PERIOD_MS);
    const earliest = Math.min(...offsets);
    return offsets.map((offset, place) => [earliest + heard[place][0] * PERIOD_MS, offset - earliest]);
  });
}

const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];

test(`a match that writes every tick leaves ${NEIGHBOURS} neighbours on time`, throngOnly, async (context) => {
  const players = await inParallel(NEIGHBOURS, 5, neighbour);
  const { client, session } = await newPlayer(server);
  const matches = {};
  for (const [module] of Object.values(MODES)) {
    matches[module] ??= (await client.rpc(session, "lateness_create", { module })).payload.match_id;
  }
  const setMode = async (module, mode) =>
    Number((await client.rpc(session, "lateness_mode", { match_id: matches[module], mode })).payload.written);
  const p99s = Object.fromEntries(Object.keys(MODES).map((name) => [name, []]));
  for (let number = 0; number < ROUNDS; number += 1) {
    for (const [name, [module, mode]] of Object.entries(MODES)) {
      await setMode(module, mode);
      await Promise.all(players.map(round));
      const late = summary(lateness(players));
      const written = await setMode(module, "quiet");
      assert.ok(mode === "quiet" ? written === 0 : written >= TICKS / 2, `${written} written: ${name}`);
      p99s[name].push(late.p99_ms);
      if (process.env.LATENESS_RECORD) {
        const line = { round: number, mode: name, written, ...late };
        appendFileSync(process.env.LATENESS_RECORD, `${JSON.stringify(line)}\n`);
      }
    }
  }
  players.forEach(({ raw }) => raw.close());
  const of = Object.fromEntries(Object.entries(p99s).map(([name, all]) => [name, median(all)]));
  const { quiet, waits, javascript, keeps } = of;
  context.diagnostic(
    `p99 of lateness: ${quiet} ms quiet, ${waits} ms while it writes, ${javascript} ms in JavaScript, ${keeps} ms where it keeps the room`,
  );
  for (const name of PROMISED) {
    assert.ok(of[name] - quiet <= LATER_MS_MAX, `p99 is ${quiet} ms, and ${of[name]} ms while a match writes (${name})`);
  }
});
