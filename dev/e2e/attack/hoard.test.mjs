/**
 * Players whose calls hold memory while they wait for another server, with dozens of accounts and as many calls as
 * each may have: together several times what the scripts of a thread may use. Theirs are ended. Those of a neighbour, who
 * waits for the same server and holds little, all come back, and whoever never waits is not kept waiting.
 *
 * Not here: memory that a call takes without waiting (guests.test.mjs), or leaves to its module (spent.test.mjs).
 */
import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { cp, mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bearer, http, newPlayer } from "../client.mjs";
import { throngOnly } from "../server.mjs";
import { OPEN, Target } from "../target.mjs";
import { besideNeighbour, startVictim } from "./rig.mjs";

const MEMORY_MAX_BYTES = 16 << 20;
const ACCOUNTS = 40;
/** Of each account at one time, and in all. */
const CALLS = 8;
const CALLS_EACH = 32;
const HELD_BYTES = 200_000;
/** What the neighbour's calls hold, and for how long they wait. */
const NEIGHBOUR_BYTES = 10_000;
const NEIGHBOUR_MS = 100;

let target;
before(async () => {
  if (!throngOnly.skip) target = await Target.start();
});
after(() => target?.stop());

/** A server whose scripts' threads have little memory, and may ask as much as they like. */
async function victim() {
  const dataDir = await mkdtemp(join(tmpdir(), "throng-hoard-"));
  const modules = join(dataDir, "modules");
  for (const module of ["../modules/e2e.lua", "../modules/e2e_match.lua", "hoard.lua"]) {
    await cp(new URL(module, import.meta.url), join(modules, module.split("/").pop()));
  }
  const few = { "engine.cores": 1, "engine.rooms": 1, "engine.workers": 1 };
  const open = { ...OPEN, "fetch.requests_max": 1024, "fetch.requests_per_user": 64, "fetch.requests_per_host": 1024 };
  return startVictim({ dataDir, options: { ...few, ...open, "runtime.memory_max_bytes": MEMORY_MAX_BYTES } });
}

const hoard = (server, session, bytes, path) =>
  http(server, "POST", "/v2/rpc/hoard?unwrap", {
    headers: bearer(session),
    body: JSON.stringify({ bytes, url: target.url(path) }),
  });

/** Sends the accounts' calls, so many of each at a time; gives the answers of those that were ended. */
async function hoardWithAll(server) {
  const sessions = [];
  for (let number = 0; number < ACCOUNTS; number++) sessions.push((await newPlayer(server)).session);
  const ended = [];
  const all = sessions.flatMap((session, account) =>
    Array.from({ length: CALLS }, async (_, lane) => {
      for (let count = 0; count < CALLS_EACH / CALLS; count++) {
        const answer = await hoard(server, session, HELD_BYTES, `/hold/${account}-${lane}-${count}`);
        if (answer.status !== 200) ended.push(answer);
      }
    }),
  );
  let areDone = false;
  const done = Promise.all(all).finally(() => (areDone = true));
  // What is still held when nothing more is ended goes on.
  for (let before = -1; !areDone; ) {
    await Promise.race([done, new Promise((resolve) => setTimeout(resolve, 1000))]);
    if (ended.length === before) target.releaseAll();
    before = ended.length;
  }
  await done;
  return ended;
}

test("calls that hoard memory while they wait are ended, and a neighbour's are not", throngOnly, async () => {
  const server = await victim();
  try {
    const said = server.heard(/hoard, called by user/);
    const failures = server.heard(/rpc failed/);
    const neighbour = await newPlayer(server);
    let isOver = false;
    const asks = async () => {
      const answers = [];
      while (!isOver) {
        const path = `/late/${NEIGHBOUR_MS}`;
        const four = Array.from({ length: 4 }, () => hoard(server, neighbour.session, NEIGHBOUR_BYTES, path));
        answers.push(...(await Promise.all(four)));
      }
      return answers;
    };
    const asked = asks();
    const harm = () => hoardWithAll(server).finally(() => (isOver = true));
    const { result: ended } = await besideNeighbour(server, harm);
    const answers = await asked;
    const lost = answers.filter(({ status }) => status !== 200);
    const counters = await server.counters();
    console.log(
      `${ended.length} of ${ACCOUNTS * CALLS_EACH} calls that hoard ended, ${lost.length} of the neighbour's ${answers.length}; ` +
        `scripts made anew ${counters.of("scripts_rebuilt")} times`,
    );
    assert.deepEqual(lost, []);
    assert.ok(answers.length > 0 && ended.length > 0);
    for (const { text } of ended) assert.match(text, /keep less while it waits, or raise runtime.memory_max_bytes/);
    assert.equal(counters.of("waiting_calls_ended"), ended.length);
    assert.equal(counters.of("scripts_rebuilt"), 0);
    // Once a second, not a line for each.
    assert.ok(said.length > 0 && said.length < ended.length / 10, `${said.length} lines`);
    assert.deepEqual(failures, []);
  } finally {
    await server.stop();
  }
});
